/* naps.c: see naps.h. */
#include "naps.h"

#include "bench.h"

#include <time.h>

enum { FLOATS = 256, MAX_STAGES = 16 };

typedef struct nap {
    naps *r;
    int64_t ns;
} nap;

static void widen(naps *r, int64_t begin, int64_t end)
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

static hr_stage_cost cost_of(const naps *r, const hr_exec_at *at)
{
    hr_stage_cost cost;
    hr_schedule_get_cost(r->s, at->stage, &cost);
    return cost;
}

static hr_status work(naps *r, int64_t ticks)
{
    nap n = {r, ticks * (r->unit_ns / 1000) / (HR_TICKS / 1000)};
    if (r->unit_ns == 0)
        return HR_OK;
    return hr_launch(hr_stream_current(), "nap", nap_kernel, &n, sizeof n, NULL, 0);
}

static hr_status result(naps *r, int64_t ticks, bool wanted, hr_tensor **out)
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

hr_status naps_open(naps *r, hr_group *pp, hr_exec **e, hr_program **p)
{
    hr_exec_stage mine[MAX_STAGES];
    hr_schedule_shape shape;
    int n = 0;
    hr_schedule_get_shape(r->s, &shape);
    hr_exec_shape *shapes = calloc((size_t)shape.stages, sizeof *shapes);
    if (!shapes)
        return HR_ERR_NOMEM;
    for (int i = 0; i < shape.stages; i++) {
        shapes[i] = (hr_exec_shape){HR_F32, 1, {FLOATS}};
        if (hr_schedule_rank_of(r->s, i, 0) == hr_group_rank(pp) ||
            hr_schedule_rank_of(r->s, i, shape.microbatches - 1) == hr_group_rank(pp))
            mine[n++] = (hr_exec_stage){HR_INIT(hr_exec_stage),
                                        .stage = i,
                                        .ctx = r,
                                        .forward = forward,
                                        .backward = backward,
                                        .input_grad = input_grad,
                                        .weight_grad = weight_grad};
    }
    ok(hr_exec_create(&(hr_exec_opts){HR_INIT(hr_exec_opts), .pp = pp, .stages = mine,
                                      .n_stages = n, .shapes = shapes,
                                      .n_shapes = shape.stages},
                      e));
    free(shapes);
    ok(hr_exec_load(*e, r->s, p));
    return HR_OK;
}

void naps_meet(hr_group *pp)
{
    ok(hr_barrier(pp, hr_stream_current()));
    ok(hr_device_synchronize(hr_group_device(pp)));
}

double naps_simulated_ns(const hr_schedule *s, int64_t unit_ns)
{
    hr_figures *f;
    ok(hr_schedule_simulate(s, NULL, &f));
    double ns = (double)f->makespan / (double)HR_TICKS * (double)unit_ns;
    hr_figures_destroy(f);
    return ns;
}

hr_schedule *naps_generate(const char *name, int ranks, int chunks, int microbatches)
{
    hr_schedule *s;
    ok(hr_schedule_generate(name,
                            &(hr_generate_opts){HR_INIT(hr_generate_opts),
                                                .ranks = ranks, .chunks = chunks,
                                                .microbatches = microbatches},
                            &s));
    return s;
}
