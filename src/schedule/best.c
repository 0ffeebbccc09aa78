/* Which of two schedules is better, and copies of a shape. */
#include "schedule/best.h"

#include "base/try.h" /* HR_TRY */
#include "schedule/peaks.h"
#include "schedule/replay.h"

#include <stdlib.h>
#include <string.h>

hr_status hr__like(const hr_schedule *s, hr_schedule **out)
{
    hr_schedule_shape shape;
    hr_schedule_get_shape(s, &shape);
    HR_TRY(hr_schedule_create(&shape, out));
    for (int i = 0; i < s->stages; i++)
        (*out)->cost[i] = s->cost[i];
    (*out)->comm = s->comm;
    (*out)->latency = s->latency;
    (*out)->pair_discount = s->pair_discount;
    return HR_OK;
}

static hr_status makespan_of(const hr_schedule *s, int64_t *out)
{
    hr__replay r;
    *out = INT64_MAX;
    HR_TRY(hr__replay_init(&r, s, false, false));
    if (hr_schedule_actions(s) > 0 && hr__replay_run(&r)) {
        *out = 0;
        for (int k = 0; k < s->ranks; k++)
            if (r.rank[k].clock > *out)
                *out = r.rank[k].clock;
    }
    hr__replay_fini(&r);
    return HR_OK;
}

/* Costs are never known well, so ties go to the one that bears others better: transfers of a tenth
 * of a forward and input gradients longer than weight gradients, or the other way round where
 * the costs have this already. */
static hr_status shaken_makespan(hr_schedule *s, int64_t *out)
{
    size_t bytes = (size_t)s->stages * sizeof *s->cost;
    hr_stage_cost *own = malloc(bytes);
    int64_t comm = s->comm;
    if (own == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the costs of %d stages",
                       s->stages);
    memcpy(own, s->cost, bytes);
    s->comm = comm == 0 ? own[0].f / 10 : 0;
    for (int i = 0; i < s->stages; i++) {
        hr_stage_cost *c = &s->cost[i];
        int64_t half = (own[i].i + own[i].w) / 2;
        c->i = comm == 0 ? own[i].i / 10 * 12 : half;
        c->w = comm == 0 ? own[i].w / 10 * 8 : half;
    }
    hr_status st = makespan_of(s, out);
    memcpy(s->cost, own, bytes);
    s->comm = comm;
    free(own);
    return st;
}

static int64_t held_of(const hr_schedule *s)
{
    int64_t held = 0;
    for (int k = 0; k < s->ranks; k++) {
        hr_rank_figures g;
        hr__peaks(s, k, &g);
        held += g.peak_act;
    }
    return held;
}

/* Of two with the same makespan. */
static hr_status breaks_tie(hr__build *b, hr_schedule *s, bool *take)
{
    int64_t shaken = 0;
    if (b->shaken == 0)
        HR_TRY(shaken_makespan(b->s, &b->shaken));
    HR_TRY(shaken_makespan(s, &shaken));
    *take = shaken < b->shaken || (shaken == b->shaken && held_of(s) < held_of(b->s));
    b->shaken = *take ? shaken : b->shaken;
    return HR_OK;
}

void hr__keep_better(hr__build *b, hr_schedule *s)
{
    int64_t makespan = 0;
    bool take = false;
    if (b->makespan == 0)
        b->st = makespan_of(b->s, &b->makespan);
    if (b->st >= 0)
        b->st = makespan_of(s, &makespan);
    if (b->st >= 0 && makespan < b->makespan) {
        take = true;
        b->shaken = 0;
    } else if (b->st >= 0 && makespan == b->makespan && makespan < INT64_MAX) {
        b->st = breaks_tie(b, s, &take);
    }
    hr_schedule_destroy(take ? b->s : s);
    if (take) {
        b->s = s;
        b->makespan = makespan;
    }
}
