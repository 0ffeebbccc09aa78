/* Operators over rows that only device memory counts: on the rows that there are the same bits as the plain
 * ones, forward and backward; on slack nothing is read or written. */
#include "op_check.h"
#include "support/backend.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 9, ROOM = 14, IN = 6, OUT = 4, EXPERTS = 3 };
static const int64_t limits[EXPERTS + 1] = {0, 4, 4, ROWS};

/* `rows` of them made up, the rest what would show if anything were made of it. */
static hr_tensor *made(uint64_t stream, int64_t room, int64_t rows, int64_t width)
{
    float v[ROOM * IN];
    for (int64_t i = 0; i < room * width; i++)
        v[i] = i < rows * width ? (float)op_random(stream, (uint64_t)i) : 0.5f;
    return width > 1 ? op_f32(OP_SHAPE(room, width), v) : op_f32(OP_SHAPE(room), v);
}

static hr_tensor *leaf(hr_tensor *t)
{
    op_ok(hr_tensor_set_requires_grad(t, true));
    return t;
}

static hr_tensor *offsets(void)
{
    hr_tensor *t;
    op_ok(hr_tensor_create(HR_I64, OP_SHAPE(EXPERTS + 1), &t));
    op_ok(hr_tensor_write(t, limits, sizeof limits));
    return t;
}

/* The first `n` numbers of both are the same bits; those of `slack` after them are as its memory was, NaN. */
static void same_rows(hr_tensor *plain, hr_tensor *slack, int64_t n)
{
    float a[ROOM * IN], b[ROOM * IN];
    op_ok(hr_tensor_read(plain, a, hr_tensor_bytes(plain)));
    op_ok(hr_tensor_read(slack, b, hr_tensor_bytes(slack)));
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
    for (int64_t i = n; i < hr_tensor_count(slack); i++)
        assert_true(isnan(b[i]));
}

static hr_device *open_poisoned(void)
{
    hr_device *dev;
    op_ok(hr_device_open(
        test_backend(),
        &(hr_device_opts){HR_INIT(hr_device_opts), .cores = 2, .poison = 1}, &dev));
    hr_device_set_current(dev);
    return dev;
}

static void release(hr_tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        hr_tensor_release(t[i]);
}

static void products_leave_slack_alone(void **state)
{
    hr_device *dev = open_poisoned();
    for (int queued = 0; queued < 2; queued++) {
        enum { X, W, Y, G, XS, WS, YS, GS, OFFSETS, ALL };
        hr_tensor *t[ALL] = {0};
        hr_wgrad_queue *q = NULL;
        float w[EXPERTS * OUT * IN];
        for (int i = 0; i < EXPERTS * OUT * IN; i++)
            w[i] = (float)op_random(2, (uint64_t)i);
        t[X] = leaf(made(1, ROWS, ROWS, IN));
        t[XS] = leaf(made(1, ROOM, ROWS, IN));
        t[W] = leaf(op_f32(OP_SHAPE(EXPERTS, OUT, IN), w));
        t[WS] = leaf(op_f32(OP_SHAPE(EXPERTS, OUT, IN), w));
        t[G] = made(3, ROWS, ROWS, OUT);
        t[GS] = made(3, ROOM, ROWS, OUT);
        t[OFFSETS] = offsets();
        if (queued)
            op_ok(hr_wgrad_queue_create(&q));
        op_ok(hr_op_grouped_linear(t[X], t[W], limits, NULL, &t[Y]));
        op_ok(hr_op_grouped_linear_slack(t[XS], t[WS], t[OFFSETS], q, NULL, &t[YS]));
        same_rows(t[Y], t[YS], ROWS * OUT);
        op_ok(hr_backward(&t[Y], &t[G], 1));
        op_ok(hr_backward(&t[YS], &t[GS], 1));
        if (queued)
            op_ok(hr_wgrad_run(q));
        same_rows(hr_tensor_grad(t[X]), hr_tensor_grad(t[XS]), ROWS * IN);
        same_rows(hr_tensor_grad(t[W]), hr_tensor_grad(t[WS]), EXPERTS * OUT * IN);
        hr_wgrad_queue_destroy(q);
        release(t, ALL);
    }
    op_close(dev);
}

static void swiglu_leaves_slack_alone(void **state)
{
    enum { X, S, Y, G, XS, SS, YS, GS, OFFSETS, ALL };
    hr_device *dev = open_poisoned();
    hr_tensor *t[ALL] = {[X] = leaf(made(1, ROWS, ROWS, IN)),
                         [XS] = leaf(made(1, ROOM, ROWS, IN)),
                         [S] = leaf(made(2, ROWS, ROWS, 1)),
                         [SS] = leaf(made(2, ROOM, ROWS, 1)),
                         [G] = made(3, ROWS, ROWS, IN / 2),
                         [GS] = made(3, ROOM, ROWS, IN / 2),
                         [OFFSETS] = offsets()};
    op_ok(hr_op_swiglu(t[X], t[S], &t[Y]));
    op_ok(hr_op_swiglu_slack(t[XS], t[SS], t[OFFSETS], &t[YS]));
    same_rows(t[Y], t[YS], ROWS * IN / 2);
    op_ok(hr_backward(&t[Y], &t[G], 1));
    op_ok(hr_backward(&t[YS], &t[GS], 1));
    same_rows(hr_tensor_grad(t[X]), hr_tensor_grad(t[XS]), ROWS * IN);
    same_rows(hr_tensor_grad(t[S]), hr_tensor_grad(t[SS]), ROWS);
    release(t, ALL);
    op_close(dev);
}

/* The result lies where it was asked for, and neither it nor its bytes are kept for backward. */
static void a_product_may_go_into_a_buffer_that_its_graph_does_not_keep(void **state)
{
    enum { X, W, INTO, Y, G, OFFSETS, ALL };
    hr_device *dev = op_open(1);
    hr_tensor *t[ALL] = {[X] = leaf(made(1, ROOM, ROWS, IN)),
                         [W] = leaf(op_f32(OP_SHAPE(EXPERTS, OUT, IN), NULL)),
                         [INTO] = made(4, ROOM, ROOM, OUT),
                         [G] = made(3, ROOM, ROWS, OUT),
                         [OFFSETS] = offsets()};
    op_ok(hr_op_grouped_linear_slack(t[X], t[W], t[OFFSETS], NULL, t[INTO], &t[Y]));
    assert_ptr_equal(hr_tensor_data(t[Y]), hr_tensor_data(t[INTO]));
    assert_int_equal(hr_storage_claims(hr_tensor_storage(t[INTO])), 2);
    float v[ROOM * OUT];
    op_ok(hr_tensor_read(t[INTO], v, sizeof v));
    for (int i = 0; i < ROWS * OUT; i++)
        assert_float_equal(v[i], 0, 0);
    for (int i = ROWS * OUT; i < ROOM * OUT; i++) /* slack is as it was */
        assert_float_equal(v[i], (float)op_random(4, (uint64_t)i), 0);
    hr_tensor_drop(t[Y], NULL);
    hr_tensor_drop(t[INTO], NULL);
    op_ok(hr_backward(&t[Y], &t[G], 1));
    release(t, ALL);
    op_close(dev);
}

static void what_does_not_fit_is_refused(void **state)
{
    hr_device *dev = op_open(1);
    hr_tensor *x = made(1, ROOM, ROWS, IN), *y, *o = offsets();
    hr_tensor *w = op_f32(OP_SHAPE(EXPERTS + 1, OUT, IN), NULL);
    op_fails(hr_op_grouped_linear_slack(x, w, o, NULL, NULL, &y), HR_ERR_INVALID,
             "grouped_linear: offsets", "i64 [4]", "i64 [5]", NULL);
    assert_null(y);
    hr_tensor_release(w);
    w = op_f32(OP_SHAPE(EXPERTS, OUT, IN), NULL);
    op_fails(hr_op_grouped_linear_slack(x, w, o, NULL, x, &y), HR_ERR_INVALID, "into",
             NULL);
    op_fails(hr_op_grouped_linear_slack(x, w, NULL, NULL, NULL, &y), HR_ERR_INVALID,
             "offsets is NULL", NULL);
    op_fails(hr_op_swiglu_slack(x, NULL, x, &y), HR_ERR_INVALID, "swiglu: offsets",
             NULL);
    hr_tensor_release(x);
    hr_tensor_release(w);
    hr_tensor_release(o);
    op_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_leave_slack_alone),
        cmocka_unit_test(swiglu_leaves_slack_alone),
        cmocka_unit_test(a_product_may_go_into_a_buffer_that_its_graph_does_not_keep),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
