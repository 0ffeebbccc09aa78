/* Every kernel of the operators in both its forms; see kernel_pair.h. */
#include "kernel_pair.h"

#include <stdlib.h>
#include <string.h>

static hr_device *dev;

/* ---- rows ---- */
static void rows_are_added_and_moved(void **state)
{
    const int64_t counts[] = {1, 1000, 70001};
    for (int i = 0; i < 3; i++) {
        hr__add_args a = {.count = counts[i]};
        PAIR_BOTH(add, a, 0, PAIR(add, out, a.count, REAL_OUT),
                  PAIR(add, a, a.count, REAL), PAIR(add, b, a.count, REAL));
    }
    hr__rows_args g = {.n = 41, .from = 29, .width = 37};
    PAIR_BOTH(gather, g, 0, PAIR(rows, out, 41 * 37, REAL_OUT),
              PAIR(rows, x, 29 * 37, REAL), PAIR_OF(rows, map, 41, I32, 29, NULL));
    hr__rows_args c = {.n = 13, .top_k = 3, .from = 29, .width = 37};
    PAIR_BOTH(combine, c, 0, PAIR(rows, out, 13 * 37, REAL_OUT),
              PAIR(rows, x, 29 * 37, REAL), PAIR_OF(rows, map, 13 * 3, I32, 29, NULL));
    for (int back = 0; back < 2; back++) {
        hr__probs_args p = {.count = 33, .back = back};
        PAIR_CHECK(permute_probs, p, 0, PAIR(probs, choices, 33, back ? F32_OUT : F32),
                   PAIR(probs, slots, 33, back ? F32 : F32_OUT),
                   PAIR(probs, slot, 33, PERMUTED));
    }
}

static void embedding_adds_in_the_order_of_tokens(void **state)
{
    hr__embedding_args a = {.n = 71, .width = 35, .vocabulary = 19};
    PAIR_BOTH(embedding, a, 0, PAIR(embedding, rows, 71 * 35, REAL_OUT),
              PAIR(embedding, table, 19 * 35, REAL),
              PAIR_OF(embedding, ids, 71, I32, 19, NULL));
    PAIR_BOTH(embedding_back, a, 0, PAIR(embedding, table, 19 * 35, F32_OUT),
              PAIR(embedding, rows, 71 * 35, REAL),
              PAIR_OF(embedding, ids, 71, I32, 19, NULL));
}

static void rmsnorm_is_the_hosts(void **state)
{
    const int64_t n = 300, c = 67; /* two parts, the second one odd */
    hr__rmsnorm_args a = {.n = n, .width = c, .eps = 1e-5F};
    PAIR_BOTH(rmsnorm, a, 1e-6, PAIR(rmsnorm, y, n * c, REAL_OUT),
              PAIR(rmsnorm, x, n * c, REAL), PAIR(rmsnorm, g, c, REAL));
    PAIR_BOTH(rmsnorm_back, a, 2e-6, PAIR(rmsnorm, y, n * c, REAL_OUT),
              PAIR(rmsnorm, x, n * c, REAL), PAIR(rmsnorm, g, c, REAL),
              PAIR(rmsnorm, dy, n * c, REAL));
    PAIR_BOTH(rmsnorm_back, a, 2e-6, PAIR(rmsnorm, y, n * c, REAL_OUT),
              PAIR(rmsnorm, x, n * c, REAL), PAIR(rmsnorm, g, c, REAL),
              PAIR(rmsnorm, dy, n * c, REAL), PAIR(rmsnorm, dg, c, F32_OUT),
              PAIR(rmsnorm, partial, 2 * c, F32));
}

static void swiglu_leaves_slack_alone(void **state)
{
    const int64_t n = 21, d = 35, live = 17;
    hr__swiglu_args a = {.n = n, .width = d};
    PAIR_BOTH(swiglu, a, 1e-6, PAIR(swiglu, y, n * d, REAL_OUT),
              PAIR(swiglu, x, n * 2 * d, REAL));
    PAIR_BOTH(swiglu, a, 1e-6, PAIR(swiglu, y, n * d, REAL_OUT),
              PAIR(swiglu, x, n * 2 * d, REAL), PAIR(swiglu, scale, n, F32),
              PAIR_OF(swiglu, live, 1, I64, 0, &live));
    PAIR_BOTH(swiglu_back, a, 1e-6, PAIR(swiglu, y, n * 2 * d, REAL_OUT),
              PAIR(swiglu, x, n * 2 * d, REAL), PAIR(swiglu, dy, n * d, REAL));
    PAIR_BOTH(swiglu_back, a, 1e-6, PAIR(swiglu, y, n * 2 * d, REAL_OUT),
              PAIR(swiglu, x, n * 2 * d, REAL), PAIR(swiglu, dy, n * d, REAL),
              PAIR(swiglu, scale, n, F32), PAIR(swiglu, dscale, n, F32_OUT),
              PAIR_OF(swiglu, live, 1, I64, 0, &live));
}

/* ---- products ---- */
static void check_product(hr__gemm_args a)
{
    PAIR_CHECK(gemm, a, 1e-6, PAIR(gemm, c, a.m * a.n, F32_OUT),
               PAIR(gemm, a, a.m * a.k, F32), PAIR(gemm, b, a.n * a.k, F32));
    a.type = HR_BF16; /* into f32, then into bf16 */
    for (int same = 0; same < 2; same++) {
        a.c_type = same ? HR_BF16 : HR_F32;
        pair_check(&(kernel_pair){&hr__k_gemm,
                                  &a,
                                  sizeof a,
                                  HR_BF16,
                                  1e-6,
                                  {PAIR(gemm, c, a.m * a.n, same ? REAL_OUT : F32_OUT),
                                   PAIR(gemm, a, a.m * a.k, REAL),
                                   PAIR(gemm, b, a.n * a.k, REAL)}});
    }
}

static void products_take_operands_either_way(void **state)
{
    for (int bits = 0; bits < 8; bits++)
        for (int64_t k = 1; k < 10; k += 8)
            check_product((hr__gemm_args){.m = 5,
                                          .n = 7,
                                          .k = k,
                                          .a_across = bits & 1,
                                          .b_across = bits & 2,
                                          .add = bits & 4});
}

static void products_by_expert_leave_slack_alone(void **state)
{
    const int64_t offsets[] = {0, 70, 70, 71, 150}, rows = 160, in = 19, out = 70;
    hr__grouped_args a = {.rows = rows, .experts = 4, .in = in, .out = out};
#define LIMITS PAIR_OF(grouped, offsets, 5, I64, 0, offsets)
    PAIR_BOTH(grouped, a, 1e-6, PAIR(grouped, y, rows * out, REAL_OUT),
              PAIR(grouped, x, rows * in, REAL), PAIR(grouped, w, 4 * out * in, REAL),
              LIMITS);
    PAIR_BOTH(grouped_dx, a, 1e-6, PAIR(grouped, x, rows * in, REAL_OUT),
              PAIR(grouped, y, rows * out, REAL), PAIR(grouped, w, 4 * out * in, REAL),
              LIMITS);
    PAIR_BOTH(grouped_dw, a, 1e-6, PAIR(grouped, w, 4 * out * in, F32_OUT),
              PAIR(grouped, x, rows * in, REAL), PAIR(grouped, y, rows * out, REAL),
              LIMITS);
#undef LIMITS
}

/* ---- attention ---- */
/* Backward gets what the host made in forward. */
static void check_attention_back(hr__attention_args a, int64_t n, int64_t c)
{
    pair_operand qkv = PAIR(attention, qkv, n * 3 * c, REAL);
    void *x = pair_numbers(&qkv, a.type, 1);
    void *out = malloc((size_t)(n * c) * hr_dtype_bytes(a.type));
    float *lse = malloc((size_t)(n * a.heads) * sizeof *lse);
    hr__attention_args forward = a;
    forward.qkv = x;
    forward.out = out;
    forward.lse = lse;
    op_ok(hr__host_attention(&forward, NULL));
    qkv.given = x;
    pair_check(&(kernel_pair){&hr__k_attention_back,
                              &a,
                              sizeof a,
                              a.type,
                              1e-5,
                              {qkv, PAIR(attention, dqkv, n * 3 * c, REAL_OUT),
                               PAIR(attention, dout, n * c, REAL),
                               PAIR_OF(attention, out, n * c, REAL, 0, out),
                               PAIR_OF(attention, lse, n * a.heads, F32, 0, lse)}});
    free(x);
    free(lse);
    free(out);
}

static void check_attention(int64_t sequences, int64_t t, int64_t heads, int64_t d)
{
    int64_t n = sequences * t, c = heads * d;
    hr__attention_args a = {.sequences = sequences,
                            .seq_len = t,
                            .heads = heads,
                            .head_width = d,
                            .rope_base = 10000};
    PAIR_BOTH(attention, a, 1e-5, PAIR(attention, out, n * c, REAL_OUT),
              PAIR(attention, lse, n * heads, F32_OUT),
              PAIR(attention, qkv, n * 3 * c, REAL));
    for (int bf16 = 0; bf16 < 2; bf16++) {
        a.type = bf16 ? HR_BF16 : HR_F32;
        check_attention_back(a, n, c);
    }
}

static void attention_is_the_hosts(void **state)
{
    check_attention(2, 45, 3, 6);
    check_attention(1, 33, 1, 128);
    check_attention(3, 1, 2, 34);
}

/* They take two passes over their columns, the second one short or whole. */
static void attention_of_wide_heads_is_the_hosts(void **state)
{
    check_attention(1, 41, 2, 130);
    check_attention(1, 35, 1, 256);
}

static void wider_heads_are_refused(void **state)
{
    hr__attention_args a = {
        .sequences = 1, .seq_len = 1, .heads = 1, .head_width = 258};
    op_fails(hr__k_attention.cuda(hr_device_default_stream(dev), &a),
             HR_ERR_UNSUPPORTED, "258", "256", NULL);
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
        pair_operand logits = PAIR(router, logits, n * e, REAL);
        pair_operand sum = PAIR(router, aux_sum, aux, F32_OUT);
        pair_operand losses = PAIR(router, losses, aux * n / t, F32_OUT);
        pair_operand none = {0};
        PAIR_BOTH(router, a, 1e-5, logits, PAIR(router, probs, n * k, F32_OUT),
                  PAIR(router, index, n * k, I32_OUT), aux ? sum : none,
                  aux ? losses : none);
        int32_t index[30 * 5]; /* k of the experts, none twice */
        for (int i = 0; i < n * k; i++)
            index[i] = (int32_t)((i / k * 3 + i % k * 7) % e);
        PAIR_BOTH(router_back, a, 1e-5, logits, PAIR(router, dlogits, n * e, REAL_OUT),
                  PAIR(router, probs, n * k, F32),
                  PAIR_OF(router, index, n * k, I32, 0, index));
    }
}

static void copies_are_sorted_by_expert(void **state)
{
    hr__sort_args a = {.n = 333, .top_k = 2, .experts = 7};
    PAIR_CHECK(sort_choices, a, 0, PAIR(sort, source, 666, I32_OUT),
               PAIR(sort, slot, 666, I32_OUT), PAIR(sort, counts, 7, I32_OUT),
               PAIR_OF(sort, index, 666, I32, 7, NULL));
}

/* ---- loss and optimiser ---- */
static void cross_entropy_is_the_hosts(void **state)
{
    const int64_t n = 9, v = 300;
    const int32_t targets[] = {0, 299, -1, 17, 256, 255, -1, 3, 3};
    float lse[9];
    hr__cross_entropy_args a = {.n = n, .vocabulary = v, .scale = 0.25F};
    pair_operand logits = PAIR(cross_entropy, logits, n * v, REAL);
    pair_operand wanted = PAIR_OF(cross_entropy, targets, n, I32, 0, targets);
    PAIR_BOTH(cross_entropy, a, 1e-6, logits, wanted,
              PAIR(cross_entropy, lse, n, F32_OUT),
              PAIR(cross_entropy, loss, 1, F32_OUT));
    for (int i = 0; i < n; i++)
        lse[i] = 5.8F + (float)i / 100;
    PAIR_BOTH(cross_entropy_back, a, 1e-6, logits, wanted,
              PAIR_OF(cross_entropy, lse, n, F32, 0, lse),
              PAIR(cross_entropy, loss, 1, F32),
              PAIR(cross_entropy, dlogits, n * v, REAL_OUT));
}

static void the_optimiser_is_the_hosts(void **state)
{
    const int64_t n = 70001;
    hr__sum_squares_args q = {.count = n};
    PAIR_CHECK(sum_squares, q, 1e-12, PAIR(sum_squares, x, n, F32),
               PAIR(sum_squares, sum, 1, F64_OUT),
               PAIR(sum_squares, partial, 2, F64_OUT));
    float v[1001];
    for (int i = 0; i < 1001; i++)
        v[i] = (float)i / 1000;
    hr__adamw_args a = {.count = 1001,
                        .rate = {0.5F, 0.9F, 0.99F, 1e-8F, 1e-4F, 1e-2F, 1.5F}};
    PAIR_CHECK(adamw, a, 1e-6, PAIR(adamw, w, 1001, F32_OUT), PAIR(adamw, g, 1001, F32),
               PAIR(adamw, m, 1001, F32_OUT), PAIR_OF(adamw, v, 1001, F32_OUT, 0, v));
}

static void conversion_is_the_hosts(void **state)
{
    const int64_t n = 70001;
    hr__convert_args a = {.count = n, .type = HR_BF16};
    pair_check(
        &(kernel_pair){&hr__k_convert,
                       &a,
                       sizeof a,
                       HR_BF16,
                       0,
                       {PAIR(convert, to, n, REAL_OUT), PAIR(convert, from, n, F32)}});
    a.type = HR_F32;
    pair_check(
        &(kernel_pair){&hr__k_convert,
                       &a,
                       sizeof a,
                       HR_BF16,
                       0,
                       {PAIR(convert, to, n, F32_OUT), PAIR(convert, from, n, REAL)}});
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
    dev = pair_open();
    return dev ? 0 : -1;
}

static int close_device(void **state)
{
    pair_close();
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
        cmocka_unit_test(attention_of_wide_heads_is_the_hosts),
        cmocka_unit_test(wider_heads_are_refused),
        cmocka_unit_test(the_router_is_the_hosts),
        cmocka_unit_test(copies_are_sorted_by_expert),
        cmocka_unit_test(cross_entropy_is_the_hosts),
        cmocka_unit_test(the_optimiser_is_the_hosts),
        cmocka_unit_test(conversion_is_the_hosts),
        cmocka_unit_test(an_index_out_of_range_fails_the_device),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
