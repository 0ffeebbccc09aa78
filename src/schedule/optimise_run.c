/* Runs a draft on paper, by the rules of the simulator, and finds places for its weight gradients on the
 * way. That needs no clock over all ranks: which of them fit in front of a turn follows from
 * when the turn's inputs are there, however late the rank learns of it. */
#include "schedule/optimise_draft.h"

#include "base/try.h" /* HR_TRY */
#include "schedule/best.h"
#include "schedule/peaks.h"

#include <stdlib.h>
#include <string.h>

typedef struct rank_run {
    int64_t left; /* ticks of work that are still to come */
    hr__held held;
    hr_action *put_off; /* weight gradients in order; [next, end) are to be done */
    int next, end;
    hr_action *done; /* all actions, as they were run */
    int n_done;
    bool ended;
} rank_run;

struct hr__runner {
    hr__replay replay; /* its times, inputs, and ranks that may go on */
    hr__limits limits;
    rank_run *rank;
    int ended;
};

hr_status hr__runner_create(const hr__draft *d, const hr__limits *limits,
                            hr__runner **out)
{
    const hr_schedule *s = d->of;
    size_t ranks = (size_t)s->ranks;
    *out = NULL;
    hr__runner *r = calloc(1, sizeof *r);
    hr_status st = r ? hr__replay_init(&r->replay, s, false, false) : HR_ERR_NOMEM;
    if (st < 0) {
        free(r);
        return r ? st : hr_fail(HR_ERR_NOMEM, NULL, "no memory to run a draft");
    }
    r->limits = *limits;
    r->rank = calloc(ranks, sizeof *r->rank);
    bool ok = r->rank != NULL;
    for (size_t k = 0; ok && k < ranks; k++) {
        size_t n = (size_t)d->line[k].room + 1;
        r->rank[k].put_off = malloc(2 * n * sizeof(hr_action));
        r->rank[k].done = malloc(2 * n * sizeof(hr_action));
        ok = r->rank[k].put_off && r->rank[k].done;
    }
    if (!ok) {
        hr__runner_destroy(r);
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to run a draft of %d ranks",
                       s->ranks);
    }
    *out = r;
    return HR_OK;
}

void hr__runner_destroy(hr__runner *r)
{
    if (r == NULL)
        return;
    for (int k = 0; r->rank && k < r->replay.s->ranks; k++) {
        free(r->rank[k].put_off);
        free(r->rank[k].done);
    }
    free(r->rank);
    hr__replay_fini(&r->replay);
    free(r);
}

static int64_t lasts(const hr__runner *r, const hr__turn *t)
{
    int64_t sum = 0;
    for (int k = 0; k < t->n; k++)
        sum += r->replay.lasts[t->a[k].stage][t->a[k].kind];
    return t->n > 1 ? sum * (100 - r->replay.s->pair_discount) / 100 : sum;
}

static void wake(hr__runner *r, int rank)
{
    hr__rank_state *q = &r->replay.rank[rank];
    if (q->queued)
        return;
    q->queued = true;
    q->wants = HR__NOTHING;
    r->replay.stack[r->replay.stacked++] = rank;
}

static void reset(hr__runner *r, const hr__draft *d)
{
    const hr_schedule *s = r->replay.s;
    memset(r->replay.f_end, 0, hr__cells(s) * sizeof *r->replay.f_end);
    memset(r->replay.b_end, 0, hr__cells(s) * sizeof *r->replay.b_end);
    memset(r->replay.rank, 0, (size_t)s->ranks * sizeof *r->replay.rank);
    r->replay.stacked = r->ended = 0;
    for (int k = s->ranks - 1; k >= 0; k--) {
        rank_run *q = &r->rank[k];
        *q = (rank_run){.put_off = q->put_off, .done = q->done};
        for (int i = 0; i < d->line[k].n; i++) {
            const hr__turn *t = &d->line[k].turn[i];
            q->left += lasts(r, t);
            for (int j = 0; j < t->n; j++)
                if (t->a[j].kind == HR_ACTION_I)
                    q->left += r->replay.lasts[t->a[j].stage][HR_ACTION_W];
        }
        wake(r, k);
    }
}

static void record(rank_run *q, const hr_action *a, int pair)
{
    q->done[q->n_done] = *a;
    q->done[q->n_done++].pair = (uint8_t)pair;
}

static void run_weight(hr__runner *r, int rank)
{
    rank_run *q = &r->rank[rank];
    const hr_action *w = &q->put_off[q->next++];
    int64_t length = r->replay.lasts[w->stage][HR_ACTION_W];
    hr__held_give_back(&q->held, w, &r->replay.s->cost[w->stage]);
    r->replay.rank[rank].clock += length;
    q->left -= length;
    record(q, w, 0);
}

static bool has_room(const hr__runner *r, const rank_run *q, const hr__turn *t)
{
    hr__held h = q->held;
    for (int k = 0; k < t->n; k++)
        hr__held_take(&h, &t->a[k], &r->replay.s->cost[t->a[k].stage]);
    return h.act <= r->limits.act && h.bytes <= r->limits.bytes;
}

/* When its inputs are there, or the rank is free; -1 if one is not known yet. */
static int64_t start_of(hr__runner *r, int rank, const hr__turn *t)
{
    hr__rank_state *me = &r->replay.rank[rank];
    int64_t start = me->clock;
    for (int k = 0; k < t->n; k++) {
        hr__input in[2];
        int n = hr__inputs(&r->replay, rank, &t->a[k], in);
        for (int j = 0; j < n; j++) {
            if (in[j].at < 0) {
                me->wants =
                    hr__key(hr__cell(r->replay.s, in[j].stage, t->a[k].microbatch),
                            in[j].backward);
                return -1;
            }
            start = in[j].at > start ? in[j].at : start;
        }
    }
    return start;
}

/* Weight gradients in front of a turn; false if there is still no room for it. */
static bool fill_gap(hr__runner *r, int rank, const hr__turn *t, int64_t start,
                     int slack)
{
    rank_run *q = &r->rank[rank];
    while (q->next < q->end) {
        int64_t length = r->replay.lasts[q->put_off[q->next].stage][HR_ACTION_W];
        int64_t late = r->replay.rank[rank].clock + length - start;
        if (late > length * slack / 100 && has_room(r, q, t))
            return true;
        run_weight(r, rank);
        if (start < r->replay.rank[rank].clock)
            start = r->replay.rank[rank].clock;
    }
    return has_room(r, q, t);
}

/* Whoever waits for the result goes on. */
static void deliver(hr__runner *r, int rank, const hr_action *a, int64_t end)
{
    const hr_schedule *s = r->replay.s;
    bool backward = a->kind != HR_ACTION_F;
    size_t cell = hr__cell(s, a->stage, a->microbatch);
    (backward ? r->replay.b_end : r->replay.f_end)[cell] = end + 1;
    int user = backward ? a->stage - 1 : a->stage + 1;
    if (user < 0 || user == s->stages)
        return;
    int other = hr__owner(s, user, a->microbatch);
    if (other != rank && r->replay.rank[other].wants == hr__key(cell, backward))
        wake(r, other);
}

static void run_turn(hr__runner *r, int rank, const hr__turn *t, int64_t start)
{
    rank_run *q = &r->rank[rank];
    hr__rank_state *me = &r->replay.rank[rank];
    const hr_stage_cost *cost = r->replay.s->cost;
    int64_t length = lasts(r, t);
    me->clock = (start > me->clock ? start : me->clock) + length;
    q->left -= length;
    for (int k = 0; k < t->n; k++)
        hr__held_take(&q->held, &t->a[k], &cost[t->a[k].stage]);
    for (int k = 0; k < t->n; k++) {
        const hr_action *a = &t->a[k];
        hr__held_give_back(&q->held, a, &cost[a->stage]);
        record(q, a, t->n > 1 ? t->n - k : 0);
        deliver(r, rank, a, me->clock);
        if (a->kind == HR_ACTION_I) {
            q->put_off[q->end] = *a;
            q->put_off[q->end++].kind = HR_ACTION_W;
        }
    }
    for (int k = 0; k < t->pins && q->next < q->end; k++)
        run_weight(r, rank);
}

/* As far as its inputs are there. False if the draft is of no use. */
static bool run_rank(hr__runner *r, int rank, const hr__line *line, int64_t cap)
{
    hr__rank_state *me = &r->replay.rank[rank];
    rank_run *q = &r->rank[rank];
    while (me->at < (size_t)line->n) {
        const hr__turn *t = &line->turn[me->at];
        int64_t start = start_of(r, rank, t);
        if (start < 0)
            return true;
        if (!fill_gap(r, rank, t, start, line->slack))
            return false;
        run_turn(r, rank, t, start);
        me->at++;
        if (me->clock + q->left > cap)
            return false;
    }
    if (q->ended)
        return true;
    while (q->next < q->end)
        run_weight(r, rank);
    q->ended = true;
    r->ended++;
    return true;
}

bool hr__run_draft(hr__runner *r, const hr__draft *d, int64_t cap, hr__worth *out)
{
    hr__replay *p = &r->replay;
    reset(r, d);
    while (p->stacked > 0) {
        int rank = p->stack[--p->stacked];
        p->rank[rank].queued = false;
        if (!run_rank(r, rank, &d->line[rank], cap))
            return false;
    }
    *out = (hr__worth){0};
    for (int k = 0; k < p->s->ranks; k++) {
        int64_t end = p->rank[k].clock;
        out->ends += end;
        out->makespan = end > out->makespan ? end : out->makespan;
    }
    return r->ended == p->s->ranks;
}

hr_status hr__runner_schedule(const hr__runner *r, hr_schedule **out)
{
    HR_TRY(hr__like(r->replay.s, out));
    hr_status st = HR_OK;
    for (int k = 0; k < r->replay.s->ranks; k++) {
        const rank_run *q = &r->rank[k];
        for (int i = 0; i < q->n_done && st >= 0; i += hr__slot(&q->done[i]))
            st = hr__append(*out, k, &q->done[i], hr__slot(&q->done[i]),
                            q->done[i].pair > 0);
    }
    if (st < 0) {
        hr_schedule_destroy(*out);
        *out = NULL;
    }
    return st;
}
