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

typedef struct worth {
    int64_t makespan; /* INT64_MAX: cannot run */
    int64_t shaken;   /* makespan under somewhat other costs */
    int64_t held;     /* sum of the peaks of all ranks */
} worth;

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

static hr_status weigh(hr_schedule *s, worth *out)
{
    *out = (worth){.shaken = INT64_MAX};
    HR_TRY(makespan_of(s, &out->makespan));
    if (out->makespan < INT64_MAX)
        HR_TRY(shaken_makespan(s, &out->shaken));
    for (int k = 0; k < s->ranks; k++) {
        hr_rank_figures g;
        hr__peaks(s, k, &g);
        out->held += g.peak_act;
    }
    return HR_OK;
}

static bool better(const worth *a, const worth *b)
{
    if (a->makespan != b->makespan)
        return a->makespan < b->makespan;
    if (a->shaken != b->shaken)
        return a->shaken < b->shaken;
    return a->held < b->held;
}

void hr__keep_better(hr__build *b, hr_schedule *s)
{
    worth now;
    worth then;
    b->st = weigh(b->s, &now);
    if (b->st >= 0)
        b->st = weigh(s, &then);
    bool take = b->st >= 0 && better(&then, &now);
    hr_schedule_destroy(take ? b->s : s);
    if (take)
        b->s = s;
}
