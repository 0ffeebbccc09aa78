/* Merging: the orders are run once, rank by rank and slot by slot. A rank whose next two slots could be
 * a pair holds the first back until the second can start too, and takes both at once: what is
 * merged has run, so that the whole runs. Where nothing goes on any more, ranks that hold back wait
 * for each other in circles; of one such circle one rank gives its pair up. Each slot is run once,
 * so the time is linear in the actions but for the searches for a circle, which are short. */
#include "base/try.h"      /* HR_TRY */
#include "schedule/best.h" /* hr__like */

#include <stdlib.h>

typedef struct merging {
    const hr_schedule *s;
    hr_schedule *out;
    uint8_t *made; /* [cells] bit 0: its F; bit 1: its B or I */
    size_t *at;    /* [ranks] the next action */
    bool *alone;   /* [ranks] the next action is not to wait for the one after it */
    int *seen;     /* [ranks] the last search for a circle that came by */
    int searches;
    int pairs;
} merging;

static bool is_backward(const hr_action *a)
{
    return a->kind == HR_ACTION_B || a->kind == HR_ACTION_I;
}

/* The next two slots of the rank are a forward and a backward of different microbatches. Only
 * schedules without pairs get here, so a slot is an action. */
static bool could_be_pair(const merging *m, int rank)
{
    const hr__order *o = &m->s->order[rank];
    if (o->n - m->at[rank] < 2 || m->alone[rank])
        return false;
    const hr_action *a = &o->a[m->at[rank]];
    const hr_action *f = a[0].kind == HR_ACTION_F ? &a[0] : &a[1];
    const hr_action *b = f == a ? &a[1] : &a[0];
    return f->kind == HR_ACTION_F && is_backward(b) && f->microbatch != b->microbatch;
}

/* The rank that has yet to make what the action needs from another stage; -1: it is there. What it
 * needs from its own stage stands before it in the order, and not directly if they could be a
 * pair. */
static int lacks(const merging *m, const hr_action *a)
{
    const hr_schedule *s = m->s;
    if (a->kind == HR_ACTION_W)
        return -1;
    bool backward = is_backward(a);
    int from = backward ? a->stage + 1 : a->stage - 1;
    if (from < 0 || from == s->stages ||
        m->made[hr__cell(s, from, a->microbatch)] & (backward ? 2 : 1))
        return -1;
    return hr__owner(s, from, a->microbatch);
}

/* The rank that the next slot of this one waits for, a pair if it could be one; -1: it can start. */
static int waits_for(const merging *m, int rank)
{
    const hr_action *a = &m->s->order[rank].a[m->at[rank]];
    int other = lacks(m, &a[0]);
    return other < 0 && could_be_pair(m, rank) ? lacks(m, &a[1]) : other;
}

static void note(merging *m, const hr_action *a)
{
    if (a->kind != HR_ACTION_W)
        m->made[hr__cell(m->s, a->stage, a->microbatch)] |= is_backward(a) ? 2 : 1;
}

static hr_status take(merging *m, int rank)
{
    const hr_action *a = &m->s->order[rank].a[m->at[rank]];
    bool pair = could_be_pair(m, rank);
    bool turned = pair && a[0].kind != HR_ACTION_F;
    hr_action slot[2] = {a[turned], pair ? a[!turned] : a[0]};
    int n = pair ? 2 : 1;
    for (int k = 0; k < n; k++)
        note(m, &slot[k]);
    m->pairs += pair;
    m->at[rank] += (size_t)n;
    m->alone[rank] = false;
    return hr__append(m->out, rank, slot, n, pair);
}

static bool is_done(const merging *m, int rank)
{
    return m->at[rank] == m->s->order[rank].n;
}

/* One slot of each rank that can go on. */
static hr_status round_of_slots(merging *m, bool *went)
{
    *went = false;
    for (int r = 0; r < m->s->ranks; r++) {
        if (is_done(m, r) || waits_for(m, r) >= 0)
            continue;
        HR_TRY(take(m, r));
        *went = true;
    }
    return HR_OK;
}

/* It holds back an action that could start. */
static bool holds(const merging *m, int rank)
{
    const hr_action *a = &m->s->order[rank].a[m->at[rank]];
    return could_be_pair(m, rank) && lacks(m, a) < 0;
}

static bool holds_forward(const merging *m, int rank)
{
    return holds(m, rank) && m->s->order[rank].a[m->at[rank]].kind == HR_ACTION_F;
}

/* Every rank waits. The orders run without pairs, so on each circle of waiting ranks one holds back:
 * preferably one that holds a forward, since pairs with the backward first are possible side by
 * side on all ranks. False if no rank is left. */
static bool give_up_one(merging *m)
{
    int rank = 0;
    while (rank < m->s->ranks && is_done(m, rank))
        rank++;
    if (rank == m->s->ranks)
        return false;
    int search = ++m->searches;
    while (m->seen[rank] != search) {
        m->seen[rank] = search;
        rank = waits_for(m, rank);
    }
    int start = rank;
    int chosen = -1;
    do {
        if (holds_forward(m, rank) || (chosen < 0 && holds(m, rank)))
            chosen = rank;
        rank = waits_for(m, rank);
    } while (rank != start && (chosen < 0 || !holds_forward(m, chosen)));
    m->alone[chosen] = true;
    return true;
}

static hr_status run(merging *m)
{
    bool went;
    do {
        HR_TRY(round_of_slots(m, &went));
    } while (went || give_up_one(m));
    return HR_OK;
}

static hr_status merge(merging *m)
{
    const hr_schedule *s = m->s;
    HR_TRY(hr__like(s, &m->out));
    m->made = calloc(hr__cells(s), 1);
    m->at = calloc((size_t)s->ranks, sizeof *m->at);
    m->alone = calloc((size_t)s->ranks, sizeof *m->alone);
    m->seen = calloc((size_t)s->ranks, sizeof *m->seen);
    if (!m->made || !m->at || !m->alone || !m->seen)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to merge %zu actions into pairs",
                       hr_schedule_actions(s));
    return run(m);
}

static int count_pairs(const hr_schedule *s)
{
    int n = 0;
    for (int r = 0; r < s->ranks; r++) {
        const hr__order *o = &s->order[r];
        for (size_t i = 0; i < o->n; i += (size_t)hr__slot(&o->a[i]))
            n += o->a[i].pair > 1;
    }
    return n;
}

static hr_status copy(merging *m)
{
    HR_TRY(hr__like(m->s, &m->out));
    for (int r = 0; r < m->s->ranks; r++) {
        const hr__order *o = &m->s->order[r];
        for (size_t i = 0; i < o->n; i += (size_t)hr__slot(&o->a[i]))
            HR_TRY(
                hr__append(m->out, r, &o->a[i], hr__slot(&o->a[i]), o->a[i].pair > 0));
    }
    return HR_OK;
}

hr_status hr_schedule_merge_pairs(const hr_schedule *s, hr_schedule **out, int *pairs)
{
    HR_NEED(out);
    HR_NEED(pairs);
    *out = NULL;
    *pairs = 0;
    HR_NEED(s);
    if (hr_schedule_is_lowered(s))
        return hr_fail(HR_ERR_INVALID, "lowered",
                       "pairs are merged before communication is inserted");
    HR_TRY(hr_schedule_check(s, NULL, NULL));
    merging m = {.s = s, .pairs = count_pairs(s)};
    hr_status st = m.pairs > 0 ? copy(&m) : merge(&m);
    free(m.made);
    free(m.at);
    free(m.alone);
    free(m.seen);
    if (st < 0) {
        hr_schedule_destroy(m.out);
        return st;
    }
    *out = m.out;
    *pairs = m.pairs;
    return HR_OK;
}
