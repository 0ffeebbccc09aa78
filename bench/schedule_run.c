/* Schedules run by the executor beside the same schedules simulated. Work is imitated: a kernel that
 * sleeps for its time, so that more ranks than cores are no matter; what is measured is what order,
 * transfers and waits add. Then what a search finds for stages that are not alike, beside 1F1B on them;
 * and the cost of an action to the issuing thread, where nothing is computed. The middle of several
 * rounds. */
#include "naps.h"

#include "bench.h"

enum { ROUNDS = 3 };

static const int64_t unit_ns = 10000000; /* of F, of I and of W */

typedef struct run {
    naps work;
    double makespan[ROUNDS], ns_per_action[ROUNDS];
} run;

/* ---- a run ------------------------------------------------------------------------------------- */
static hr_status one_step(run *r, int round, hr_group *pp, hr_exec *e,
                          const hr_program *p, size_t actions)
{
    bool first = hr_group_rank(pp) == 0;
    hr_device *dev = hr_group_device(pp);
    if (first) {
        atomic_store(&r->work.begin, INT64_MAX);
        atomic_store(&r->work.end, 0);
    }
    naps_meet(pp);
    int64_t t = hr_now_ns();
    ok(hr_exec_step(e, p, NULL, NULL));
    int64_t issued = hr_now_ns() - t;
    ok(hr_device_synchronize(dev));
    naps_meet(pp);
    if (first && round >= 0) {
        r->makespan[round] = (double)(r->work.end - r->work.begin);
        r->ns_per_action[round] = (double)issued / (double)actions;
    }
    return HR_OK;
}

static hr_status rank_main(hr_group *pp, void *arg)
{
    run *r = arg;
    size_t actions;
    hr_exec *e;
    hr_program *p;
    (void)hr_schedule_order(r->work.s, hr_group_rank(pp), &actions);
    ok(naps_open(&r->work, pp, &e, &p));
    for (int round = -1; round < ROUNDS; round++)
        ok(one_step(r, round, pp, e, p, actions));
    hr_program_destroy(p);
    hr_exec_destroy(e);
    return HR_OK;
}

/* Median of a step, in nanoseconds. */
static double measure(run *r)
{
    hr_schedule_shape shape;
    hr_schedule_get_shape(r->work.s, &shape);
    ok(hr_local_run(shape.ranks, NULL, rank_main, r));
    return bench_median(r->makespan, ROUNDS);
}

static void compare(const char *name, int ranks, int chunks)
{
    hr_schedule *s =
        naps_generate(name, ranks, chunks, 2 * ranks + (ranks < 4 ? 4 : 0));
    run r = {.work = {.s = s, .unit_ns = unit_ns}};
    char what[64];
    snprintf(what, sizeof what, "makespan.%s.%d", name, ranks);
    bench_say(what, measure(&r) / naps_simulated_ns(s, unit_ns), "of simulated");
    hr_schedule_destroy(s);
}

static void cost(int ranks)
{
    hr_schedule *s = naps_generate("1f1b", ranks, 0, 1000);
    run r = {.work = {.s = s}};
    char what[64];
    (void)measure(&r);
    snprintf(what, sizeof what, "action_ns.%d", ranks);
    bench_say(what, bench_median(r.ns_per_action, ROUNDS), "ns");
    hr_schedule_destroy(s);
}

/* ---- a search ---------------------------------------------------------------------------------- */
enum { UNEVEN = 4, UNEVEN_MICROBATCHES = 8 };

/* Tenths of a unit. */
static const int uneven[UNEVEN] = {10, 14, 8, 12};

/* For costs that differ, with what a rank of `start` holds at most. */
static hr_schedule *search(const hr_schedule *start, const hr_stage_cost *cost)
{
    hr_schedule *s;
    hr_optimise_opts o = {HR_INIT(hr_optimise_opts),
                          .ranks = UNEVEN,
                          .microbatches = UNEVEN_MICROBATCHES,
                          .placements = 1u << HR_PLACEMENT_LOOP,
                          .cost = cost,
                          .costs = UNEVEN};
    hr_figures *f;
    ok(hr_schedule_simulate(start, NULL, &f));
    for (int k = 0; k < UNEVEN; k++)
        o.max_act = f->rank[k].peak_act > o.max_act ? f->rank[k].peak_act : o.max_act;
    hr_figures_destroy(f);
    ok(hr_schedule_optimise(&o, &s, NULL));
    return s;
}

/* What `headrace train --schedule auto` does once it knows what stages cost. */
static void compare_search(void)
{
    hr_stage_cost cost[UNEVEN];
    hr_schedule *start = naps_generate("1f1b", UNEVEN, 0, UNEVEN_MICROBATCHES);
    for (int i = 0; i < UNEVEN; i++) {
        int64_t ticks = uneven[i] * (HR_TICKS / 10);
        cost[i] = (hr_stage_cost){.f = ticks, .i = ticks, .w = ticks};
        ok(hr_schedule_set_cost(start, i, &cost[i]));
    }
    hr_schedule *found = search(start, cost);
    run before = {.work = {.s = start, .unit_ns = unit_ns}},
        after = {.work = {.s = found, .unit_ns = unit_ns}};
    bench_say("auto.1f1b_ms", measure(&before) * 1e-6, "ms");
    bench_say("auto.found_ms", measure(&after) * 1e-6, "ms");
    hr_schedule_destroy(start);
    hr_schedule_destroy(found);
}

int main(void)
{
    for (int ranks = 2; ranks <= 8; ranks *= 2) {
        compare("1f1b", ranks, 0);
        compare("interleaved", ranks, 2);
        compare("zb-h1", ranks, 0);
        compare("zbv", ranks, 0);
        compare("dualpipe", ranks, 0);
    }
    compare_search();
    cost(1);
    cost(2);
    return 0;
}
