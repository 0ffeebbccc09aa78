/* Costs and limits of the schedules that are compared, and the budget. */
#include "schedule/optimise_goal.h"

#include "base/try.h" /* HR_TRY */
#include "schedule/peaks.h"

#include <limits.h>
#include <time.h>

enum {
    LOOK = 256, /* steps between looks at the clock */
    PLACEMENTS = 1u << HR_PLACEMENT_LOOP | 1u << HR_PLACEMENT_V |
                 1u << HR_PLACEMENT_BIDIRECTIONAL,
    /* Actions of all steps together when no number of steps is given; and steps. */
    WORTH = 36000000,
    MOST_STEPS = 100000,
};

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static hr_status check_sizes(const hr_optimise_opts *o)
{
    if (o->ranks < 1 || o->microbatches < 1 || o->chunks < 1)
        return hr_fail(HR_ERR_INVALID, "optimise_option",
                       "to optimise %d ranks, %d chunks a rank, %d microbatches: each "
                       "must be at least 1",
                       o->ranks, o->chunks, o->microbatches);
    if ((int64_t)o->ranks * o->chunks > HR__MAX_STAGES ||
        (int64_t)o->ranks * o->chunks * o->microbatches > HR__MAX_CELLS)
        return hr_fail(
            HR_ERR_INVALID, "optimise_option",
            "to optimise %d ranks, %d chunks a rank, %d microbatches: at most "
            "%d stages, and %d stages times microbatches",
            o->ranks, o->chunks, o->microbatches, HR__MAX_STAGES, HR__MAX_CELLS);
    return HR_OK;
}

static hr_status check(const hr_optimise_opts *o)
{
    HR_TRY(check_sizes(o));
    if ((o->placements & ~(unsigned)PLACEMENTS) != 0)
        return hr_fail(HR_ERR_INVALID, "optimise_option",
                       "placements 0x%x: loop, V and bidirectional are 0x%x",
                       o->placements, (unsigned)PLACEMENTS);
    if (o->max_act < 0 || o->max_bytes < 0 || !(o->seconds >= 0) || o->comm < 0 ||
        o->latency < 0)
        return hr_fail(HR_ERR_INVALID, "optimise_option",
                       "limits of %d activations, %lld bytes, %g s, transfers of %lld "
                       "and %lld ticks: none may be below 0",
                       o->max_act, (long long)o->max_bytes, o->seconds,
                       (long long)o->comm, (long long)o->latency);
    if (o->cost != NULL && o->costs != 1 && o->costs != o->ranks * o->chunks)
        return hr_fail(HR_ERR_INVALID, "optimise_option",
                       "%d costs for %d stages: one for each, or one for all", o->costs,
                       o->ranks * o->chunks);
    return HR_OK;
}

hr_status hr__goal_init(hr__goal *g, const hr_optimise_opts *o)
{
    *g = (hr__goal){.o = *o, .end_at = INT64_MAX, .least = INT64_MAX};
    g->o.chunks = o->chunks ? o->chunks : 1;
    if (o->placements == 0)
        g->o.placements = 1u << HR_PLACEMENT_LOOP | 1u << HR_PLACEMENT_V;
    HR_TRY(check(&g->o));
    if (o->seconds > 0 && o->seconds < 1e9)
        g->end_at = now() + (int64_t)(o->seconds * 1e9);
    g->stop_at = g->end_at;
    int64_t actions = 3 * (int64_t)o->ranks * g->o.chunks * o->microbatches;
    g->budget = o->steps;
    if (o->steps == 0)
        g->budget = WORTH / actions < MOST_STEPS ? WORTH / actions : MOST_STEPS;
    return HR_OK;
}

int hr__chunks(const hr_schedule *s)
{
    return s->stages / s->ranks;
}

static hr_stage_cost cost_at(const hr__goal *g, int stage)
{
    static const hr_stage_cost unit = {.f = HR_TICKS, .i = HR_TICKS, .w = HR_TICKS};
    return g->o.cost == NULL ? unit : g->o.cost[g->o.costs == 1 ? 0 : stage];
}

/* A larger stage recomputes all of it, or nothing: what is mixed cannot be said in its costs. */
bool hr__goal_takes_chunks(const hr__goal *g, int chunks)
{
    if (chunks == g->o.chunks)
        return true;
    if (!g->o.fewer_chunks || g->o.chunks % chunks != 0)
        return false;
    int parts = g->o.chunks / chunks;
    for (int k = 0; k < g->o.ranks * g->o.chunks; k++)
        if (cost_at(g, k).recompute != cost_at(g, k / parts * parts).recompute)
            return false;
    return true;
}

hr_status hr__goal_cost(const hr__goal *g, hr_schedule *s)
{
    int parts = g->o.ranks * g->o.chunks / s->stages;
    for (int k = 0; k < s->stages; k++) {
        hr_stage_cost sum = cost_at(g, k * parts);
        for (int j = 1; j < parts; j++) {
            hr_stage_cost c = cost_at(g, k * parts + j);
            sum.f += c.f;
            sum.i += c.i;
            sum.w += c.w;
            sum.act_bytes += c.act_bytes;
            sum.stash_bytes += c.stash_bytes;
        }
        HR_TRY(hr_schedule_set_cost(s, k, &sum));
    }
    HR_TRY(hr_schedule_set_comm(s, g->o.comm, g->o.pair_discount));
    return hr_schedule_set_latency(s, g->o.latency);
}

hr__limits hr__goal_limits(const hr__goal *g, const hr_schedule *s)
{
    int64_t act = (int64_t)g->o.max_act * hr__chunks(s) / g->o.chunks;
    return (hr__limits){.act = g->o.max_act ? (int)act : INT_MAX,
                        .bytes = g->o.max_bytes ? g->o.max_bytes : INT64_MAX};
}

int hr__goal_acts(const hr__goal *g, const hr_schedule *s, int act)
{
    return (int)(((int64_t)act * g->o.chunks + hr__chunks(s) - 1) / hr__chunks(s));
}

bool hr__goal_fits(const hr__goal *g, const hr_schedule *s)
{
    hr__limits limits = hr__goal_limits(g, s);
    hr__held most = hr__most_held(s);
    return most.act <= limits.act && most.bytes <= limits.bytes;
}

bool hr__goal_stopped(hr__goal *g)
{
    g->stopped |= g->stop_at < INT64_MAX && now() >= g->stop_at;
    return g->stopped;
}

void hr__goal_share(hr__goal *g, int parts)
{
    if (g->end_at == INT64_MAX)
        return;
    int64_t begin = now();
    g->stop_at = begin + (g->end_at - begin) / parts;
    g->stopped = begin >= g->end_at;
}

bool hr__goal_step(hr__goal *g)
{
    if (g->stopped || g->steps >= g->budget)
        return false;
    if (g->steps++ % LOOK != 0)
        return true;
    if (g->o.progress != NULL) {
        hr_optimise_progress p = {g->steps, g->budget, g->least, g->bound};
        g->o.progress(g->o.arg, &p);
    }
    return !hr__goal_stopped(g);
}
