/* Speed of each operator at the shapes of the demo on one core, beside the BLAS's peak in the same
 * run: microseconds a call, GFLOP/s where products count, GB/s where memory does (inputs read
 * and outputs written once). Forward is measured without a graph; backward is the difference
 * to forward and backward together. The least of several rounds; nothing passes or fails. */
#include "headrace/ops.h"
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 128, /* tokens of a microbatch */
    C = 128, /* width */
    H = 4,   /* heads */
    T = 64,  /* tokens of a sequence */
    D = 256, /* hidden width of an expert */
    E = 8,   /* experts, four of them here */
    L = 4,
    K = 2,
    V = 256,
    ROUNDS = 40,
    CALLS = 25
};

static void ok(hr_status st)
{
    if (st < 0) {
        fprintf(stderr, "%s: %s\n", hr_status_name(st), hr_last_error());
        exit(1);
    }
}

/* ---- the inputs ---- */
static struct inputs {
    hr_tensor *x, *big, *rows, *hidden, *qkv, *gain, *w_qkv, *w_out, *w_head, *w_up,
        *w_down;
    hr_tensor *table, *ids, *logits, *router, *probs, *source, *slot, *scale;
    hr_tensor *flat[4];
    double *sum;
} in;

static hr_tensor *fresh(bool grad, int ndim, const int64_t *shape)
{
    hr_tensor *t;
    ok(hr_tensor_create(HR_F32, ndim, shape, &t));
    int64_t n = hr_tensor_count(t);
    float *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)((i * 2654435761U) % 65536) / 32768.0F - 1.0F;
    ok(hr_tensor_write(t, v, (size_t)n * sizeof *v));
    free(v);
    if (grad)
        ok(hr_tensor_set_requires_grad(t, true));
    return t;
}
#define SHAPE(...)                                                                     \
    (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                                  \
        __VA_ARGS__                                                                    \
    }

static void make_inputs(void)
{
    int32_t ids[N];
    hr_tensor *index, *counts, *probs;
    void *sum;
    for (int i = 0; i < N; i++)
        ids[i] = (i * 37) % V;
    in = (struct inputs){
        .x = fresh(true, SHAPE(N, C)),
        .rows = fresh(true, SHAPE(N * K, C)),
        .big = fresh(true, SHAPE(N * K, 2 * D)),
        .hidden = fresh(true, SHAPE(N * K, D)),
        .qkv = fresh(true, SHAPE(N, 3 * C)),
        .gain = fresh(true, SHAPE(C)),
        .w_qkv = fresh(true, SHAPE(3 * C, C)),
        .w_out = fresh(true, SHAPE(C, C)),
        .w_head = fresh(true, SHAPE(V, C)),
        .w_up = fresh(true, SHAPE(L, 2 * D, C)),
        .w_down = fresh(true, SHAPE(L, C, D)),
        .table = fresh(true, SHAPE(V, C)),
        .logits = fresh(true, SHAPE(N, V)),
        .router = fresh(true, SHAPE(N, E)),
        .scale = fresh(true, SHAPE(N * K)),
    };
    for (int i = 0; i < 4; i++)
        in.flat[i] = fresh(false, SHAPE(1 << 20));
    ok(hr_tensor_create(HR_I32, SHAPE(N), &in.ids));
    ok(hr_tensor_write(in.ids, ids, sizeof ids));
    ok(hr_op_router(in.router, &(hr_router_opts){HR_INIT(hr_router_opts), .top_k = K},
                    &probs, &index));
    hr_tensor_release(probs);
    ok(hr_op_sort_choices(index, E, &in.source, &in.slot, &counts));
    hr_tensor_release(index);
    hr_tensor_release(counts);
    in.probs = fresh(true, SHAPE(N, K));
    ok(hr_mem_alloc(hr_stream_current(), sizeof *in.sum, &sum));
    in.sum = sum;
}

/* ---- the cases ---- */
static const int64_t offsets[L + 1] = {0, 50, 120, 190, N *K};

static hr_status run_add(hr_tensor **out)
{
    return hr_op_add(in.x, in.x, out);
}
static hr_status run_embedding(hr_tensor **out)
{
    return hr_op_embedding(in.table, in.ids, out);
}
static hr_status run_rmsnorm(hr_tensor **out)
{
    return hr_op_rmsnorm(in.x, in.gain, 1e-5F, out);
}
static hr_status run_linear_qkv(hr_tensor **out)
{
    return hr_op_linear(in.x, in.w_qkv, NULL, out);
}
static hr_status run_linear_out(hr_tensor **out)
{
    return hr_op_linear(in.x, in.w_out, NULL, out);
}
static hr_status run_linear_head(hr_tensor **out)
{
    return hr_op_linear(in.x, in.w_head, NULL, out);
}
static hr_status run_attention(hr_tensor **out)
{
    return hr_op_attention(in.qkv, H, T, 1e4F, out);
}
static hr_status run_attention_long(hr_tensor **out)
{
    return hr_op_attention(in.qkv, H, N, 1e4F, out);
}
static hr_status run_swiglu(hr_tensor **out)
{
    return hr_op_swiglu(in.big, in.scale, out);
}
static hr_status run_grouped_up(hr_tensor **out)
{
    return hr_op_grouped_linear(in.rows, in.w_up, offsets, NULL, out);
}
static hr_status run_grouped_down(hr_tensor **out)
{
    return hr_op_grouped_linear(in.hidden, in.w_down, offsets, NULL, out);
}
static hr_status run_router(hr_tensor **out)
{
    hr_tensor *index;
    hr_router_opts o = {HR_INIT(hr_router_opts), .top_k = K, .normalize = true,
                        .seq_len = T, .aux_scale = 0.01F};
    ok(hr_op_router(in.router, &o, out, &index));
    hr_tensor_release(index);
    return HR_OK;
}
static hr_status run_permute(hr_tensor **out)
{
    return hr_op_permute(in.x, in.source, in.slot, out);
}
static hr_status run_unpermute(hr_tensor **out)
{
    return hr_op_unpermute(in.rows, in.source, in.slot, out);
}
static hr_status run_permute_probs(hr_tensor **out)
{
    return hr_op_permute_probs(in.probs, in.slot, out);
}
static hr_status run_cross_entropy(hr_tensor **out)
{
    return hr_op_cross_entropy(in.logits, in.ids, 1.0F / N, out);
}
static hr_status run_sum_squares(hr_tensor **out)
{
    *out = NULL;
    return hr_op_sum_squares(in.flat[0], in.sum);
}
static hr_status run_adamw(hr_tensor **out)
{
    *out = NULL;
    return hr_op_adamw(in.flat[0], in.flat[1], in.flat[2], in.flat[3],
                       &(hr_adamw_opts){HR_INIT(hr_adamw_opts), .lr = 1e-9F,
                                        .beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-8F,
                                        .step = 10, .grad_scale = 1});
}

struct op_case {
    const char *name;
    hr_status (*run)(hr_tensor **out);
    double flops;  /* of forward; backward has twice as many. 0: bytes count */
    double floats; /* read and written by forward */
    double floats_back;
    int calls; /* in a round; 0: CALLS */
};

/* Attention: two products over the pairs that the mask lets through; backward has five. */
static const struct op_case cases[] = {
    {"linear qkv", run_linear_qkv, 2.0 * N *C * 3 * C, 0, 0, 0},
    {"linear out", run_linear_out, 2.0 * N *C *C, 0, 0, 0},
    {"linear head", run_linear_head, 2.0 * N *C *V, 0, 0, 0},
    {"grouped up", run_grouped_up, 2.0 * N *K *C * 2 * D, 0, 0, 0},
    {"grouped down", run_grouped_down, 2.0 * N *K *C *D, 0, 0, 0},
    {"attention T=64", run_attention, 2.0 * N *(T + 1) * C, 0, 0, 0},
    {"attention T=128", run_attention_long, 2.0 * N *(N + 1) * C, 0, 0, 0},
    {"swiglu", run_swiglu, 0, N *K * 3.0 * D, N *K * 5.0 * D, 0},
    {"rmsnorm", run_rmsnorm, 0, N * 2.0 * C, N * 3.0 * C, 0},
    {"add", run_add, 0, N * 3.0 * C, N * 3.0 * C, 0},
    {"embedding", run_embedding, 0, N * 2.0 * C, N * 3.0 * C, 0},
    {"router", run_router, 0, N *(E + 2.0 * K), N *(2.0 * E + 2 * K), 0},
    {"permute", run_permute, 0, N *(1.0 + K) * C, N *(1.0 + K) * C, 0},
    {"unpermute", run_unpermute, 0, N *(1.0 + K) * C, N *(1.0 + K) * C, 0},
    {"permute_probs", run_permute_probs, 0, N * 3.0 * K, N * 3.0 * K, 0},
    {"cross_entropy", run_cross_entropy, 0, N * 1.0 * V, N * 2.0 * V, 0},
    {"sum_squares 1M", run_sum_squares, 0, 1 << 20, 0, 10},
    {"adamw 1M", run_adamw, 0, 7.0 * (1 << 20), 0, 10},
};

/* ---- measuring ---- */
/* A round of forward, or of forward and backward, in seconds a call. */
static double time_round(const struct op_case *c, hr_tensor *seed)
{
    int calls = c->calls ? c->calls : CALLS;
    int64_t start = hr_now_ns();
    for (int i = 0; i < calls; i++) {
        hr_tensor *out;
        ok(c->run(&out));
        if (seed)
            ok(hr_backward(&out, &seed, 1));
        hr_tensor_release(out);
    }
    ok(hr_stream_synchronize(hr_stream_current()));
    return 1e-9 * (double)(hr_now_ns() - start) / calls;
}

static double least_time(const struct op_case *c, hr_tensor *seed)
{
    double least = 1e9;
    bool mode = hr_grad_mode_set(seed != NULL);
    time_round(c, seed);
    for (int r = 0; r < ROUNDS; r++) {
        double t = time_round(c, seed);
        least = t < least ? t : least;
    }
    hr_grad_mode_set(mode);
    return least;
}

static double blas_peak(void)
{
    enum { S = 384 };
    double least = 1e9;
    float *m = aligned_alloc(64, 3 * S * S * sizeof *m);
    memset(m, 0, 3 * S * S * sizeof *m);
    for (int r = 0; r < 20; r++) {
        int64_t start = hr_now_ns();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, S, S, S, 1, m, S,
                    m + S * S, S, 0, m + 2 * S * S, S);
        double t = 1e-9 * (double)(hr_now_ns() - start);
        least = t < least ? t : least;
    }
    free(m);
    return 2.0 * S * S * S / least / 1e9;
}

static void print_rate(double seconds, double flops, double floats, double peak)
{
    printf("%9.2f us", 1e6 * seconds);
    if (flops > 0)
        printf(" %7.1f GFLOP/s %4.0f%%", flops / seconds / 1e9,
               100 * flops / seconds / 1e9 / peak);
    else
        printf(" %7.1f GB/s        ", 4 * floats / seconds / 1e9);
}

static void measure(const struct op_case *c, double peak)
{
    hr_tensor *out, *seed = NULL;
    double forward = least_time(c, NULL);
    printf("%-16s", c->name);
    print_rate(forward, c->flops, c->floats, peak);
    ok(c->run(&out));
    if (out) {
        seed = fresh(false, hr_tensor_ndim(out), hr_tensor_shape(out));
        double factor = strncmp(c->name, "attention", 9) == 0 ? 2.5 : 2.0;
        print_rate(least_time(c, seed) - forward, factor * c->flops, c->floats_back,
                   peak);
    }
    printf("\n");
    fflush(stdout);
    hr_tensor_release(out);
    hr_tensor_release(seed);
}

int main(int argc, char **argv)
{
    hr_device *dev;
    ok(hr_device_open("host", NULL, &dev));
    hr_device_set_current(dev);
    openblas_set_num_threads(1);
    make_inputs();
    double peak = blas_peak();
    printf("BLAS peak: %.1f GFLOP/s on one core; forward, then backward\n", peak);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc < 2 || strstr(cases[i].name, argv[1]))
            measure(&cases[i], peak);
    return 0; /* the device lives as long as the process */
}
