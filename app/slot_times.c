/* Each rank goes on as far as its inputs are there, rank after rank, until all are through. */
#include "slot_times.h"
#include "app_try.h"

#include <stdlib.h>
#include <string.h>

typedef struct replay {
    const hr_schedule *s;
    hr_schedule_shape shape;
    int64_t comm;
    int discount;
    int64_t *f_end, *b_end; /* [stages * microbatches]; -1: not yet */
    size_t *at;             /* [ranks] the next action */
    slot_times *t;
} replay;

static size_t cell(const replay *r, int stage, int microbatch)
{
    return (size_t)stage * (size_t)r->shape.microbatches + (size_t)microbatch;
}

/* When the output of `stage` is there for `rank`; -1: not yet. */
static int64_t arrives(const replay *r, const int64_t *end, int stage, int microbatch,
                       int rank)
{
    if (stage < 0 || stage >= r->shape.stages)
        return 0;
    int64_t at = end[cell(r, stage, microbatch)];
    bool own = hr_schedule_rank_of(r->s, stage, microbatch) == rank;
    return at < 0 || own ? at : at + r->comm;
}

static int64_t later(int64_t a, int64_t b)
{
    return a < 0 || b < 0 ? -1 : a > b ? a : b;
}

/* When all that `a` needs is there; -1: not yet. */
static int64_t ready(const replay *r, const hr_action *a, int rank)
{
    int stage = a->stage;
    if (a->kind == HR_ACTION_F)
        return arrives(r, r->f_end, stage - 1, a->microbatch, rank);
    if (a->kind == HR_ACTION_W)
        return arrives(r, r->b_end, stage, a->microbatch, rank);
    return later(arrives(r, r->f_end, stage, a->microbatch, rank),
                 arrives(r, r->b_end, stage + 1, a->microbatch, rank));
}

static int64_t lasts(const replay *r, const hr_action *a, int n)
{
    int64_t sum = 0;
    for (int k = 0; k < n; k++) {
        hr_stage_cost c;
        hr_schedule_get_cost(r->s, a[k].stage, &c);
        bool i = a[k].kind == HR_ACTION_I || a[k].kind == HR_ACTION_B;
        bool w = a[k].kind == HR_ACTION_W || a[k].kind == HR_ACTION_B;
        bool f = a[k].kind == HR_ACTION_F || (i && c.recompute);
        sum += (f ? c.f : 0) + (i ? c.i : 0) + (w ? c.w : 0);
    }
    return n > 1 ? sum * (100 - r->discount) / 100 : sum;
}

/* The next slot of `rank`; false where it has to wait or is through. */
static bool run_slot(replay *r, int rank)
{
    size_t n = 0;
    const hr_action *order = hr_schedule_order(r->s, rank, &n);
    if (r->at[rank] == n)
        return false;
    const hr_action *a = &order[r->at[rank]];
    int actions = a->pair ? a->pair : 1;
    timed_slot *next = r->t->slot + r->t->first[rank] + r->t->n[rank];
    int64_t begin = r->t->n[rank] > 0 ? next[-1].end : 0;
    for (int k = 0; k < actions; k++)
        begin = later(begin, ready(r, &a[k], rank));
    if (begin < 0)
        return false;
    int64_t end = begin + lasts(r, a, actions);
    for (int k = 0; k < actions; k++) {
        size_t c = cell(r, a[k].stage, a[k].microbatch);
        if (a[k].kind == HR_ACTION_F)
            r->f_end[c] = end;
        else if (a[k].kind != HR_ACTION_W)
            r->b_end[c] = end;
    }
    *next = (timed_slot){begin, end, a, actions};
    r->t->n[rank]++;
    r->at[rank] += (size_t)actions;
    r->t->makespan = end > r->t->makespan ? end : r->t->makespan;
    if (end > begin && (r->t->shortest == 0 || end - begin < r->t->shortest))
        r->t->shortest = end - begin;
    return true;
}

/* Memory for the answer and for the replay; fini() and free() take what there is. */
static hr_status make_room(replay *r)
{
    size_t ranks = (size_t)r->shape.ranks, actions = hr_schedule_actions(r->s);
    size_t cells = (size_t)r->shape.stages * (size_t)r->shape.microbatches;
    r->t->ranks = r->shape.ranks;
    r->t->first = calloc(ranks, sizeof *r->t->first);
    r->t->n = calloc(ranks, sizeof *r->t->n);
    r->t->slot = calloc(actions + 1, sizeof *r->t->slot);
    r->at = calloc(ranks, sizeof *r->at);
    r->f_end = malloc(cells * sizeof *r->f_end);
    r->b_end = malloc(cells * sizeof *r->b_end);
    if (!r->t->first || !r->t->n || !r->t->slot || !r->at || !r->f_end || !r->b_end)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to draw %zu actions", actions);
    memset(r->f_end, -1, cells * sizeof *r->f_end);
    memset(r->b_end, -1, cells * sizeof *r->b_end);
    size_t first = 0, n = 0;
    for (int k = 0; k < r->shape.ranks; k++, first += n) {
        r->t->first[k] = first;
        hr_schedule_order(r->s, k, &n);
    }
    return HR_OK;
}

static hr_status run_all(replay *r)
{
    size_t left = hr_schedule_actions(r->s);
    for (bool moved = true; moved;) {
        moved = false;
        for (int k = 0; k < r->shape.ranks; k++)
            while (run_slot(r, k))
                moved = true;
    }
    for (int k = 0; k < r->shape.ranks; k++)
        left -= r->at[k];
    if (left > 0)
        return hr_fail(HR_ERR_INVALID, "deadlock",
                       "cannot draw: %zu actions wait for ever", left);
    return HR_OK;
}

hr_status hr_app_slot_times_make(const hr_schedule *s, int64_t comm, int pair_discount,
                                 slot_times *out)
{
    *out = (slot_times){0};
    replay r = {.s = s,
                .shape = {HR_INIT(hr_schedule_shape)},
                .comm = comm,
                .discount = pair_discount,
                .t = out};
    hr_schedule_get_shape(s, &r.shape);
    hr_status st = make_room(&r);
    if (st >= 0)
        st = run_all(&r);
    free(r.at);
    free(r.f_end);
    free(r.b_end);
    if (st < 0)
        hr_app_slot_times_fini(out);
    return st;
}

void hr_app_slot_times_fini(slot_times *t)
{
    free(t->first);
    free(t->n);
    free(t->slot);
    *t = (slot_times){0};
}

int hr_app_chunk_of(const hr_schedule_shape *shape, const hr_action *a, int *chunks)
{
    bool both_ways = shape->placement == HR_PLACEMENT_BIDIRECTIONAL;
    *chunks = both_ways ? 2 : shape->stages / shape->ranks;
    return both_ways ? a->microbatch >= shape->microbatches / 2
                     : a->stage / shape->ranks;
}
