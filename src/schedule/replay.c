/* The replay in linear time: a rank runs until an input is missing and then notes the key of that
 * input; whoever makes it puts the rank back on the stack. Times do not depend on the order
 * in which the stack is worked off, since a slot's start is the latest of its inputs. */
#include "schedule/replay.h"

#include "base/try.h" /* HR_TRY */
#include "schedule/links.h"

#include <stdlib.h>

static hr_status fill_durations(hr__replay *r)
{
    const hr_schedule *s = r->s;
    int64_t longest = 1;
    for (int i = 0; i < s->stages; i++) {
        const hr_stage_cost *c = &s->cost[i];
        int64_t again = c->recompute ? c->f : 0;
        r->lasts[i][HR_ACTION_F] = c->f;
        r->lasts[i][HR_ACTION_B] = c->i + c->w + again;
        r->lasts[i][HR_ACTION_I] = c->i + again;
        r->lasts[i][HR_ACTION_W] = c->w;
        if (r->lasts[i][HR_ACTION_B] + c->f > longest)
            longest = r->lasts[i][HR_ACTION_B] + c->f;
    }
    longest += r->hop;
    if (hr_schedule_actions(s) > (size_t)(INT64_MAX / 100 / longest))
        return hr_fail(HR_ERR_INVALID, "cost_range",
                       "%zu actions of up to %lld units: the times would not fit",
                       hr_schedule_actions(s), (long long)(longest / HR_TICKS));
    return HR_OK;
}

static int64_t *cells(const hr_schedule *s)
{
    return calloc(hr__cells(s), sizeof(int64_t));
}

hr_status hr__replay_init(hr__replay *r, const hr_schedule *s, bool split_pairs,
                          bool rendezvous)
{
    *r = (hr__replay){.s = s,
                      .split_pairs = split_pairs,
                      .rendezvous = rendezvous && s->lowered,
                      .hop = hr__hop(s)};
    size_t ranks = (size_t)s->ranks;
    r->f_end = cells(s);
    r->b_end = cells(s);
    if (r->rendezvous) {
        r->f_in = cells(s);
        r->b_in = cells(s);
    }
    r->lasts = malloc((size_t)s->stages * sizeof *r->lasts);
    r->rank = calloc(ranks, sizeof *r->rank);
    r->stack = malloc(ranks * sizeof *r->stack);
    hr_status st;
    if (!r->f_end || !r->b_end || !r->lasts || !r->rank || !r->stack ||
        (r->rendezvous && (!r->f_in || !r->b_in)))
        st = hr_fail(HR_ERR_NOMEM, NULL, "no memory to run %zu actions",
                     hr_schedule_actions(s));
    else
        st = fill_durations(r);
    if (st < 0)
        hr__replay_fini(r);
    return st;
}

void hr__replay_fini(hr__replay *r)
{
    free(r->f_end);
    free(r->b_end);
    free(r->f_in);
    free(r->b_in);
    free(r->lasts);
    free(r->rank);
    free(r->stack);
    hr__links_destroy(r->links);
}

hr_status hr__replay_queue(hr__replay *r)
{
    if (r->rendezvous)
        return HR_OK;
    r->f_in = cells(r->s);
    r->b_in = cells(r->s);
    if (r->f_in == NULL || r->b_in == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the transfers of %zu actions",
                       hr_schedule_actions(r->s));
    return hr__links_create(r->s, &r->links);
}

static void push(hr__replay *r, int rank)
{
    hr__rank_state *q = &r->rank[rank];
    if (q->queued)
        return;
    q->queued = true;
    q->wants = HR__NOTHING;
    r->stack[r->stacked++] = rank;
}

static void made(hr__replay *r, int rank, const hr_action *a, bool backward)
{
    const hr_schedule *s = r->s;
    int user = backward ? a->stage - 1 : a->stage + 1;
    if (r->rendezvous || user < 0 || user == s->stages)
        return;
    int q = hr__owner(s, user, a->microbatch);
    if (q < 0 || q == rank)
        return;
    if (r->links != NULL) {
        int64_t leaves = hr__links_take(r->links, a, r->rank[rank].clock);
        (backward ? r->b_in : r->f_in)[hr__cell(s, user, a->microbatch)] =
            leaves + r->hop + 1;
    }
    if (r->rank[q].wants == hr__key(hr__cell(s, a->stage, a->microbatch), backward))
        push(r, q);
}

/* When the slot may start for all its inputs, -1 if one is missing. */
static int64_t inputs_at(hr__replay *r, int rank, const hr_action *slot, int n)
{
    hr__input in[2];
    int64_t start = r->rank[rank].clock;
    for (int k = 0; k < n; k++) {
        int count = hr__inputs(r, rank, &slot[k], in);
        for (int j = 0; j < count; j++) {
            if (in[j].at < 0) {
                r->rank[rank].wants = hr__key(
                    hr__cell(r->s, in[j].stage, slot[k].microbatch), in[j].backward);
                return -1;
            }
            if (in[j].at > start)
                start = in[j].at;
        }
    }
    return start;
}

static void note_gap(hr__rank_state *me, int64_t start)
{
    int64_t gap = start - me->computed;
    if (me->first < 0) {
        me->first = start;
    } else if (gap > 0) {
        me->gaps++;
        if (gap > me->longest_gap)
            me->longest_gap = gap;
    }
}

/* The next `n` actions of the rank ran from `start` until now. */
static void note_time(hr__rank_state *me, int64_t start, int n)
{
    for (int k = 0; me->time != NULL && k < n; k++)
        me->time[me->at + (size_t)k] = (hr_slot_time){start, me->clock};
}

static bool run_slot(hr__replay *r, int rank, const hr_action *slot, int n)
{
    hr__rank_state *me = &r->rank[rank];
    int64_t start = inputs_at(r, rank, slot, n);
    if (start < 0)
        return false;
    int64_t lasts = 0;
    for (int k = 0; k < n; k++)
        lasts += r->lasts[slot[k].stage][slot[k].kind];
    if (n > 1)
        lasts = lasts * (100 - r->s->pair_discount) / 100;
    note_gap(me, start);
    me->clock = me->computed = start + lasts;
    me->busy += lasts;
    note_time(me, start, n);
    for (int k = 0; k < n; k++) {
        const hr_action *a = &slot[k];
        size_t cell = hr__cell(r->s, a->stage, a->microbatch);
        if (a->kind == HR_ACTION_W)
            continue;
        bool backward = a->kind != HR_ACTION_F;
        (backward ? r->b_end : r->f_end)[cell] = me->clock + 1;
        made(r, rank, a, backward);
    }
    return true;
}

int hr__partner(const hr_schedule *s, const hr_action *a, hr_action *other)
{
    bool up = a->kind == HR_ACTION_SEND_F || a->kind == HR_ACTION_RECV_B;
    int stage = up ? a->stage + 1 : a->stage - 1;
    if (stage < 0 || stage >= s->stages)
        return -1;
    static const uint8_t meets[] = {[HR_ACTION_SEND_F] = HR_ACTION_RECV_F,
                                    [HR_ACTION_RECV_F] = HR_ACTION_SEND_F,
                                    [HR_ACTION_SEND_B] = HR_ACTION_RECV_B,
                                    [HR_ACTION_RECV_B] = HR_ACTION_SEND_B};
    *other = (hr_action){
        .microbatch = a->microbatch, .stage = (uint16_t)stage, .kind = meets[a->kind]};
    return hr__owner(s, stage, a->microbatch);
}

/* Both ends have to stand in front of the transfer; then both go past it. */
static bool run_transfer(hr__replay *r, int rank, const hr_action *a)
{
    const hr_schedule *s = r->s;
    hr_action other;
    int q = hr__partner(s, a, &other);
    if (q < 0 || q == rank)
        return false;
    hr__rank_state *me = &r->rank[rank];
    hr__rank_state *you = &r->rank[q];
    if (you->at == s->order[q].n)
        return false;
    const hr_action *b = &s->order[q].a[you->at];
    if (b->kind != other.kind || b->stage != other.stage ||
        b->microbatch != other.microbatch)
        return false;
    bool sends = a->kind == HR_ACTION_SEND_F || a->kind == HR_ACTION_SEND_B;
    const hr_action *from = sends ? a : b;
    const hr_action *to = sends ? b : a;
    bool backward = from->kind == HR_ACTION_SEND_B;
    size_t cell = hr__cell(s, from->stage, from->microbatch);
    if ((backward ? r->b_end : r->f_end)[cell] == 0)
        return false; /* it would be sent before it is made */
    int64_t end = (me->clock > you->clock ? me->clock : you->clock) + r->hop;
    (backward ? r->b_in : r->f_in)[hr__cell(s, to->stage, to->microbatch)] = end + 1;
    me->clock = you->clock = end;
    note_time(me, end - r->hop, 1);
    note_time(you, end - r->hop, 1);
    you->at++;
    push(r, q);
    return true;
}

static void run_rank(hr__replay *r, int rank)
{
    const hr__order *o = &r->s->order[rank];
    hr__rank_state *me = &r->rank[rank];
    while (me->at < o->n) {
        const hr_action *a = &o->a[me->at];
        int n = r->split_pairs ? 1 : hr__slot(a);
        if (hr__computes(a->kind)) {
            if (!run_slot(r, rank, a, n))
                return;
        } else if (r->rendezvous && hr__has_microbatch(a->kind)) {
            if (!run_transfer(r, rank, a))
                return;
        } else {
            note_time(me, me->clock, 1);
        }
        me->at += (size_t)n;
    }
}

bool hr__replay_run(hr__replay *r)
{
    for (int k = r->s->ranks - 1; k >= 0; k--) {
        r->rank[k].first = -1;
        push(r, k);
    }
    while (r->stacked > 0) {
        int rank = r->stack[--r->stacked];
        r->rank[rank].queued = false;
        run_rank(r, rank);
    }
    for (int k = 0; k < r->s->ranks; k++)
        if (r->rank[k].at < r->s->order[k].n)
            return false;
    return true;
}
