/* Gradients that a node only hands on share the bytes of what it was given; nobody writes into bytes that
 * somebody else can see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/pipeline.h"
#include "support/backend.h"

enum { N = 4 };

static hr_device *dev;

static hr_status pass(hr_function *fn, hr_tensor *const *g, hr_tensor **dx)
{
    dx[0] = hr_tensor_retain(g[0]);
    return HR_OK;
}

static const hr_function_class pass_class = {.name = "pass", .backward = pass};

static hr_status same(hr_tensor *x, hr_tensor **y)
{
    hr_function *fn;
    hr_status st = hr_function_create(&pass_class, &x, 1, &fn);
    if (st >= 0)
        st = hr_tensor_alias(x, y);
    return st < 0 ? st : hr_function_finish(fn, y, 1);
}

/* As many outputs as ctx says, each the input. */
static hr_status forward(void *ctx, hr_node *node, hr_tensor *const *in, int n,
                         hr_tensor **out, int *n_out)
{
    const int *outputs = ctx;
    hr_status st = HR_OK;
    for (int i = 0; i < *outputs && st >= 0; i++) {
        st = same(in[0], &out[i]);
        *n_out = i + 1;
    }
    return st;
}

/* Two passes of the engine, one an output. */
static hr_status pass_by_pass(void *ctx, hr_node *node, hr_tensor *const *outputs,
                              hr_tensor *const *grads, int n, hr_tensor **used,
                              int *n_used)
{
    hr_status st = HR_OK;
    for (int i = 0; i < n && st >= 0; i++)
        st = hr_backward(&outputs[i], &grads[i], 1);
    return st;
}

static int setup(void **state)
{
    if (hr_device_open(test_backend(), NULL, &dev) < 0)
        return -1;
    hr_device_set_current(dev);
    return 0;
}

static int teardown(void **state)
{
    hr_mem_stats stats;
    if (hr_device_synchronize(dev) < 0)
        return -1;
    hr_mem_get_stats(dev, &stats);
    hr_device_close(dev);
    return stats.live_bytes != 0;
}

static hr_tensor *vector(float value)
{
    float v[N] = {value, value, value, value};
    hr_tensor *t;
    assert_int_equal(hr_tensor_create(HR_F32, 1, (int64_t[]){N}, &t), HR_OK);
    assert_int_equal(hr_tensor_write(t, v, sizeof v), HR_OK);
    return t;
}

static float first(hr_tensor *t)
{
    float v[N];
    assert_int_equal(hr_tensor_read(t, v, sizeof v), HR_OK);
    return v[0];
}

/* One node of `outputs`; returns its input's gradient, the caller's. */
static hr_tensor *through_node(int outputs, hr_node_backward_fn backward,
                               hr_tensor *const *g)
{
    hr_tensor *x = vector(0), *const * y, *dx[HR_NODE_MAX];
    hr_node *node;
    int n;
    hr_schedule_node_opts o = {HR_INIT(hr_schedule_node_opts), .forward = forward,
                               .backward = backward, .ctx = &outputs,
                               .stream = hr_stream_current()};
    assert_int_equal(hr_tensor_set_requires_grad(x, true), HR_OK);
    assert_int_equal(hr_schedule_node_create(&o, &node), HR_OK);
    assert_int_equal(hr_node_forward(node, &x, 1, &y, &n), HR_OK);
    assert_int_equal(hr_node_backward(node, g, outputs, dx, &n), HR_OK);
    hr_node_destroy(node);
    hr_tensor_release(x);
    return dx[0];
}

static void handed_on_gradient_shares_bytes_with_a_claim_of_its_own(void **state)
{
    hr_tensor *g = vector(3);
    hr_tensor *dx = through_node(1, NULL, &g);
    assert_ptr_not_equal(dx, g);
    assert_ptr_equal(hr_tensor_data(dx), hr_tensor_data(g));
    hr_tensor_drop(g, NULL); /* as free_input does */
    assert_float_equal(first(dx), 3, 0);
    hr_tensor_release(dx);
    hr_tensor_release(g);
}

static void sum_of_gradients_leaves_what_was_given(void **state)
{
    hr_tensor *g[] = {vector(3), vector(5), vector(7)};
    hr_tensor *one_pass = through_node(3, NULL, g);
    hr_tensor *three_passes = through_node(3, pass_by_pass, g);
    assert_float_equal(first(one_pass), 15, 0);
    assert_float_equal(first(three_passes), 15, 0);
    assert_float_equal(first(g[0]), 3, 0);
    assert_float_equal(first(g[1]), 5, 0);
    assert_float_equal(first(g[2]), 7, 0);
    hr_tensor_release(one_pass);
    hr_tensor_release(three_passes);
    for (int i = 0; i < 3; i++)
        hr_tensor_release(g[i]);
}

static void symmetric_gradient_is_copied(void **state)
{
    hr_tensor *g = vector(3);
    hr_storage_set_symmetric(hr_tensor_storage(g), true);
    hr_tensor *dx = through_node(1, NULL, &g);
    assert_ptr_not_equal(hr_tensor_data(dx), hr_tensor_data(g));
    assert_float_equal(first(dx), 3, 0);
    hr_tensor_release(dx);
    hr_tensor_release(g);
}

static void foreign_gradient_is_copied(void **state)
{
    static float bytes[N] = {3, 3, 3, 3};
    hr_storage *st;
    hr_tensor *g;
    assert_int_equal(
        hr_storage_wrap(hr_stream_current(), bytes, sizeof bytes, NULL, NULL, &st),
        HR_OK);
    assert_int_equal(hr_tensor_over(st, 0, HR_F32, 1, (int64_t[]){N}, &g), HR_OK);
    hr_tensor *dx = through_node(1, NULL, &g);
    assert_ptr_not_equal(hr_tensor_data(dx), bytes);
    assert_float_equal(first(dx), 3, 0);
    hr_tensor_release(dx);
    hr_tensor_release(g);
    hr_storage_release(st);
}

/* A leaf of the user's is no node's border: its gradient is its own to write. */
static void leaf_of_the_user_gets_a_copy(void **state)
{
    hr_tensor *x = vector(0), *g = vector(3), *y;
    assert_int_equal(hr_tensor_set_requires_grad(x, true), HR_OK);
    assert_int_equal(same(x, &y), HR_OK);
    assert_int_equal(hr_backward(&y, &g, 1), HR_OK);
    assert_ptr_not_equal(hr_tensor_data(hr_tensor_grad(x)), hr_tensor_data(g));
    hr_tensor_release(y);
    hr_tensor_release(g);
    hr_tensor_release(x);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(handed_on_gradient_shares_bytes_with_a_claim_of_its_own),
        TEST(sum_of_gradients_leaves_what_was_given),
        TEST(symmetric_gradient_is_copied),
        TEST(foreign_gradient_is_copied),
        TEST(leaf_of_the_user_gets_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
