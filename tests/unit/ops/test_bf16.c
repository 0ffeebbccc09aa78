/* The operators on bf16 against plain loops in double: what is bf16 is right to its rounding, 2^-8 of the
 * greatest value, what is f32 as in f32. And conversion, which is exact. */
#include "op_check.h"
#include "reference.h"
#include "tensor/bf16.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- conversion ---- */
static float of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static uint16_t near(uint32_t bits)
{
    return hr__bf16_near(of_bits(bits)).bits;
}

static bool is_nan(uint32_t bits)
{
    return (bits & 0x7fffffffU) > 0x7f800000U;
}

static void every_number_comes_back_as_it_was(void **state)
{
    for (uint32_t i = 0; i < 65536; i++) {
        uint32_t wide = bits_of(hr__bf16_wide((hr__bf16){(uint16_t)i}));
        assert_int_equal(wide, i << 16);
        assert_int_equal(near(wide), is_nan(wide) ? i | 0x40 : i);
    }
}

/* Between each number and the next: below the middle the one, above it the other, on it the even one. Past the
 * greatest comes infinity, and numbers too small for a normal one are like the others. */
static void what_lies_between_goes_to_the_nearest_and_halves_to_even(void **state)
{
    for (uint32_t i = 0; i < 65536; i++) {
        if ((i & 0x7fff) >= 0x7f80) /* infinity or NaN */
            continue;
        uint16_t down = (uint16_t)i, up = (uint16_t)(i + 1), even = i & 1 ? up : down;
        assert_int_equal(near(i << 16 | 0x0001), down);
        assert_int_equal(near(i << 16 | 0x7fff), down);
        assert_int_equal(near(i << 16 | 0x8000), even);
        assert_int_equal(near(i << 16 | 0x8001), up);
        assert_int_equal(near(i << 16 | 0xffff), up);
    }
}

static void not_a_number_stays_one(void **state)
{
    for (uint32_t low = 1; low < 0x800000; low = low * 3 + 1)
        for (uint32_t sign = 0; sign < 2; sign++) {
            uint16_t x = near(sign << 31 | 0x7f800000U | low);
            assert_true(isnan(hr__bf16_wide((hr__bf16){x})));
            assert_int_equal(x >> 15, sign);
        }
}

/* All of a kernel's numbers at once, by the instructions that it is built with. */
static void a_tensor_is_converted_there_and_back(void **state)
{
    enum { N = 3 * 65536 + 5 };
    hr_device *dev = op_open(2);
    uint32_t *bits = malloc(N * sizeof *bits);
    uint16_t *narrow = malloc(N * sizeof *narrow);
    for (uint32_t i = 0; i < N; i++)
        bits[i] = i % 65536 << 16 | (i / 65536 * 0x7fff + i % 3);
    hr_tensor *wide = op_f32(OP_SHAPE(N), NULL), *x = op_bf16(OP_SHAPE(N), NULL);
    op_ok(hr_tensor_write(wide, bits, N * sizeof *bits));
    op_ok(hr_op_convert(wide, x));
    op_ok(hr_tensor_read(x, narrow, N * sizeof *narrow));
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(narrow[i], near(bits[i]));
    op_ok(hr_op_convert(x, wide));
    op_ok(hr_tensor_read(wide, bits, N * sizeof *bits));
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(bits[i], (uint32_t)narrow[i] << 16);
    hr_tensor_release(x);
    hr_tensor_release(wide);
    free(narrow);
    free(bits);
    op_close(dev);
}

/* ---- the operators ---- */
struct shape {
    int64_t n, in, out, heads;
    const int32_t *ids;
    const int64_t *offsets;
};

static hr_status run_add(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                         hr_tensor **out)
{
    return hr_op_add(in[0], in[1], out);
}

static double plain_add(const void *ctx, double *const *in, double *out)
{
    const struct shape *s = ctx;
    for (int64_t i = 0; i < s->n * s->in; i++)
        out[i] = in[0][i] + in[1][i];
    return 0;
}

static void add_rounds_once(void **state)
{
    struct shape s = {.n = 9, .in = 37};
    op_check_bf16(&(op_check){
        .ctx = &s,
        .run = run_add,
        .reference = plain_add,
        .in = {{.ndim = 2, .shape = {9, 37}}, {.ndim = 2, .shape = {9, 37}}}});
}

static hr_status run_embedding(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                               hr_tensor **out)
{
    const struct shape *s = ctx;
    hr_tensor *ids = op_i32(OP_SHAPE(s->n), s->ids);
    hr_status st = hr_op_embedding(in[0], ids, out);
    hr_tensor_release(ids);
    return st;
}

static double plain_embedding(const void *ctx, double *const *in, double *out)
{
    const struct shape *s = ctx;
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t c = 0; c < s->in; c++)
            out[n * s->in + c] = in[0][s->ids[n] * s->in + c];
    return 0;
}

static void embedding_adds_up_in_f32(void **state)
{
    int32_t ids[40];
    for (int i = 0; i < 40; i++)
        ids[i] = i * i % 5;
    struct shape s = {.n = 40, .in = 35, .ids = ids};
    op_check_bf16(&(op_check){.ctx = &s,
                              .run = run_embedding,
                              .reference = plain_embedding,
                              .in = {{.ndim = 2, .shape = {6, 35}}}});
}

static hr_status run_rmsnorm(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                             hr_tensor **out)
{
    return hr_op_rmsnorm(in[0], in[1], 1e-3F, out);
}

static double plain_rmsnorm(const void *ctx, double *const *in, double *out)
{
    const struct shape *s = ctx;
    ref_rmsnorm(in[0], in[1], s->n, s->in, (double)1e-3F, out);
    return 0;
}

static void rmsnorm_sums_in_f32(void **state)
{
    struct shape s = {.n = 270, .in = 19};
    op_check_bf16(&(op_check){
        .ctx = &s,
        .run = run_rmsnorm,
        .reference = plain_rmsnorm,
        .in = {{.ndim = 2, .shape = {s.n, s.in}}, {.ndim = 1, .shape = {s.in}}}});
}

static hr_status run_swiglu(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                            hr_tensor **out)
{
    return hr_op_swiglu(in[0], in[1], out);
}

static double plain_swiglu(const void *ctx, double *const *in, double *out)
{
    const struct shape *s = ctx;
    ref_swiglu(in[0], in[1], s->n, s->in, out);
    return 0;
}

static void swiglu_has_scales_of_f32(void **state)
{
    struct shape s = {.n = 5, .in = 41};
    op_check_bf16(&(op_check){.ctx = &s,
                              .run = run_swiglu,
                              .reference = plain_swiglu,
                              .in = {{.ndim = 2, .shape = {5, 82}, .scale = 4},
                                     {.ndim = 1, .shape = {5}, .f32 = true}}});
}

static hr_status run_linear(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                            hr_tensor **out)
{
    return hr_op_linear(in[0], in[1], queue, out);
}

static double plain_linear(const void *ctx, double *const *in, double *out)
{
    const struct shape *s = ctx;
    ref_linear(in[0], in[1], s->n, s->in, s->out, out);
    return 0;
}

static void linear_has_weight_gradients_of_f32(void **state)
{
    for (int64_t in = 0; in < 34; in += 17) {
        struct shape s = {.n = 33, .in = in, .out = 21};
        op_check_bf16(&(op_check){
            .ctx = &s,
            .run = run_linear,
            .reference = plain_linear,
            .in = {{.ndim = 2, .shape = {33, in}}, {.ndim = 2, .shape = {21, in}}},
            .queued = true});
    }
}

static hr_status run_grouped(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                             hr_tensor **out)
{
    const struct shape *s = ctx;
    return hr_op_grouped_linear(in[0], in[1], s->offsets, queue, out);
}

static double plain_grouped(const void *ctx, double *const *in, double *out)
{
    const struct shape *s = ctx;
    for (int64_t l = 0; l < s->n; l++) {
        int64_t from = s->offsets[l];
        ref_linear(in[0] + from * s->in, in[1] + l * s->out * s->in,
                   s->offsets[l + 1] - from, s->in, s->out, out + from * s->out);
    }
    return 0;
}

static void grouped_linear_has_weight_gradients_of_f32(void **state)
{
    struct shape s = {.n = 3, .in = 18, .out = 5, .offsets = (int64_t[]){0, 2, 2, 71}};
    op_check_bf16(&(op_check){
        .ctx = &s,
        .run = run_grouped,
        .reference = plain_grouped,
        .in = {{.ndim = 2, .shape = {71, 18}}, {.ndim = 3, .shape = {3, 5, 18}}},
        .queued = true});
}

static hr_status run_attention(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                               hr_tensor **out)
{
    const struct shape *s = ctx;
    return hr_op_attention(in[0], (int)s->heads, s->in, 100.0F, out);
}

static double plain_attention(const void *ctx, double *const *in, double *out)
{
    const struct shape *s = ctx;
    ref_attention(in[0], s->n, s->heads * s->out, s->heads, s->in, 100.0, out);
    return 0;
}

static void attention_is_right_to_its_rounding(void **state)
{
    struct shape s = {.n = 82, .in = 41, .out = 6, .heads = 2};
    op_check_bf16(&(op_check){.ctx = &s,
                              .run = run_attention,
                              .reference = plain_attention,
                              .in = {{.ndim = 2, .shape = {82, 36}, .scale = 2}},
                              .tolerance = 2e-5});
}

/* ---- routing and loss ---- */
static hr_status run_router(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                            hr_tensor **out)
{
    const struct ref_router *r = ctx;
    hr_router_opts opts = {HR_INIT(hr_router_opts), .top_k = (int)r->top_k,
                           .normalize = r->normalize, .seq_len = r->seq_len,
                           .aux_scale = (float)r->aux_scale};
    hr_tensor *index = NULL;
    hr_status st = hr_op_router(in[0], &opts, out, &index);
    hr_tensor_release(index);
    return st;
}

static double plain_router(const void *ctx, double *const *in, double *out)
{
    return ref_router(ctx, in[0], out, NULL);
}

static void the_router_has_probabilities_of_f32(void **state)
{
    struct ref_router r = {24, 9,    2,
                           8,  0.25, true}; /* no ties, which bf16 has many of */
    op_check_bf16(&(op_check){.ctx = &r,
                              .run = run_router,
                              .reference = plain_router,
                              .in = {{.ndim = 2, .shape = {24, 9}, .scale = 2}}});
}

enum { TOKENS = 30, CHOICES = 3, WIDTH = 19, EXPERTS = 4 };

static int32_t choice(int64_t i)
{
    return (int32_t)((op_random(8, (uint64_t)i) + 1) * EXPERTS / 2);
}

/* x [N,C] to its choices and back by other tokens' sums: permute, then unpermute. */
static hr_status run_moves(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                           hr_tensor **out)
{
    int32_t index[TOKENS * CHOICES];
    hr_tensor *source, *slot, *counts, *there = NULL;
    for (int i = 0; i < TOKENS * CHOICES; i++)
        index[i] = choice(i);
    hr_tensor *chosen = op_i32(OP_SHAPE(TOKENS, CHOICES), index);
    op_ok(hr_op_sort_choices(chosen, EXPERTS, &source, &slot, &counts));
    hr_status st = hr_op_permute(in[0], source, slot, &there);
    if (st >= 0)
        st = hr_op_unpermute(there, source, slot, out);
    hr_tensor_release(there);
    hr_tensor_release(counts);
    hr_tensor_release(slot);
    hr_tensor_release(source);
    hr_tensor_release(chosen);
    return st;
}

static double plain_moves(const void *ctx, double *const *in, double *out)
{
    for (int64_t i = 0; i < TOKENS * WIDTH; i++)
        out[i] = CHOICES * in[0][i];
    return 0;
}

static void rows_are_moved_as_they_are_and_added_in_f32(void **state)
{
    op_check_bf16(&(op_check){.run = run_moves,
                              .reference = plain_moves,
                              .in = {{.ndim = 2, .shape = {TOKENS, WIDTH}}}});
}

static hr_status run_loss(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                          hr_tensor **out)
{
    const struct shape *s = ctx;
    hr_tensor *targets = op_i32(OP_SHAPE(s->n), s->ids);
    hr_status st = hr_op_cross_entropy(in[0], targets, 0.25F, out);
    hr_tensor_release(targets);
    return st;
}

static double plain_loss(const void *ctx, double *const *in, double *out)
{
    const struct shape *s = ctx;
    out[0] = ref_cross_entropy(in[0], s->ids, s->n, s->in, 0.25);
    return 0;
}

static void a_loss_is_f32(void **state)
{
    int32_t targets[5] = {3, -1, 129, 0, 64};
    struct shape s = {.n = 5, .in = 130, .ids = targets};
    op_check_bf16(&(op_check){.ctx = &s,
                              .run = run_loss,
                              .reference = plain_loss,
                              .in = {{.ndim = 2, .shape = {5, 130}, .scale = 5}}});
}

/* ---- types that do not go together ---- */
static void operands_of_two_types_are_refused(void **state)
{
    hr_device *dev = op_open(1);
    hr_tensor *x = op_bf16(OP_SHAPE(3, 5), NULL), *w = op_f32(OP_SHAPE(4, 5), NULL);
    hr_tensor *a = op_f32(OP_SHAPE(3, 5), NULL), *i = op_i32(OP_SHAPE(3, 5), NULL), *y;
    op_fails(hr_op_linear(x, w, NULL, &y), HR_ERR_INVALID, "w is f32 [4,5]",
             "not bf16 [*,5]", NULL);
    op_fails(hr_op_add(a, x, &y), HR_ERR_INVALID, "b is bf16", "not f32", NULL);
    op_fails(hr_op_convert(x, i), HR_ERR_INVALID, "convert: to is i32", NULL);
    op_fails(hr_op_convert(x, w), HR_ERR_INVALID, "convert: to is f32 [4,5]", "[3,5]",
             NULL);
    op_fails(hr_op_convert(NULL, w), HR_ERR_INVALID, "from is NULL", NULL);
    hr_tensor_release(i);
    hr_tensor_release(a);
    hr_tensor_release(w);
    hr_tensor_release(x);
    op_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_comes_back_as_it_was),
        cmocka_unit_test(what_lies_between_goes_to_the_nearest_and_halves_to_even),
        cmocka_unit_test(not_a_number_stays_one),
        cmocka_unit_test(a_tensor_is_converted_there_and_back),
        cmocka_unit_test(add_rounds_once),
        cmocka_unit_test(embedding_adds_up_in_f32),
        cmocka_unit_test(rmsnorm_sums_in_f32),
        cmocka_unit_test(swiglu_has_scales_of_f32),
        cmocka_unit_test(linear_has_weight_gradients_of_f32),
        cmocka_unit_test(grouped_linear_has_weight_gradients_of_f32),
        cmocka_unit_test(attention_is_right_to_its_rounding),
        cmocka_unit_test(the_router_has_probabilities_of_f32),
        cmocka_unit_test(rows_are_moved_as_they_are_and_added_in_f32),
        cmocka_unit_test(a_loss_is_f32),
        cmocka_unit_test(operands_of_two_types_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
