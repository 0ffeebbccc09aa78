/* The schedule as a container: sizes, placement, costs, and one growing list of actions a rank. */
#include "schedule/schedule_impl.h"

#include "base/try.h" /* HR_TRY */

#include <stdlib.h>
#include <string.h>

void hr__place_loop(int ranks, int stages, int *map)
{
    for (int s = 0; s < stages; s++)
        map[s] = s % ranks;
}

void hr__place_v(int ranks, int stages, int *map)
{
    for (int s = 0; s < stages; s++)
        map[s] = s < ranks ? s : 2 * ranks - 1 - s;
}

static hr_status check_sizes(const hr_schedule_shape *h)
{
    if (h->ranks < 1 || h->stages < 1 || h->microbatches < 1)
        return hr_fail(
            HR_ERR_INVALID, "schedule_size",
            "a schedule of %d ranks, %d stages, %d microbatches: each must be "
            "at least 1",
            h->ranks, h->stages, h->microbatches);
    if (h->ranks > HR__MAX_STAGES || h->stages > HR__MAX_STAGES)
        return hr_fail(HR_ERR_INVALID, "schedule_size",
                       "%d ranks and %d stages: at most %d of each", h->ranks,
                       h->stages, HR__MAX_STAGES);
    if ((int64_t)h->stages * h->microbatches > HR__MAX_CELLS)
        return hr_fail(HR_ERR_INVALID, "schedule_size",
                       "%d stages times %d microbatches: at most %d together",
                       h->stages, h->microbatches, (int)HR__MAX_CELLS);
    if (h->pieces < 0 || (h->pieces > 1 && h->microbatches % h->pieces != 0))
        return hr_fail(HR_ERR_INVALID, "schedule_size",
                       "%d microbatches are not sequences of %d pieces each",
                       h->microbatches, h->pieces);
    return HR_OK;
}

static hr_status check_placement(const hr_schedule_shape *h)
{
    switch (h->placement) {
    case HR_PLACEMENT_LOOP:
        return HR_OK;
    case HR_PLACEMENT_V:
        if (h->stages != 2 * h->ranks)
            return hr_fail(HR_ERR_INVALID, "placement",
                           "placement v: %d stages on %d ranks, must be %d", h->stages,
                           h->ranks, 2 * h->ranks);
        return HR_OK;
    case HR_PLACEMENT_BIDIRECTIONAL:
        if (h->stages != h->ranks || h->microbatches % 2 != 0)
            return hr_fail(
                HR_ERR_INVALID, "placement",
                "placement bidirectional: %d stages on %d ranks, %d "
                "microbatches; as many stages as ranks, and an even number of "
                "microbatches",
                h->stages, h->ranks, h->microbatches);
        return HR_OK;
    case HR_PLACEMENT_MAP:
        if (h->rank_of_stage == NULL)
            return hr_fail(HR_ERR_INVALID, "placement", "placement map: no map");
        for (int s = 0; s < h->stages; s++)
            if (h->rank_of_stage[s] < -1 || h->rank_of_stage[s] >= h->ranks)
                return hr_fail(HR_ERR_INVALID, "placement",
                               "placement map: stage %d on rank %d of %d", s,
                               h->rank_of_stage[s], h->ranks);
        return HR_OK;
    }
    return hr_fail(HR_ERR_INVALID, "placement", "placement %d is none",
                   (int)h->placement);
}

static void place(hr_schedule *s, const int *map)
{
    s->half = s->microbatches;
    s->owner_late = s->owner;
    switch (s->placement) {
    case HR_PLACEMENT_LOOP:
        hr__place_loop(s->ranks, s->stages, s->owner);
        break;
    case HR_PLACEMENT_V:
        hr__place_v(s->ranks, s->stages, s->owner);
        break;
    case HR_PLACEMENT_MAP:
        memcpy(s->owner, map, (size_t)s->stages * sizeof *map);
        break;
    case HR_PLACEMENT_BIDIRECTIONAL:
        s->half = s->microbatches / 2;
        s->owner_late = s->owner + s->stages;
        for (int i = 0; i < s->stages; i++) {
            s->owner[i] = i;
            s->owner_late[i] = s->ranks - 1 - i;
        }
        break;
    }
}

hr_status hr_schedule_create(const hr_schedule_shape *shape, hr_schedule **out)
{
    HR_NEED(out);
    *out = NULL;
    if (shape == NULL)
        return hr_fail(HR_ERR_INVALID, "schedule_size", "a schedule without a shape");
    HR_CHECK_OPTS(shape, hr_schedule_shape);
    HR_TRY(check_sizes(shape));
    HR_TRY(check_placement(shape));
    hr_schedule *s = calloc(1, sizeof *s);
    if (s == NULL)
        goto nomem;
    s->ranks = shape->ranks;
    s->stages = shape->stages;
    s->microbatches = shape->microbatches;
    s->placement = shape->placement;
    s->forward_only = shape->forward_only;
    s->pieces = shape->pieces > 1 ? shape->pieces : 1;
    s->order = calloc((size_t)s->ranks, sizeof *s->order);
    s->owner = calloc(2 * (size_t)s->stages, sizeof *s->owner);
    s->cost = calloc((size_t)s->stages, sizeof *s->cost);
    if (s->order == NULL || s->owner == NULL || s->cost == NULL)
        goto nomem;
    place(s, shape->rank_of_stage);
    for (int i = 0; i < s->stages; i++)
        s->cost[i] = (hr_stage_cost){.f = HR_TICKS,
                                     .i = HR_TICKS,
                                     .w = HR_TICKS,
                                     .act_bytes = 1,
                                     .stash_bytes = 1};
    *out = s;
    return HR_OK;
nomem:
    hr_schedule_destroy(s);
    return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a schedule of %d ranks",
                   shape->ranks);
}

void hr_schedule_destroy(hr_schedule *s)
{
    if (s == NULL)
        return;
    for (int r = 0; s->order && r < s->ranks; r++)
        free(s->order[r].a);
    free(s->order);
    free(s->owner);
    free(s->cost);
    free(s);
}

static hr_status make_room(hr__order *o, int n)
{
    if (o->n + (size_t)n <= o->cap)
        return HR_OK;
    size_t cap = o->cap ? 2 * o->cap : 16;
    while (cap < o->n + (size_t)n)
        cap *= 2;
    hr_action *a = realloc(o->a, cap * sizeof *a);
    if (a == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %zu actions of a rank", cap);
    o->a = a;
    o->cap = cap;
    return HR_OK;
}

hr_status hr__append(hr_schedule *s, int rank, const hr_action *slot, int n, bool pair)
{
    hr__order *o = &s->order[rank];
    HR_TRY(make_room(o, n));
    for (int k = 0; k < n; k++) {
        hr_action a = slot[k];
        a.pair = pair ? (uint8_t)(n - k) : 0;
        if (!hr__has_microbatch(a.kind))
            a.microbatch = -1;
        s->lowered |= a.kind >= HR_ACTION_SEND_F && a.kind <= HR_ACTION_RECV_B;
        s->shards |= a.kind == HR_ACTION_UNSHARD || a.kind == HR_ACTION_RESHARD;
        s->reduces |= a.kind == HR_ACTION_REDUCE_GRAD;
        o->a[o->n++] = a;
    }
    return HR_OK;
}

hr_status hr_schedule_append(hr_schedule *s, int rank, const hr_action *slot, int n)
{
    HR_NEED(s);
    HR_NEED(slot);
    if (rank < 0 || rank >= s->ranks)
        return hr_fail(HR_ERR_INVALID, "rank_range", "rank %d of %d", rank, s->ranks);
    if (n < 1 || n > HR__MAX_PAIR)
        return hr_fail(HR_ERR_INVALID, "slot_size", "a slot of %d actions: 1 to %d", n,
                       HR__MAX_PAIR);
    for (int k = 0; k < n; k++) {
        const hr_action *a = &slot[k];
        if (a->kind > HR_ACTION_REDUCE_GRAD || (n > 1 && !hr__computes(a->kind)))
            return hr_fail(HR_ERR_INVALID, "action_kind",
                           "action %d of a slot of %d is of kind %d", k, n, a->kind);
        if (a->stage >= s->stages)
            return hr_fail(HR_ERR_INVALID, "stage_range", "stage %d of %d", a->stage,
                           s->stages);
        if (hr__has_microbatch(a->kind) &&
            (a->microbatch < 0 || a->microbatch >= s->microbatches))
            return hr_fail(HR_ERR_INVALID, "microbatch_range", "microbatch %d of %d",
                           (int)a->microbatch, s->microbatches);
    }
    return hr__append(s, rank, slot, n, n > 1);
}

void hr_schedule_get_shape(const hr_schedule *s, hr_schedule_shape *out)
{
    *out = (hr_schedule_shape){
        HR_INIT(hr_schedule_shape),
        .ranks = s->ranks,
        .stages = s->stages,
        .microbatches = s->microbatches,
        .placement = s->placement,
        .rank_of_stage = s->placement == HR_PLACEMENT_MAP ? s->owner : NULL,
        .forward_only = s->forward_only,
        .pieces = s->pieces,
    };
}

const hr_action *hr_schedule_order(const hr_schedule *s, int rank, size_t *n)
{
    bool there = rank >= 0 && rank < s->ranks;
    *n = there ? s->order[rank].n : 0;
    return there ? s->order[rank].a : NULL;
}

size_t hr_schedule_actions(const hr_schedule *s)
{
    size_t n = 0;
    for (int r = 0; r < s->ranks; r++)
        n += s->order[r].n;
    return n;
}

int hr_schedule_rank_of(const hr_schedule *s, int stage, int microbatch)
{
    if (stage < 0 || stage >= s->stages || microbatch < 0 ||
        microbatch >= s->microbatches)
        return -1;
    return hr__owner(s, stage, microbatch);
}

bool hr_schedule_is_lowered(const hr_schedule *s)
{
    return s->lowered || s->shards || s->reduces;
}

static bool same_order(const hr__order *a, const hr__order *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (a->a[i].microbatch != b->a[i].microbatch ||
            a->a[i].stage != b->a[i].stage || a->a[i].kind != b->a[i].kind ||
            a->a[i].pair != b->a[i].pair)
            return false;
    return true;
}

bool hr_schedule_equal(const hr_schedule *a, const hr_schedule *b)
{
    if (a->ranks != b->ranks || a->stages != b->stages ||
        a->microbatches != b->microbatches || a->forward_only != b->forward_only ||
        a->half != b->half || a->pieces != b->pieces)
        return false;
    size_t bytes = (size_t)a->stages * sizeof *a->owner;
    if (memcmp(a->owner, b->owner, bytes) != 0 ||
        memcmp(a->owner_late, b->owner_late, bytes) != 0)
        return false;
    for (int r = 0; r < a->ranks; r++)
        if (!same_order(&a->order[r], &b->order[r]))
            return false;
    return true;
}

static bool cost_ok(int64_t ticks)
{
    return ticks >= 0 && ticks <= HR__MAX_COST;
}

hr_status hr_schedule_set_cost(hr_schedule *s, int stage, const hr_stage_cost *cost)
{
    HR_NEED(s);
    HR_NEED(cost);
    if (stage < -1 || stage >= s->stages)
        return hr_fail(HR_ERR_INVALID, "stage_range", "cost of stage %d of %d", stage,
                       s->stages);
    if (!cost_ok(cost->f) || !cost_ok(cost->i) || !cost_ok(cost->w))
        return hr_fail(HR_ERR_INVALID, "cost_range",
                       "a cost of stage %d is below 0 or above a million units", stage);
    if (cost->stash_bytes < 0 || cost->stash_bytes > cost->act_bytes ||
        cost->act_bytes > HR__MAX_BYTES || cost->boundary_bytes < 0 ||
        cost->boundary_bytes > HR__MAX_BYTES)
        return hr_fail(HR_ERR_INVALID, "bytes_range",
                       "bytes of stage %d: activation %lld, of these stash %lld, "
                       "boundary %lld",
                       stage, (long long)cost->act_bytes, (long long)cost->stash_bytes,
                       (long long)cost->boundary_bytes);
    for (int i = stage < 0 ? 0 : stage; i < (stage < 0 ? s->stages : stage + 1); i++)
        s->cost[i] = *cost;
    return HR_OK;
}

void hr_schedule_get_cost(const hr_schedule *s, int stage, hr_stage_cost *out)
{
    bool there = stage >= 0 && stage < s->stages;
    *out = there ? s->cost[stage] : (hr_stage_cost){.f = 0};
}

hr_status hr_schedule_set_comm(hr_schedule *s, int64_t comm, int pair_discount)
{
    HR_NEED(s);
    if (!cost_ok(comm) || pair_discount < 0 || pair_discount > 100)
        return hr_fail(HR_ERR_INVALID, "cost_range",
                       "communication of %lld ticks, pairs %d percent shorter",
                       (long long)comm, pair_discount);
    s->comm = comm;
    s->pair_discount = pair_discount;
    return HR_OK;
}

hr_status hr_schedule_set_latency(hr_schedule *s, int64_t latency)
{
    HR_NEED(s);
    if (!cost_ok(latency))
        return hr_fail(HR_ERR_INVALID, "cost_range",
                       "a latency of %lld ticks is below 0 or above a million units",
                       (long long)latency);
    s->latency = latency;
    return HR_OK;
}

void hr_schedule_get_comm(const hr_schedule *s, int64_t *comm, int64_t *latency,
                          int *pair_discount)
{
    if (comm != NULL)
        *comm = s->comm;
    if (latency != NULL)
        *latency = s->latency;
    if (pair_discount != NULL)
        *pair_discount = s->pair_discount;
}
