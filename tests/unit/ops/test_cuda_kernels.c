/* Every kernel of the operators in both its forms, on the same numbers: the host's, and CUDA's on the test
 * double. Operands are exact pieces of memory of their own, so that ASan sees what a kernel touches beside
 * them. CUDA's form runs with the threads of its blocks in both orders, which must give the same bits:
 * else a barrier is missing. */
#include "op_check.h"
#include "ops/kernels.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    F32,      /* read */
    F32_OUT,  /* written; what is not must stay */
    F64_OUT,  /* the same */
    I32,      /* read; 0..limit-1 */
    I32_OUT,  /* written */
    PERMUTED, /* read; i32, each of 0..count-1 once */
    I64,      /* read; given */
};

/* A pointer in the struct of arguments. */
struct operand {
    size_t at;
    int64_t count;
    enum kind kind;
    int64_t limit;
    const void *given; /* NULL: numbers that follow from its place */
};
enum { OPERANDS = 8 };
#define OP(type, field, count, kind) OP_OF(type, field, count, kind, 0, NULL)
#define OP_OF(type, field, count, kind, limit, given)                                  \
    {                                                                                  \
        offsetof(hr__##type##_args, field), (count), (kind), (limit), (given)          \
    }

struct pair {
    const hr__kernel *kernel;
    const void *args;
    size_t bytes;
    struct operand op[OPERANDS]; /* count 0 and kind 0 end them */
    double tolerance;            /* of the greatest value; 0: the same bits */
};

static hr_device *dev;
static void (*reverse)(int yes);

static size_t size_of(enum kind kind)
{
    return kind == F64_OUT || kind == I64 ? 8 : 4;
}

static bool is_out(enum kind kind)
{
    return kind == F32_OUT || kind == F64_OUT || kind == I32_OUT;
}

static void *make(const struct operand *o, uint64_t seed)
{
    size_t bytes = (size_t)o->count * size_of(o->kind);
    void *p = malloc(bytes ? bytes : 1);
    if (o->given)
        memcpy(p, o->given, bytes);
    for (int64_t i = 0; !o->given && i < o->count; i++) {
        double x = op_random(seed, (uint64_t)i);
        if (o->kind == F32 || o->kind == F32_OUT)
            ((float *)p)[i] = (float)x;
        else if (o->kind == F64_OUT)
            ((double *)p)[i] = x;
        else if (o->kind == PERMUTED)
            ((int32_t *)p)[i] = (int32_t)((i * 7 + 3) % o->count); /* 7 divides none */
        else
            ((int32_t *)p)[i] =
                o->limit ? (int32_t)((x + 1) / 2 * (double)o->limit) : -1;
    }
    return p;
}

static bool there(const struct operand *o)
{
    return o->count > 0 || o->kind != F32;
}

/* The kernel in one form, on operands of its own, which stay in `memory`. */
static void run(const struct pair *p, bool cuda, void **memory)
{
    _Alignas(16) char args[HR_LAUNCH_ARGS];
    memcpy(args, p->args, p->bytes);
    for (int i = 0; i < OPERANDS && there(&p->op[i]); i++) {
        memory[i] = make(&p->op[i], (uint64_t)i + 1);
        memcpy(args + p->op[i].at, &memory[i], sizeof(void *));
    }
    if (!cuda) {
        op_ok(p->kernel->host(args, NULL));
        return;
    }
    hr_stream *s = hr_device_default_stream(dev);
    op_ok(hr__launch_kernel(s, "kernel", p->kernel, args, p->bytes, NULL, 0));
    op_ok(hr_stream_synchronize(s));
}

static double number(const void *p, enum kind kind, int64_t i)
{
    switch (kind) {
    case F32_OUT:
        return (double)((const float *)p)[i];
    case F64_OUT:
        return ((const double *)p)[i];
    default:
        return (double)((const int32_t *)p)[i];
    }
}

static void compare(const struct pair *p, int op, const void *host, const void *cuda,
                    const void *other)
{
    const struct operand *o = &p->op[op];
    double most = 0;
    assert_memory_equal(cuda, other, (size_t)o->count * size_of(o->kind));
    for (int64_t i = 0; i < o->count; i++)
        most = fmax(most, fabs(number(host, o->kind, i)));
    for (int64_t i = 0; i < o->count; i++) {
        double want = number(host, o->kind, i), got = number(cuda, o->kind, i);
        if (!(fabs(got - want) <= p->tolerance * most))
            fail_msg("operand %d [%lld] is %.9g, not %.9g", op, (long long)i, got,
                     want);
    }
}

static void check(const struct pair *p)
{
    void *memory[3][OPERANDS] = {{0}};
    assert_non_null(p->kernel->cuda);
    for (int side = 0; side < 3; side++) {
        reverse(side == 2);
        run(p, side > 0, memory[side]);
    }
    reverse(false);
    for (int i = 0; i < OPERANDS; i++) {
        if (is_out(p->op[i].kind))
            compare(p, i, memory[0][i], memory[1][i], memory[2][i]);
        for (int side = 0; side < 3; side++)
            free(memory[side][i]);
    }
}

/* One kernel: its name, its arguments but for the operands, the tolerance, the operands. */
#define CHECK(name, a, allowed, ...)                                                   \
    check(&(struct pair){&hr__k_##name, &(a), sizeof(a), {__VA_ARGS__}, allowed})

/* ---- rows ---- */
static void rows_are_added_and_moved(void **state)
{
    const int64_t counts[] = {1, 1000, 70001};
    for (int i = 0; i < 3; i++) {
        hr__add_args a = {.count = counts[i]};
        CHECK(add, a, 0, OP(add, out, a.count, F32_OUT), OP(add, a, a.count, F32),
              OP(add, b, a.count, F32));
    }
    hr__rows_args g = {.n = 41, .from = 29, .width = 37};
    CHECK(gather, g, 0, OP(rows, out, 41 * 37, F32_OUT), OP(rows, x, 29 * 37, F32),
          OP_OF(rows, map, 41, I32, 29, NULL));
    hr__rows_args c = {.n = 13, .top_k = 3, .from = 29, .width = 37};
    CHECK(combine, c, 0, OP(rows, out, 13 * 37, F32_OUT), OP(rows, x, 29 * 37, F32),
          OP_OF(rows, map, 13 * 3, I32, 29, NULL));
    for (int back = 0; back < 2; back++) {
        hr__probs_args p = {.count = 33, .back = back};
        CHECK(permute_probs, p, 0, OP(probs, choices, 33, back ? F32_OUT : F32),
              OP(probs, slots, 33, back ? F32 : F32_OUT),
              OP(probs, slot, 33, PERMUTED));
    }
}

static void embedding_adds_in_the_order_of_tokens(void **state)
{
    hr__embedding_args a = {.n = 71, .width = 35, .vocabulary = 19};
    CHECK(embedding, a, 0, OP(embedding, rows, 71 * 35, F32_OUT),
          OP(embedding, table, 19 * 35, F32), OP_OF(embedding, ids, 71, I32, 19, NULL));
    CHECK(embedding_back, a, 0, OP(embedding, table, 19 * 35, F32_OUT),
          OP(embedding, rows, 71 * 35, F32), OP_OF(embedding, ids, 71, I32, 19, NULL));
}

static void rmsnorm_is_the_hosts(void **state)
{
    const int64_t n = 300, c = 67; /* two parts, the second one odd */
    hr__rmsnorm_args a = {.n = n, .width = c, .eps = 1e-5F};
    CHECK(rmsnorm, a, 1e-6, OP(rmsnorm, y, n * c, F32_OUT), OP(rmsnorm, x, n * c, F32),
          OP(rmsnorm, g, c, F32));
    CHECK(rmsnorm_back, a, 2e-6, OP(rmsnorm, y, n * c, F32_OUT),
          OP(rmsnorm, x, n * c, F32), OP(rmsnorm, g, c, F32),
          OP(rmsnorm, dy, n * c, F32));
    CHECK(rmsnorm_back, a, 2e-6, OP(rmsnorm, y, n * c, F32_OUT),
          OP(rmsnorm, x, n * c, F32), OP(rmsnorm, g, c, F32),
          OP(rmsnorm, dy, n * c, F32), OP(rmsnorm, dg, c, F32_OUT),
          OP(rmsnorm, partial, 2 * c, F32));
}

static void swiglu_leaves_slack_alone(void **state)
{
    const int64_t n = 21, d = 35, live = 17;
    hr__swiglu_args a = {.n = n, .width = d};
    CHECK(swiglu, a, 1e-6, OP(swiglu, y, n * d, F32_OUT),
          OP(swiglu, x, n * 2 * d, F32));
    CHECK(swiglu, a, 1e-6, OP(swiglu, y, n * d, F32_OUT), OP(swiglu, x, n * 2 * d, F32),
          OP(swiglu, scale, n, F32), OP_OF(swiglu, live, 1, I64, 0, &live));
    CHECK(swiglu_back, a, 1e-6, OP(swiglu, y, n * 2 * d, F32_OUT),
          OP(swiglu, x, n * 2 * d, F32), OP(swiglu, dy, n * d, F32));
    CHECK(swiglu_back, a, 1e-6, OP(swiglu, y, n * 2 * d, F32_OUT),
          OP(swiglu, x, n * 2 * d, F32), OP(swiglu, dy, n * d, F32),
          OP(swiglu, scale, n, F32), OP(swiglu, dscale, n, F32_OUT),
          OP_OF(swiglu, live, 1, I64, 0, &live));
}

/* ---- products ---- */
static void products_take_operands_either_way(void **state)
{
    const int64_t m = 5, n = 7;
    for (int bits = 0; bits < 8; bits++)
        for (int64_t k = 1; k < 10; k += 8) {
            hr__gemm_args a = {.m = m,
                               .n = n,
                               .k = k,
                               .a_across = bits & 1,
                               .b_across = bits & 2,
                               .add = bits & 4};
            CHECK(gemm, a, 1e-6, OP(gemm, c, m * n, F32_OUT), OP(gemm, a, m * k, F32),
                  OP(gemm, b, n * k, F32));
        }
}

static void products_by_expert_leave_slack_alone(void **state)
{
    const int64_t offsets[] = {0, 70, 70, 71, 150}, rows = 160, in = 19, out = 70;
    hr__grouped_args a = {.rows = rows, .experts = 4, .in = in, .out = out};
#define LIMITS OP_OF(grouped, offsets, 5, I64, 0, offsets)
    CHECK(grouped, a, 1e-6, OP(grouped, y, rows * out, F32_OUT),
          OP(grouped, x, rows * in, F32), OP(grouped, w, 4 * out * in, F32), LIMITS);
    CHECK(grouped_dx, a, 1e-6, OP(grouped, x, rows * in, F32_OUT),
          OP(grouped, y, rows * out, F32), OP(grouped, w, 4 * out * in, F32), LIMITS);
    CHECK(grouped_dw, a, 1e-6, OP(grouped, w, 4 * out * in, F32_OUT),
          OP(grouped, x, rows * in, F32), OP(grouped, y, rows * out, F32), LIMITS);
#undef LIMITS
}

/* ---- attention ---- */
static void check_attention(int64_t sequences, int64_t t, int64_t heads, int64_t d)
{
    int64_t n = sequences * t, c = heads * d;
    hr__attention_args a = {.sequences = sequences,
                            .seq_len = t,
                            .heads = heads,
                            .head_width = d,
                            .rope_base = 10000};
    struct operand qkv = OP(attention, qkv, n * 3 * c, F32);
    CHECK(attention, a, 1e-5, OP(attention, out, n * c, F32_OUT),
          OP(attention, lse, n * heads, F32_OUT), qkv);
    float *out = malloc((size_t)(n * c) * sizeof *out);
    float *lse = malloc((size_t)(n * heads) * sizeof *lse);
    float *x = make(&qkv, 1);
    hr__attention_args forward = a;
    forward.qkv = x;
    forward.out = out;
    forward.lse = lse;
    op_ok(hr__host_attention(&forward, NULL));
    qkv.given = x;
    CHECK(attention_back, a, 1e-5, qkv, OP(attention, dqkv, n * 3 * c, F32_OUT),
          OP(attention, dout, n * c, F32), OP_OF(attention, out, n * c, F32, 0, out),
          OP_OF(attention, lse, n * heads, F32, 0, lse));
    free(x);
    free(lse);
    free(out);
}

static void attention_is_the_hosts(void **state)
{
    check_attention(2, 45, 3, 6);
    check_attention(1, 33, 1, 128);
    check_attention(3, 1, 2, 34);
}

static void wide_heads_are_refused(void **state)
{
    hr__attention_args a = {
        .sequences = 1, .seq_len = 1, .heads = 1, .head_width = 130};
    op_fails(hr__k_attention.cuda(hr_device_default_stream(dev), &a),
             HR_ERR_UNSUPPORTED, "130", "128", NULL);
}

/* ---- routing ---- */
static void the_router_is_the_hosts(void **state)
{
    const int64_t n = 30, e = 37, k = 5, t = 10;
    for (int aux = 0; aux < 2; aux++) {
        hr__router_args a = {.n = n,
                             .experts = e,
                             .top_k = k,
                             .normalize = aux,
                             .seq_len = aux ? t : 0,
                             .aux_scale = aux ? 0.5F : 0};
        struct operand logits = OP(router, logits, n * e, F32);
        struct operand sum = OP(router, aux_sum, aux, F32_OUT);
        struct operand losses = OP(router, losses, aux * n / t, F32_OUT);
        struct operand none = {0};
        CHECK(router, a, 1e-5, logits, OP(router, probs, n * k, F32_OUT),
              OP(router, index, n * k, I32_OUT), aux ? sum : none, aux ? losses : none);
        int32_t index[30 * 5]; /* k of the experts, none twice */
        for (int i = 0; i < n * k; i++)
            index[i] = (int32_t)((i / k * 3 + i % k * 7) % e);
        CHECK(router_back, a, 1e-5, logits, OP(router, dlogits, n * e, F32_OUT),
              OP(router, probs, n * k, F32),
              OP_OF(router, index, n * k, I32, 0, index));
    }
}

static void copies_are_sorted_by_expert(void **state)
{
    hr__sort_args a = {.n = 333, .top_k = 2, .experts = 7};
    CHECK(sort_choices, a, 0, OP(sort, source, 666, I32_OUT),
          OP(sort, slot, 666, I32_OUT), OP(sort, counts, 7, I32_OUT),
          OP_OF(sort, index, 666, I32, 7, NULL));
}

/* ---- loss and optimiser ---- */
static void cross_entropy_is_the_hosts(void **state)
{
    const int64_t n = 9, v = 300;
    const int32_t targets[] = {0, 299, -1, 17, 256, 255, -1, 3, 3};
    float lse[9];
    hr__cross_entropy_args a = {.n = n, .vocabulary = v, .scale = 0.25F};
    struct operand logits = OP(cross_entropy, logits, n * v, F32);
    struct operand wanted = OP_OF(cross_entropy, targets, n, I32, 0, targets);
    CHECK(cross_entropy, a, 1e-6, logits, wanted, OP(cross_entropy, lse, n, F32_OUT),
          OP(cross_entropy, loss, 1, F32_OUT));
    for (int i = 0; i < n; i++)
        lse[i] = 5.8F + (float)i / 100;
    CHECK(cross_entropy_back, a, 1e-6, logits, wanted,
          OP_OF(cross_entropy, lse, n, F32, 0, lse), OP(cross_entropy, loss, 1, F32),
          OP(cross_entropy, dlogits, n * v, F32_OUT));
}

static void the_optimiser_is_the_hosts(void **state)
{
    const int64_t n = 70001;
    hr__sum_squares_args q = {.count = n};
    CHECK(sum_squares, q, 1e-12, OP(sum_squares, x, n, F32),
          OP(sum_squares, sum, 1, F64_OUT), OP(sum_squares, partial, 2, F64_OUT));
    float v[1001];
    for (int i = 0; i < 1001; i++)
        v[i] = (float)i / 1000;
    hr__adamw_args a = {.count = 1001,
                        .rate = {0.5F, 0.9F, 0.99F, 1e-8F, 1e-4F, 1e-2F, 1.5F}};
    CHECK(adamw, a, 1e-6, OP(adamw, w, 1001, F32_OUT), OP(adamw, g, 1001, F32),
          OP(adamw, m, 1001, F32_OUT), OP_OF(adamw, v, 1001, F32_OUT, 0, v));
}

/* ---- what goes wrong ---- */
static void an_index_out_of_range_fails_the_device(void **state)
{
    float x[4] = {1, 2, 3, 4}, out[4] = {0};
    int32_t map[2] = {1, 9};
    hr_stream *s = hr_device_default_stream(dev);
    hr__rows_args a = {.x = x, .out = out, .map = map, .n = 2, .from = 2, .width = 2};
    op_ok(hr__launch_kernel(s, "gather", &hr__k_gather, &a, sizeof a, NULL, 0));
    op_fails(hr_stream_synchronize(s), HR_ERR_INVALID, "permute: source[1] is 9",
             "not 0..1", NULL);
    hr_device_reset(dev);
    assert_true(out[0] == 3 && out[2] == 0);
}

static void without_cublas_a_product_says_so(void **state)
{
    float x[1] = {1}, c[1];
    char *was = strdup(getenv("HEADRACE_CUBLAS"));
    hr_stream *s = hr_device_default_stream(dev);
    hr__gemm_args a = {.c = c, .a = x, .b = x, .m = 1, .n = 1, .k = 1};
    setenv("HEADRACE_CUBLAS", "/nowhere/libcublas.so", 1);
    op_ok(hr__launch_kernel(s, "linear", &hr__k_gemm, &a, sizeof a, NULL, 0));
    op_fails(hr_stream_synchronize(s), HR_ERR_UNSUPPORTED, "launch 'linear'",
             "no cuBLAS can be loaded", "/nowhere", NULL);
    setenv("HEADRACE_CUBLAS", was, 1);
    free(was);
    hr_device_reset(dev);
}

static int open_device(void **state)
{
    void *runtime = dlopen(getenv("HEADRACE_CUDART"), RTLD_NOW);
    void *f = runtime ? dlsym(runtime, "simt_reverse") : NULL;
    memcpy(&reverse, &f, sizeof f);
    dev = f ? op_open(1) : NULL;
    return dev ? 0 : -1;
}

static int close_device(void **state)
{
    op_close(dev);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_cublas_a_product_says_so), /* first: it stays loaded */
        cmocka_unit_test(rows_are_added_and_moved),
        cmocka_unit_test(embedding_adds_in_the_order_of_tokens),
        cmocka_unit_test(rmsnorm_is_the_hosts),
        cmocka_unit_test(swiglu_leaves_slack_alone),
        cmocka_unit_test(products_take_operands_either_way),
        cmocka_unit_test(products_by_expert_leave_slack_alone),
        cmocka_unit_test(attention_is_the_hosts),
        cmocka_unit_test(wide_heads_are_refused),
        cmocka_unit_test(the_router_is_the_hosts),
        cmocka_unit_test(copies_are_sorted_by_expert),
        cmocka_unit_test(cross_entropy_is_the_hosts),
        cmocka_unit_test(the_optimiser_is_the_hosts),
        cmocka_unit_test(an_index_out_of_range_fails_the_device),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
