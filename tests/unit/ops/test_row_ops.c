/* add, view, embedding, rmsnorm, swiglu, cross_entropy against plain loops. */
#include "op_check.h"
#include "reference.h"

struct rows {
    int64_t n, width;
    const int32_t *ids;
    bool scaled;
};

/* ---- add ---- */
static hr_status run_add(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                         hr_tensor **out)
{
    return hr_op_add(in[0], in[1], out);
}

static double plain_add(const void *ctx, double *const *in, double *out)
{
    const struct rows *r = ctx;
    for (int64_t i = 0; i < r->n * r->width; i++)
        out[i] = in[0][i] + in[1][i];
    return 0;
}

static void check_add(int64_t n, int64_t width)
{
    struct rows r = {.n = n, .width = width};
    op_check_run(&(op_check){
        .ctx = &r,
        .run = run_add,
        .reference = plain_add,
        .in = {{.ndim = 2, .shape = {n, width}}, {.ndim = 2, .shape = {n, width}}}});
}

static void add_matches_plain_loops(void **state)
{
    check_add(3, 7);
    check_add(0, 7);
    check_add(700, 100);
}

/* x + x: one gradient goes to the same leaf twice. */
static void add_of_a_tensor_to_itself_doubles_its_gradient(void **state)
{
    hr_device *dev = op_open(1);
    float values[3] = {1, 2, 3}, got[3];
    hr_tensor *x = op_f32(OP_SHAPE(3), values), *y, *seed = op_f32(OP_SHAPE(3), values);
    op_ok(hr_tensor_set_requires_grad(x, true));
    op_ok(hr_op_add(x, x, &y));
    op_ok(hr_backward(&y, &seed, 1));
    op_ok(hr_tensor_read(hr_tensor_grad(x), got, sizeof got));
    for (int i = 0; i < 3; i++)
        assert_true(got[i] == 2 * values[i]);
    hr_tensor_release(seed);
    hr_tensor_release(y);
    hr_tensor_release(x);
    op_close(dev);
}

/* ---- view ---- */
static void view_gives_the_gradient_its_old_shape(void **state)
{
    hr_device *dev = op_open(1);
    float values[6] = {1, 2, 3, 4, 5, 6}, got[6];
    hr_tensor *x = op_f32(OP_SHAPE(2, 3), values), *y, *bad;
    hr_tensor *seed = op_f32(OP_SHAPE(6), values);
    op_ok(hr_tensor_set_requires_grad(x, true));
    op_ok(hr_op_view(x, OP_SHAPE(6), &y));
    assert_ptr_equal(hr_tensor_base(y), x);
    assert_ptr_equal(hr_tensor_data(y), hr_tensor_data(x));
    op_ok(hr_backward(&y, &seed, 1));
    assert_int_equal(hr_tensor_ndim(hr_tensor_grad(x)), 2);
    op_ok(hr_tensor_read(hr_tensor_grad(x), got, sizeof got));
    assert_memory_equal(got, values, sizeof got);
    op_fails(hr_op_view(x, OP_SHAPE(4), &bad), HR_ERR_INVALID, NULL);
    assert_null(bad);
    hr_tensor_release(seed);
    hr_tensor_release(y);
    hr_tensor_release(x);
    op_close(dev);
}

/* ---- embedding ---- */
static hr_status run_embedding(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                               hr_tensor **out)
{
    const struct rows *r = ctx;
    hr_tensor *ids = op_i32(OP_SHAPE(r->n), r->ids);
    hr_status st = hr_op_embedding(in[0], ids, out);
    hr_tensor_release(ids);
    return st;
}

static double plain_embedding(const void *ctx, double *const *in, double *out)
{
    const struct rows *r = ctx;
    for (int64_t n = 0; n < r->n; n++)
        for (int64_t c = 0; c < r->width; c++)
            out[n * r->width + c] = in[0][r->ids[n] * r->width + c];
    return 0;
}

static void check_embedding(int64_t n, int64_t width)
{
    int32_t ids[600];
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((i * i) % 5); /* some often, one never */
    struct rows r = {.n = n, .width = width, .ids = ids};
    op_check_run(&(op_check){.ctx = &r,
                             .run = run_embedding,
                             .reference = plain_embedding,
                             .in = {{.ndim = 2, .shape = {6, width}}}});
}

static void embedding_adds_up_repeated_ids(void **state)
{
    check_embedding(11, 7);
    check_embedding(1, 1);
    check_embedding(0, 7);
    check_embedding(600, 300);
}

/* ---- rmsnorm ---- */
static hr_status run_rmsnorm(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                             hr_tensor **out)
{
    return hr_op_rmsnorm(in[0], in[1], 1e-3F, out);
}

static double plain_rmsnorm(const void *ctx, double *const *in, double *out)
{
    const struct rows *r = ctx;
    ref_rmsnorm(in[0], in[1], r->n, r->width, (double)1e-3F, out);
    return 0;
}

static void check_rmsnorm(int64_t n, int64_t width, bool frozen)
{
    struct rows r = {.n = n, .width = width};
    op_check_run(
        &(op_check){.ctx = &r,
                    .run = run_rmsnorm,
                    .reference = plain_rmsnorm,
                    .in = {{.ndim = 2, .shape = {n, width}},
                           {.ndim = 1, .shape = {width}, .constant = frozen}}});
}

static void rmsnorm_matches_plain_loops(void **state)
{
    check_rmsnorm(1, 1, false);
    check_rmsnorm(5, 19, false);
    check_rmsnorm(5, 19, true);
    check_rmsnorm(0, 19, false);
}

static void rmsnorm_over_several_parts_is_the_same_on_any_team(void **state)
{
    check_rmsnorm(700, 33, false);
}

/* ---- swiglu ---- */
static hr_status run_swiglu(const void *ctx, hr_tensor **in, hr_wgrad_queue *queue,
                            hr_tensor **out)
{
    const struct rows *r = ctx;
    return hr_op_swiglu(in[0], r->scaled ? in[1] : NULL, out);
}

static double plain_swiglu(const void *ctx, double *const *in, double *out)
{
    const struct rows *r = ctx;
    ref_swiglu(in[0], r->scaled ? in[1] : NULL, r->n, r->width, out);
    return 0;
}

static void check_swiglu(int64_t n, int64_t width, bool scaled, bool frozen_x)
{
    struct rows r = {.n = n, .width = width, .scaled = scaled};
    op_check_run(&(op_check){
        .ctx = &r,
        .run = run_swiglu,
        .reference = plain_swiglu,
        .in = {{.ndim = 2, .shape = {n, 2 * width}, .scale = 4, .constant = frozen_x},
               {.ndim = scaled ? 1 : 0, .shape = {n}}}});
}

static void swiglu_matches_plain_loops(void **state)
{
    check_swiglu(5, 21, false, false);
    check_swiglu(5, 21, true, false);
    check_swiglu(5, 21, true, true);
    check_swiglu(0, 21, true, false);
    check_swiglu(300, 500, true, false);
}

/* ---- cross entropy ---- */
static hr_status run_cross_entropy(const void *ctx, hr_tensor **in,
                                   hr_wgrad_queue *queue, hr_tensor **out)
{
    const struct rows *r = ctx;
    hr_tensor *targets = op_i32(OP_SHAPE(r->n), r->ids);
    hr_status st = hr_op_cross_entropy(in[0], targets, 0.25F, out);
    hr_tensor_release(targets);
    return st;
}

static double plain_cross_entropy(const void *ctx, double *const *in, double *out)
{
    const struct rows *r = ctx;
    out[0] = ref_cross_entropy(in[0], r->ids, r->n, r->width, 0.25);
    return 0;
}

static void check_cross_entropy(int64_t n, int64_t v, const int32_t *targets)
{
    struct rows r = {.n = n, .width = v, .ids = targets};
    op_check_run(&(op_check){.ctx = &r,
                             .run = run_cross_entropy,
                             .reference = plain_cross_entropy,
                             .in = {{.ndim = 2, .shape = {n, v}, .scale = 5}}});
}

static void cross_entropy_matches_plain_loops(void **state)
{
    int32_t targets[600];
    for (int i = 0; i < 600; i++)
        targets[i] = (i * 7) % 130;
    check_cross_entropy(5, 130, targets);
    check_cross_entropy(600, 130, targets);
    check_cross_entropy(0, 130, targets);
}

static void cross_entropy_leaves_out_ignored_rows(void **state)
{
    check_cross_entropy(4, 9, (int32_t[]){-1, 8, -1, 0});
    check_cross_entropy(2, 9, (int32_t[]){-1, -1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add_matches_plain_loops),
        cmocka_unit_test(add_of_a_tensor_to_itself_doubles_its_gradient),
        cmocka_unit_test(view_gives_the_gradient_its_old_shape),
        cmocka_unit_test(embedding_adds_up_repeated_ids),
        cmocka_unit_test(rmsnorm_matches_plain_loops),
        cmocka_unit_test(rmsnorm_over_several_parts_is_the_same_on_any_team),
        cmocka_unit_test(swiglu_matches_plain_loops),
        cmocka_unit_test(cross_entropy_matches_plain_loops),
        cmocka_unit_test(cross_entropy_leaves_out_ignored_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
