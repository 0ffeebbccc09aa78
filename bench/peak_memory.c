/* Bytes of activations of an overlapped step: two ranks, a chunk of MoE layers, each microbatch's forward
 * beside the backward of the one before, weight gradients delayed. Every token goes to every
 * expert (K = E), so that all counts are known and memory.py can say what is needed. Weights, their
 * gradients and the step's inputs do not count. Prints figures of rank 0, and the shapes.
 *
 *     peak_memory [FREES EARLY SYMMETRIC]     0 or 1: free_input by the policy, early release of
 *                                             attention, the symmetric dispatcher */
#include "bench.h"
#include "headrace/ops.h"
#include "moe_layer.h"

enum { RANKS = 2, LAYERS = 4, MICROBATCHES = 4 };

typedef struct step {
    bool frees, early, symmetric;
    moe_layer layer[LAYERS];
    hr_layer_desc desc[LAYERS];
    hr_tensor *x, *dy; /* of every microbatch */
    size_t saved;      /* live after the first forward */
} step;

static void build(step *s, int m, hr_schedule_plan **out)
{
    hr_chunk_desc chunk = {HR_INIT(hr_chunk_desc), .layers = s->desc,
                           .n_layers = LAYERS, .vp_stage = HR_NO_STAGE};
    hr_build_plan_opts o = {HR_INIT(hr_build_plan_opts), .microbatch = m,
                            .delay_wgrad = true, .early_attn_release = s->early,
                            .ncclep_zero_copy = s->symmetric};
    ok(hr_build_schedule_plan(&chunk, &s->x, 1, &o, out));
}

static size_t live(void)
{
    hr_mem_stats stats;
    hr_mem_get_stats(hr_device_current(), &stats);
    return stats.live_bytes;
}

/* The output's bytes are given up at once: a loss that keeps what it needs stands for nothing here. */
static void run(step *s)
{
    static const hr_plan_hooks none;
    hr_schedule_plan *before = NULL;
    for (int m = 0; m <= MICROBATCHES; m++) {
        hr_schedule_plan *plan = NULL;
        hr_tensor *out;
        if (m < MICROBATCHES)
            build(s, m, &plan);
        ok(hr_schedule_plan_run(plan, before, before ? s->dy : NULL, &none, &out));
        if (out)
            hr_tensor_drop(out, hr_stream_current());
        hr_tensor_release(out);
        ok(hr_tensor_set_grad(s->x, NULL)); /* handed to the stage before */
        if (m == 0)
            s->saved = live();
        hr_schedule_plan_destroy(before);
        before = plan;
    }
    ok(hr_device_synchronize(hr_device_current()));
}

static void say_all(size_t base, size_t peak, const step *s)
{
    bench_say("saved", (double)(s->saved - base), "bytes");
    bench_say("peak", (double)(peak - base), "bytes");
    const struct {
        const char *name;
        int value;
    } shape[] = {{"N", N},         {"C", C},           {"H", H},
                 {"E", E},         {"K", K},           {"D", D},
                 {"ranks", RANKS}, {"layers", LAYERS}, {"symmetric", s->symmetric}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        bench_say(shape[i].name, shape[i].value, "shape");
}

static void make_dispatcher(hr_group *world, bool symmetric, hr_dispatcher **out)
{
    hr_stream *counts_stream;
    hr_group *tokens, *counts;
    ok(hr_stream_create(hr_device_current(),
                        &(hr_stream_opts){HR_INIT(hr_stream_opts), .name = "counts"},
                        &counts_stream));
    ok(hr_group_create(world, NULL, 0, &tokens));
    ok(hr_group_create(world, NULL, 0, &counts));
    ok(hr_dispatcher_create(
        &(hr_dispatcher_opts){HR_INIT(hr_dispatcher_opts), .experts = E, .top_k = K,
                              .tokens = tokens, .counts = counts,
                              .counts_stream = counts_stream,
                              .kind = symmetric ? HR_MOE_SYMMETRIC : HR_MOE_ALLTOALL,
                              .max_tokens = N, .width = C, .capacity_factor = 1},
        out));
    hr_group_release(tokens);
    hr_group_release(counts);
}

/* Weights, and the inputs of the step. Returns their bytes, with the weights' gradients to come. */
static size_t make_inputs(step *s, hr_dispatcher *d)
{
    const int64_t shape[] = {N, C};
    size_t before = live();
    for (int i = 0; i < LAYERS; i++) {
        moe_layer_make(&s->layer[i], d);
        moe_layer_describe(&s->layer[i], s->frees, &s->desc[i]);
    }
    size_t weights = live() - before;
    ok(hr_tensor_zeros(HR_F32, 2, shape, &s->x));
    ok(hr_tensor_set_requires_grad(s->x, true));
    ok(hr_tensor_zeros(HR_F32, 2, shape, &s->dy));
    return live() - before + weights;
}

static hr_status train(hr_group *world, void *arg)
{
    step s = *(const step *)arg;
    hr_dispatcher *d;
    hr_mem_stats stats;
    ok(hr_set_streams(NULL, false));
    make_dispatcher(world, s.symmetric, &d);
    size_t base = make_inputs(&s, d);
    run(&s); /* makes the gradients of the weights, and all buffers */
    hr_mem_reset_peak(hr_device_current());
    run(&s);
    ok(hr_dispatcher_check(d, NULL));
    hr_mem_get_stats(hr_device_current(), &stats);
    if (hr_group_rank(world) == 0)
        say_all(base, stats.peak_bytes, &s);
    hr_tensor_release(s.x);
    hr_tensor_release(s.dy);
    for (int i = 0; i < LAYERS; i++)
        moe_layer_drop(&s.layer[i]);
    hr_dispatcher_destroy(d);
    return HR_OK;
}

int main(int argc, char **argv)
{
    static step s;
    s.frees = argc < 2 || atoi(argv[1]) != 0;
    s.early = argc < 3 || atoi(argv[2]) != 0;
    s.symmetric = argc > 3 && atoi(argv[3]) != 0;
    ok(hr_local_run(RANKS, &(hr_local_opts){HR_INIT(hr_local_opts)}, train, &s));
    return 0;
}
