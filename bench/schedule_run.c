/* Schedules run by the executor beside the same schedules simulated. Work is imitated: a kernel that
 * sleeps for its time, so that more ranks than cores are no matter; what is measured is what order,
 * transfers and waits add. Then what a search finds for stages that are not alike, beside 1F1B on them;
 * and the cost of an action to the issuing thread, where nothing is computed. The middle of several
 * rounds. */
#include "headrace/exec.h"

#include "bench.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 3, FLOATS = 256, MAX_STAGES = 16 };

static const int64_t unit_ns = 10000000; /* of F, of I and of W */

typedef struct run {
    const hr_schedule *s;       /* with the costs of its stages */
    int64_t unit_ns;            /* 0: nothing is launched */
    _Atomic int64_t begin, end; /* of all work of a step */
    double makespan[ROUNDS], ns_per_action[ROUNDS];
} run;

/* ---- imitated work --------------------------------------------------------------------------- */
typedef struct nap {
    run *r;
    int64_t ns;
} nap;

static void widen(run *r, int64_t begin, int64_t end)
{
    int64_t seen = atomic_load(&r->begin);
    while (begin < seen && !atomic_compare_exchange_weak(&r->begin, &seen, begin))
        ;
    seen = atomic_load(&r->end);
    while (end > seen && !atomic_compare_exchange_weak(&r->end, &seen, end))
        ;
}

static hr_status nap_kernel(const void *args, hr_team *team)
{
    const nap *n = args;
    int64_t begin = hr_now_ns(), until = begin + n->ns;
    struct timespec t = {until / 1000000000, until % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
    widen(n->r, begin, hr_now_ns());
    return HR_OK;
}

static hr_stage_cost cost_of(const run *r, const hr_exec_at *at)
{
    hr_stage_cost cost;
    hr_schedule_get_cost(r->s, at->stage, &cost);
    return cost;
}

static hr_status work(run *r, int64_t ticks)
{
    nap n = {r, ticks * (r->unit_ns / 1000) / (HR_TICKS / 1000)};
    if (r->unit_ns == 0)
        return HR_OK;
    return hr_launch(hr_stream_current(), "nap", nap_kernel, &n, sizeof n, NULL, 0);
}

static hr_status result(run *r, int64_t ticks, bool wanted, hr_tensor **out)
{
    hr_status st = work(r, ticks);
    if (st < 0 || !wanted)
        return st;
    return hr_tensor_create(HR_F32, 1, (const int64_t[]){FLOATS}, out);
}

static hr_status forward(void *ctx, const hr_exec_at *at, hr_tensor *in,
                         hr_tensor **out)
{
    return result(ctx, cost_of(ctx, at).f, !at->last, out);
}

static hr_status backward(void *ctx, const hr_exec_at *at, hr_tensor *grad,
                          hr_tensor **grad_in)
{
    hr_stage_cost cost = cost_of(ctx, at);
    return result(ctx, cost.i + cost.w, !at->first, grad_in);
}

static hr_status input_grad(void *ctx, const hr_exec_at *at, hr_tensor *grad,
                            hr_tensor **grad_in)
{
    return result(ctx, cost_of(ctx, at).i, !at->first, grad_in);
}

static hr_status weight_grad(void *ctx, const hr_exec_at *at)
{
    return work(ctx, cost_of(ctx, at).w);
}

/* ---- a run ------------------------------------------------------------------------------------- */
static hr_status one_step(run *r, int round, hr_group *pp, hr_exec *e,
                          const hr_program *p, size_t actions)
{
    bool first = hr_group_rank(pp) == 0;
    hr_device *dev = hr_group_device(pp);
    if (first) {
        atomic_store(&r->begin, INT64_MAX);
        atomic_store(&r->end, 0);
    }
    ok(hr_barrier(pp, hr_stream_current()));
    ok(hr_device_synchronize(dev));
    int64_t t = hr_now_ns();
    ok(hr_exec_step(e, p, NULL, NULL));
    int64_t issued = hr_now_ns() - t;
    ok(hr_device_synchronize(dev));
    ok(hr_barrier(pp, hr_stream_current()));
    ok(hr_device_synchronize(dev));
    if (first && round >= 0) {
        r->makespan[round] = (double)(r->end - r->begin);
        r->ns_per_action[round] = (double)issued / (double)actions;
    }
    return HR_OK;
}

static hr_status rank_main(hr_group *pp, void *arg)
{
    run *r = arg;
    const hr_schedule *s = r->s;
    hr_exec_stage mine[MAX_STAGES];
    hr_exec_shape shapes[MAX_STAGES];
    hr_schedule_shape shape;
    size_t actions;
    int n = 0;
    hr_schedule_get_shape(s, &shape);
    for (int i = 0; i < shape.stages; i++) {
        shapes[i] = (hr_exec_shape){HR_F32, 1, {FLOATS}};
        if (hr_schedule_rank_of(s, i, 0) == hr_group_rank(pp) ||
            hr_schedule_rank_of(s, i, shape.microbatches - 1) == hr_group_rank(pp))
            mine[n++] = (hr_exec_stage){HR_INIT(hr_exec_stage),
                                        .stage = i,
                                        .ctx = r,
                                        .forward = forward,
                                        .backward = backward,
                                        .input_grad = input_grad,
                                        .weight_grad = weight_grad};
    }
    (void)hr_schedule_order(s, hr_group_rank(pp), &actions);
    hr_exec *e;
    hr_program *p;
    ok(hr_exec_create(&(hr_exec_opts){HR_INIT(hr_exec_opts), .pp = pp, .stages = mine,
                                      .n_stages = n, .shapes = shapes,
                                      .n_shapes = shape.stages},
                      &e));
    ok(hr_exec_load(e, s, &p));
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
    hr_schedule_get_shape(r->s, &shape);
    ok(hr_local_run(shape.ranks, NULL, rank_main, r));
    return bench_median(r->makespan, ROUNDS);
}

static hr_schedule *generate(const char *name, int ranks, int chunks, int microbatches)
{
    hr_schedule *s;
    ok(hr_schedule_generate(name,
                            &(hr_generate_opts){HR_INIT(hr_generate_opts),
                                                .ranks = ranks, .chunks = chunks,
                                                .microbatches = microbatches},
                            &s));
    return s;
}

static hr_figures *simulate(const hr_schedule *s)
{
    hr_figures *f;
    ok(hr_schedule_simulate(s, NULL, &f));
    return f;
}

static void compare(const char *name, int ranks, int chunks)
{
    hr_schedule *s = generate(name, ranks, chunks, 2 * ranks + (ranks < 4 ? 4 : 0));
    hr_figures *f = simulate(s);
    run r = {.s = s, .unit_ns = unit_ns};
    char what[64];
    snprintf(what, sizeof what, "makespan.%s.%d", name, ranks);
    bench_say(what,
              measure(&r) / ((double)f->makespan / (double)HR_TICKS * (double)unit_ns),
              "of simulated");
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

static void cost(int ranks)
{
    hr_schedule *s = generate("1f1b", ranks, 0, 1000);
    run r = {.s = s};
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
    hr_figures *f = simulate(start);
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
    hr_schedule *start = generate("1f1b", UNEVEN, 0, UNEVEN_MICROBATCHES);
    for (int i = 0; i < UNEVEN; i++) {
        int64_t ticks = uneven[i] * (HR_TICKS / 10);
        cost[i] = (hr_stage_cost){.f = ticks, .i = ticks, .w = ticks};
        ok(hr_schedule_set_cost(start, i, &cost[i]));
    }
    hr_schedule *found = search(start, cost);
    run before = {.s = start, .unit_ns = unit_ns},
        after = {.s = found, .unit_ns = unit_ns};
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
