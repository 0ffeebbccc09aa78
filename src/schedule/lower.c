/* Lowering: the computations of all ranks are put down in one global order, round by round, and
 * the communication with them. */
#include "base/try.h"      /* HR_TRY */
#include "schedule/best.h" /* hr__like */
#include "schedule/weights_ahead.h"

#include <stdlib.h>

typedef struct lowering {
    const hr_schedule *s;
    hr_lower_opts opts;
    hr_schedule *out;
    hr_schedule *local; /* the orders with what a rank does by itself put in */
    uint8_t *there; /* [cells] bit 0: its F is where it is used; bit 1: its B or I */
    size_t *at;     /* [ranks] the next action of `local` */
    int *left;      /* [stages] weight gradients still to come on this rank */
    bool *gathered; /* [stages] on this rank */
} lowering;

static bool makes_gradient(const hr_action *a)
{
    return a->kind == HR_ACTION_B || a->kind == HR_ACTION_W;
}

static hr_status put(hr_schedule *s, int rank, hr_action_kind kind, int stage,
                     int microbatch)
{
    hr_action a = {
        .microbatch = microbatch, .stage = (uint16_t)stage, .kind = (uint8_t)kind};
    return hr__append(s, rank, &a, 1, false);
}

static bool among(const hr__ahead *next, int stage)
{
    for (int k = 0; k < next->n; k++)
        if (next->stage[k] == stage)
            return true;
    return false;
}

static int by_number(const void *a, const void *b)
{
    return *(const uint16_t *)a - *(const uint16_t *)b;
}

/* The stages gathered on a rank, never more than a look ahead has. */
typedef struct active {
    int n;
    uint16_t stage[HR__AHEAD];
} active;

static hr_status change_weights(lowering *w, int rank, active *have,
                                const hr__ahead *next)
{
    int kept = 0;
    for (int k = 0; k < have->n; k++) {
        if (among(next, have->stage[k])) {
            have->stage[kept++] = have->stage[k];
            continue;
        }
        w->gathered[have->stage[k]] = false;
        HR_TRY(put(w->local, rank, HR_ACTION_RESHARD, have->stage[k], -1));
    }
    have->n = kept;
    for (int k = 0; k < next->n; k++) {
        if (w->gathered[next->stage[k]])
            continue;
        w->gathered[next->stage[k]] = true;
        have->stage[have->n++] = next->stage[k];
        HR_TRY(put(w->local, rank, HR_ACTION_UNSHARD, next->stage[k], -1));
    }
    qsort(have->stage, (size_t)have->n, sizeof have->stage[0], by_number);
    return HR_OK;
}

static hr_status put_reductions(lowering *w, int rank, const hr_action *slot, int n)
{
    for (int k = 0; k < n; k++)
        if (makes_gradient(&slot[k]) && --w->left[slot[k].stage] == 0 &&
            !w->opts.no_reduce)
            HR_TRY(put(w->local, rank, HR_ACTION_REDUCE_GRAD, slot[k].stage, -1));
    return HR_OK;
}

/* Gathers, reshards and reductions of one rank. */
static hr_status lower_rank(lowering *w, int rank, const hr__ahead *ahead)
{
    const hr__order *o = &w->s->order[rank];
    const hr__ahead none = {.n = 0};
    active have = {0};
    for (size_t i = 0; i < o->n; i++)
        w->left[o->a[i].stage] += makes_gradient(&o->a[i]);
    for (size_t i = 0; i < o->n; i += (size_t)hr__slot(&o->a[i])) {
        const hr_action *a = &o->a[i];
        if (ahead != NULL)
            HR_TRY(change_weights(w, rank, &have, &ahead[i]));
        HR_TRY(hr__append(w->local, rank, a, hr__slot(a), a->pair > 0));
        HR_TRY(put_reductions(w, rank, a, hr__slot(a)));
    }
    return change_weights(w, rank, &have, &none);
}

static hr_status lower_ranks(lowering *w)
{
    for (int r = 0; r < w->s->ranks; r++) {
        hr__ahead *ahead = NULL;
        if (w->opts.shards && (ahead = hr__look_ahead(&w->s->order[r])) == NULL)
            return hr_fail(HR_ERR_NOMEM, NULL, "no memory to lower a schedule");
        hr_status st = lower_rank(w, r, ahead);
        free(ahead);
        HR_TRY(st);
    }
    return HR_OK;
}

static bool is_backward(const hr_action *a)
{
    return a->kind == HR_ACTION_B || a->kind == HR_ACTION_I;
}

/* Its value from another stage is on the rank: what is made on the rank itself stands before it
 * in the order, since the schedule was checked. */
static bool has_input(const lowering *w, const hr_action *a)
{
    const hr_schedule *s = w->s;
    if (a->kind == HR_ACTION_F)
        return a->stage == 0 || w->there[hr__cell(s, a->stage - 1, a->microbatch)] & 1;
    if (is_backward(a))
        return a->stage + 1 == s->stages ||
               w->there[hr__cell(s, a->stage + 1, a->microbatch)] & 2;
    return true;
}

/* The value that `a` made goes to the rank that uses it. */
static hr_status put_transfer(lowering *w, int rank, const hr_action *a)
{
    const hr_schedule *s = w->s;
    bool back = is_backward(a);
    if (a->kind != HR_ACTION_F && !back)
        return HR_OK;
    w->there[hr__cell(s, a->stage, a->microbatch)] |= back ? 2 : 1;
    int user = back ? a->stage - 1 : a->stage + 1;
    if (user < 0 || user == s->stages)
        return HR_OK;
    int to = hr__owner(s, user, a->microbatch);
    if (to == rank)
        return HR_OK;
    HR_TRY(put(w->out, rank, back ? HR_ACTION_SEND_B : HR_ACTION_SEND_F, a->stage,
               a->microbatch));
    return put(w->out, to, back ? HR_ACTION_RECV_B : HR_ACTION_RECV_F, user,
               a->microbatch);
}

/* One slot of a rank, if its inputs are there. */
static hr_status step(lowering *w, int rank, bool *went)
{
    const hr__order *o = &w->local->order[rank];
    if (w->at[rank] == o->n)
        return HR_OK;
    const hr_action *a = &o->a[w->at[rank]];
    int n = hr__slot(a);
    for (int k = 0; k < n; k++)
        if (!has_input(w, &a[k]))
            return HR_OK;
    HR_TRY(hr__append(w->out, rank, a, n, a->pair > 0));
    for (int k = 0; k < n; k++)
        HR_TRY(put_transfer(w, rank, &a[k]));
    w->at[rank] += (size_t)n;
    *went = true;
    return HR_OK;
}

static hr_status interleave(lowering *w)
{
    bool went = true;
    while (went) {
        went = false;
        for (int r = 0; r < w->s->ranks; r++)
            HR_TRY(step(w, r, &went));
    }
    return HR_OK; /* the check has seen that all ranks get to their ends */
}

static hr_status lower(lowering *w)
{
    HR_TRY(hr__like(w->s, &w->local));
    HR_TRY(hr__like(w->s, &w->out));
    w->there = calloc(hr__cells(w->s), 1);
    w->at = calloc((size_t)w->s->ranks, sizeof *w->at);
    w->left = calloc((size_t)w->s->stages, sizeof *w->left);
    w->gathered = calloc((size_t)w->s->stages, sizeof *w->gathered);
    if (!w->there || !w->at || !w->left || !w->gathered)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to lower a schedule");
    HR_TRY(lower_ranks(w));
    return interleave(w);
}

hr_status hr_schedule_lower(const hr_schedule *s, const hr_lower_opts *opts,
                            hr_schedule **out)
{
    HR_NEED(out);
    *out = NULL;
    HR_NEED(s);
    HR_CHECK_OPTS(opts, hr_lower_opts);
    if (hr_schedule_is_lowered(s))
        return hr_fail(HR_ERR_INVALID, "lowered",
                       "the schedule has communication already");
    HR_TRY(hr_schedule_check(s, NULL, NULL));
    lowering w = {.s = s};
    if (opts != NULL)
        w.opts = *opts;
    hr_status st = lower(&w);
    hr_schedule_destroy(w.local);
    free(w.there);
    free(w.at);
    free(w.left);
    free(w.gathered);
    if (st < 0)
        hr_schedule_destroy(w.out);
    else
        *out = w.out;
    return st;
}
