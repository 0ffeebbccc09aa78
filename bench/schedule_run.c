/* Schedules run by the executor beside the same schedules simulated. Work is imitated: a kernel that
 * sleeps for its time, so that more ranks than cores are no matter; what is measured is what order,
 * transfers and waits add. Then the cost of an action to the issuing thread, where nothing is
 * computed. The middle of several rounds. */
#include "headrace/exec.h"

#include "bench.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 3, FLOATS = 256, MAX_STAGES = 16 };

static const int64_t unit_ns = 10000000; /* of F, of I and of W */

typedef struct run {
    const char *name;
    int ranks, chunks, microbatches;
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

static hr_status work(run *r, int units)
{
    nap n = {r, units * r->unit_ns};
    if (r->unit_ns == 0)
        return HR_OK;
    return hr_launch(hr_stream_current(), "nap", nap_kernel, &n, sizeof n, NULL, 0);
}

static hr_status result(run *r, int units, bool wanted, hr_tensor **out)
{
    hr_status st = work(r, units);
    if (st < 0 || !wanted)
        return st;
    return hr_tensor_create(HR_F32, 1, (const int64_t[]){FLOATS}, out);
}

static hr_status forward(void *ctx, const hr_exec_at *at, hr_tensor *in,
                         hr_tensor **out)
{
    return result(ctx, 1, !at->last, out);
}

static hr_status backward(void *ctx, const hr_exec_at *at, hr_tensor *grad,
                          hr_tensor **grad_in)
{
    return result(ctx, 2, !at->first, grad_in);
}

static hr_status input_grad(void *ctx, const hr_exec_at *at, hr_tensor *grad,
                            hr_tensor **grad_in)
{
    return result(ctx, 1, !at->first, grad_in);
}

static hr_status weight_grad(void *ctx, const hr_exec_at *at)
{
    return work(ctx, 1);
}

/* ---- a run ------------------------------------------------------------------------------------- */
static hr_schedule *generate(const run *r)
{
    hr_schedule *s;
    ok(hr_schedule_generate(r->name,
                            &(hr_generate_opts){HR_INIT(hr_generate_opts),
                                                .ranks = r->ranks, .chunks = r->chunks,
                                                .microbatches = r->microbatches},
                            &s));
    return s;
}

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
    hr_schedule *s = generate(r);
    hr_exec_stage mine[MAX_STAGES];
    hr_exec_shape shapes[MAX_STAGES];
    hr_schedule_shape shape;
    size_t actions;
    int n = 0;
    hr_schedule_get_shape(s, &shape);
    for (int i = 0; i < shape.stages; i++) {
        shapes[i] = (hr_exec_shape){HR_F32, 1, {FLOATS}};
        if (hr_schedule_rank_of(s, i, 0) == hr_group_rank(pp) ||
            hr_schedule_rank_of(s, i, r->microbatches - 1) == hr_group_rank(pp))
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
    hr_schedule_destroy(s);
    return HR_OK;
}

static double simulated_ns(const run *r)
{
    hr_schedule *s = generate(r);
    hr_figures *f;
    ok(hr_schedule_simulate(s, NULL, &f));
    double units = (double)f->makespan / (double)HR_TICKS;
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
    return units * (double)r->unit_ns;
}

static void compare(const char *name, int ranks, int chunks)
{
    run r = {.name = name,
             .ranks = ranks,
             .chunks = chunks,
             .microbatches = 2 * ranks + (ranks < 4 ? 4 : 0),
             .unit_ns = unit_ns};
    char what[64];
    ok(hr_local_run(ranks, NULL, rank_main, &r));
    snprintf(what, sizeof what, "makespan.%s.%d", name, ranks);
    bench_say(what, bench_median(r.makespan, ROUNDS) / simulated_ns(&r),
              "of simulated");
}

static void cost(int ranks)
{
    run r = {.name = "1f1b", .ranks = ranks, .microbatches = 1000};
    char what[64];
    ok(hr_local_run(ranks, NULL, rank_main, &r));
    snprintf(what, sizeof what, "action_ns.%d", ranks);
    bench_say(what, bench_median(r.ns_per_action, ROUNDS), "ns");
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
    cost(1);
    cost(2);
    return 0;
}
