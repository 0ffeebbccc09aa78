/* The arithmetic on rows: exp against libm, and every instruction set against the plainest. */
#include "op_check.h"
#include "ops/host/vec.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void exp_is_right_to_two_units_in_the_last_place(void **state)
{
    enum { N = 20001 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    for (int i = 0; i < N; i++)
        x[i] = -87.0F + 174.0F * (float)i / (N - 1);
    for (int kind = 0; kind < HR__VEC_KINDS; kind++) {
        const hr__vec *vec = hr__vec_kind(kind);
        if (!vec)
            continue;
        vec->exp(y, x, N);
        for (int i = 0; i < N; i++) {
            double want = exp((double)x[i]);
            if (fabs((double)y[i] - want) > 2.5e-7 * want)
                fail_msg("%s: exp(%g) is %.9g, not %.9g", vec->name, (double)x[i],
                         (double)y[i], want);
        }
    }
    free(x);
    free(y);
}

static void exp_keeps_the_ends_of_its_range(void **state)
{
    const uint32_t ones = UINT32_MAX; /* a NaN too */
    float x[6] = {0, -INFINITY, -200, NAN, 0, -88}, y[6];
    memcpy(&x[4], &ones, sizeof ones);
    for (int kind = 0; kind < HR__VEC_KINDS; kind++) {
        const hr__vec *vec = hr__vec_kind(kind);
        if (!vec)
            continue;
        vec->exp(y, x, 6);
        assert_true(y[0] == 1);
        assert_true(y[1] == 0 && y[2] == 0 && y[5] == 0);
        assert_true(isnan(y[3]) && isnan(y[4]));
    }
}

/* Forward and backward of one head by one instruction set, into out, lse, dqkv. */
static void one_head(const hr__vec *vec, int64_t t, int64_t d, float *all)
{
    float *qkv = all, *dout = qkv + 3 * t * d, *rotary = dout + t * d;
    float *out = rotary + t * d, *lse = out + t * d, *dqkv = lse + t;
    hr__head h = {.q = qkv,
                  .k = qkv + d,
                  .v = qkv + 2 * d,
                  .dq = dqkv,
                  .dk = dqkv + d,
                  .dv = dqkv + 2 * d,
                  .stride = 3 * d,
                  .out = out,
                  .dout = dout,
                  .out_stride = d,
                  .lse = lse,
                  .rotary = rotary,
                  .seq_len = t,
                  .width = d};
    size_t floats = vec->attention_scratch(t, d, true);
    h.scratch = aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64);
    vec->attention(&h);
    vec->attention_back(&h);
    free(h.scratch);
}

static void instruction_sets_agree_on_attention(void **state)
{
    enum { T = 100, D = 18, IN = 5 * T * D, ALL = IN + 4 * T * D + T };
    float *plain = malloc(ALL * sizeof *plain), *mine = malloc(ALL * sizeof *mine);
    for (int kind = 0; kind < HR__VEC_KINDS; kind++) {
        const hr__vec *vec = hr__vec_kind(kind);
        float *all = kind == 0 ? plain : mine;
        if (!vec)
            continue;
        for (int i = 0; i < IN; i++)
            all[i] = (float)op_random(7, (uint64_t)i);
        one_head(vec, T, D, all);
        for (int i = IN; kind > 0 && i < ALL; i++)
            if (!(fabsf(mine[i] - plain[i]) <= 1e-5F))
                fail_msg("%s: [%d] is %.9g, not %.9g", vec->name, i - IN,
                         (double)mine[i], (double)plain[i]);
    }
    free(plain);
    free(mine);
}

static void instruction_sets_agree_on_rows(void **state)
{
    enum { ROWS = 3, W = 37, IN = 4 * ROWS * W, OUT = 6 * ROWS * W };
    float in[IN], plain[OUT], mine[OUT];
    int32_t targets[ROWS] = {4, -1, 36};
    for (int i = 0; i < IN; i++)
        in[i] = (float)op_random(6, (uint64_t)i);
    for (int kind = 0; kind < HR__VEC_KINDS; kind++) {
        const hr__vec *vec = hr__vec_kind(kind);
        float *o = kind == 0 ? plain : mine;
        if (!vec)
            continue;
        for (int i = 0; i < OUT; i++)
            o[i] = 0;
        vec->rmsnorm(o, in, in + ROWS * W, ROWS, W, 1e-5F);
        vec->rmsnorm_back(o + ROWS * W, o + 5 * ROWS * W, in, in + ROWS * W,
                          in + 2 * ROWS * W, ROWS, W, 1e-5F);
        vec->swiglu_back(o + 2 * ROWS * W, o + 5 * ROWS * W + W, in, in,
                         in + 2 * ROWS * W, ROWS, W);
        vec->log_sum_exp(o + 5 * ROWS * W + W + ROWS, in, ROWS, W);
        vec->cross_entropy_back(o + 4 * ROWS * W, in, o + 5 * ROWS * W + W + ROWS,
                                targets, 0.5F, ROWS, W);
        for (int i = 0; kind > 0 && i < OUT; i++)
            if (!(fabsf(mine[i] - plain[i]) <= 1e-5F))
                fail_msg("%s: [%d] is %.9g, not %.9g", vec->name, i, (double)mine[i],
                         (double)plain[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_right_to_two_units_in_the_last_place),
        cmocka_unit_test(exp_keeps_the_ends_of_its_range),
        cmocka_unit_test(instruction_sets_agree_on_attention),
        cmocka_unit_test(instruction_sets_agree_on_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
