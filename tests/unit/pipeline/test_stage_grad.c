/* Staging the dispatch gradient with real bytes: forward shares them, backward fills the buffer
 * that there is at that time. Of the nine invariants those that need no dispatcher; the rest are in
 * moe/test_staged_dispatch.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/autograd.h"
#include "headrace/pipeline.h"
#include "support/backend.h"

static hr_device *dev;

static int setup(void **state)
{
    if (hr_device_open(test_backend(), NULL, &dev) < 0)
        return -1;
    hr_device_set_current(dev);
    return 0;
}

static int teardown(void **state)
{
    hr_device_close(dev);
    return 0;
}

static hr_tensor *pair(float a, float b)
{
    hr_tensor *t;
    assert_int_equal(hr_tensor_create(HR_F32, 1, (int64_t[]){2}, &t), HR_OK);
    assert_int_equal(hr_tensor_write(t, (float[]){a, b}, 8), HR_OK);
    return t;
}

static hr_status get_buffer(void *ctx, hr_tensor **buffer)
{
    *buffer = *(hr_tensor **)ctx;
    return HR_OK;
}

/* What dispatch is to the staging: the function upstream, and the gradient that it was given. */
typedef struct upstream {
    const void *grad; /* its address */
    float value[2];
} upstream;

static hr_status upstream_backward(hr_function *fn, hr_tensor *const *grad_out,
                                   hr_tensor **grad_in)
{
    upstream *u = *(upstream **)hr_function_ctx(fn);
    u->grad = hr_tensor_data(grad_out[0]);
    return hr_tensor_read(grad_out[0], u->value, sizeof u->value);
}

static const hr_function_class upstream_class = {
    .name = "upstream", .ctx_bytes = sizeof(upstream *), .backward = upstream_backward};

/* A leaf, and what the function upstream made of it. */
static hr_tensor *leaf_through(upstream *u, hr_tensor **out)
{
    hr_tensor *x = pair(1, 2);
    hr_function *fn;
    assert_int_equal(hr_tensor_set_requires_grad(x, true), HR_OK);
    assert_int_equal(hr_function_create(&upstream_class, &x, 1, &fn), HR_OK);
    *(upstream **)hr_function_ctx(fn) = u;
    assert_int_equal(hr_tensor_alias(x, out), HR_OK);
    assert_int_equal(hr_function_finish(fn, out, 1), HR_OK);
    return x;
}

static void invariant_1_without_a_buffer_backward_is_refused(void **state)
{
    hr_tensor *x = pair(1, 2), *g = pair(3, 4), *none = NULL, *y;
    assert_int_equal(hr_tensor_set_requires_grad(x, true), HR_OK);
    assert_int_equal(
        hr_stage_dispatch_bwd_grad(x, &(hr_grad_staging){get_buffer, &none}, &y),
        HR_OK);
    assert_int_equal(hr_backward(&y, &g, 1), HR_ERR_STATE);
    assert_string_equal(hr_last_reason(), "no_buffer");
    hr_tensor *all[] = {x, g, y};
    for (int i = 0; i < 3; i++)
        hr_tensor_release(all[i]);
}

static void invariant_2_the_shape_of_the_gradient_is_that_of_the_buffer(void **state)
{
    hr_tensor *x = pair(1, 2), *g = pair(3, 4), *buffer, *y;
    assert_int_equal(hr_tensor_zeros(HR_F32, 2, (int64_t[]){1, 2}, &buffer), HR_OK);
    assert_int_equal(hr_tensor_set_requires_grad(x, true), HR_OK);
    assert_int_equal(
        hr_stage_dispatch_bwd_grad(x, &(hr_grad_staging){get_buffer, &buffer}, &y),
        HR_OK);
    assert_int_equal(hr_backward(&y, &g, 1), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "shape");
    hr_tensor *all[] = {x, g, y, buffer};
    for (int i = 0; i < 4; i++)
        hr_tensor_release(all[i]);
}

/* Sums of several consumers are made before the staging, so that upstream gets the buffer itself. */
static void invariant_4_nothing_comes_between_the_staging_and_dispatch(void **state)
{
    upstream u = {0};
    hr_tensor *tokens, *x = leaf_through(&u, &tokens), *buffer = pair(0, 0), *y;
    hr_tensor *g[] = {pair(3, 4), pair(10, 20)};
    assert_int_equal(
        hr_stage_dispatch_bwd_grad(tokens, &(hr_grad_staging){get_buffer, &buffer}, &y),
        HR_OK);
    assert_int_equal(hr_backward((hr_tensor *[]){y, y}, g, 2), HR_OK);
    assert_ptr_equal(u.grad, hr_tensor_data(buffer));
    assert_float_equal(u.value[0], 13, 0);
    assert_float_equal(u.value[1], 24, 0);
    hr_tensor *all[] = {tokens, x, buffer, y, g[0], g[1]};
    for (int i = 0; i < 6; i++)
        hr_tensor_release(all[i]);
}

/* Takes the one reference to what `ctx` points to, as a function does that hands its buffer on. */
static hr_status hand_over(hr_function *fn, hr_tensor *const *grad_out,
                           hr_tensor **grad_in)
{
    hr_tensor **held = *(hr_tensor ***)hr_function_ctx(fn);
    grad_in[0] = *held;
    *held = NULL;
    return HR_OK;
}

static const hr_function_class handing_over = {
    .name = "handing_over", .ctx_bytes = sizeof(hr_tensor **), .backward = hand_over};

/* A leaf gets a copy even where nobody else holds the bytes. */
static void a_symmetric_buffer_is_never_adopted_as_a_gradient(void **state)
{
    for (int symmetric = 0; symmetric < 2; symmetric++) {
        hr_tensor *x = pair(1, 2), *buffer = pair(3, 4), *g = pair(0, 0), *y;
        const void *bytes = hr_tensor_data(buffer);
        hr_function *fn;
        hr_storage_set_symmetric(hr_tensor_storage(buffer), symmetric);
        assert_int_equal(hr_tensor_set_requires_grad(x, true), HR_OK);
        assert_int_equal(hr_function_create(&handing_over, &x, 1, &fn), HR_OK);
        *(hr_tensor ***)hr_function_ctx(fn) = &buffer;
        assert_int_equal(hr_tensor_alias(x, &y), HR_OK);
        assert_int_equal(hr_function_finish(fn, &y, 1), HR_OK);
        assert_int_equal(hr_backward(&y, &g, 1), HR_OK);
        assert_int_equal(hr_tensor_data(hr_tensor_grad(x)) == bytes, !symmetric);
        assert_false(hr_tensor_is_symmetric(hr_tensor_grad(x)));
        hr_tensor *all[] = {x, g, y};
        for (int i = 0; i < 3; i++)
            hr_tensor_release(all[i]);
    }
}

static void count_probe(void *ctx, const hr_probe_record *r)
{
    *(int *)ctx += r->kind == HR_PROBE_COPY;
}

static void invariant_8_forward_is_the_identity_without_a_copy(void **state)
{
    hr_tensor *x = pair(1, 2), *buffer = pair(7, 7), *y;
    hr_mem_stats before, after;
    float v[2];
    int copies = 0;
    assert_int_equal(hr_tensor_set_requires_grad(x, true), HR_OK);
    hr_mem_get_stats(dev, &before);
    hr_probe_set(count_probe, &copies);
    hr_status st =
        hr_stage_dispatch_bwd_grad(x, &(hr_grad_staging){get_buffer, &buffer}, &y);
    hr_probe_set(NULL, NULL);
    hr_mem_get_stats(dev, &after);
    assert_int_equal(st, HR_OK);
    assert_int_equal(copies, 0);
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_ptr_equal(hr_tensor_data(y), hr_tensor_data(x));
    assert_true(hr_tensor_same_shape(y, x));
    assert_int_equal(hr_tensor_read(buffer, v, sizeof v), HR_OK);
    assert_float_equal(v[0], 7, 0);
    hr_tensor *all[] = {x, buffer, y};
    for (int i = 0; i < 3; i++)
        hr_tensor_release(all[i]);
}

static void invariant_6_the_buffer_is_looked_up_at_backward_time(void **state)
{
    hr_tensor *x = pair(1, 2), *g = pair(3, 4), *early = pair(0, 0), *late = pair(0, 0);
    hr_tensor *current = early, *y;
    float v[2];
    assert_int_equal(hr_tensor_set_requires_grad(x, true), HR_OK);
    assert_int_equal(
        hr_stage_dispatch_bwd_grad(x, &(hr_grad_staging){get_buffer, &current}, &y),
        HR_OK);
    assert_ptr_equal(hr_tensor_storage(y), hr_tensor_storage(x));
    current = late;
    assert_int_equal(hr_backward(&y, &g, 1), HR_OK);
    assert_int_equal(hr_tensor_read(late, v, sizeof v), HR_OK);
    assert_float_equal(v[1], 4, 0);
    assert_int_equal(hr_tensor_read(early, v, sizeof v), HR_OK);
    assert_float_equal(v[1], 0, 0);
    assert_int_equal(hr_tensor_read(hr_tensor_grad(x), v, sizeof v), HR_OK);
    assert_float_equal(v[0], 3, 0);
    hr_tensor *all[] = {x, g, early, late, y};
    for (int i = 0; i < 5; i++)
        hr_tensor_release(all[i]);
}

static void without_gradient_it_is_a_plain_identity(void **state)
{
    hr_tensor *x = pair(1, 2), *none = NULL, *y;
    assert_int_equal(
        hr_stage_dispatch_bwd_grad(x, &(hr_grad_staging){get_buffer, &none}, &y),
        HR_OK);
    assert_false(hr_tensor_requires_grad(y));
    hr_tensor_release(x);
    hr_tensor_release(y);
}

static void another_type_of_element_is_refused(void **state)
{
    hr_tensor *x = pair(1, 2), *g = pair(3, 4), *buffer, *y;
    assert_int_equal(hr_tensor_zeros(HR_I32, 1, (int64_t[]){2}, &buffer), HR_OK);
    assert_int_equal(hr_tensor_set_requires_grad(x, true), HR_OK);
    assert_int_equal(
        hr_stage_dispatch_bwd_grad(x, &(hr_grad_staging){get_buffer, &buffer}, &y),
        HR_OK);
    assert_int_equal(hr_backward(&y, &g, 1), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "shape");
    hr_tensor *all[] = {x, g, buffer, y};
    for (int i = 0; i < 4; i++)
        hr_tensor_release(all[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(invariant_1_without_a_buffer_backward_is_refused),
        TEST(invariant_2_the_shape_of_the_gradient_is_that_of_the_buffer),
        TEST(invariant_4_nothing_comes_between_the_staging_and_dispatch),
        TEST(invariant_6_the_buffer_is_looked_up_at_backward_time),
        TEST(invariant_8_forward_is_the_identity_without_a_copy),
        TEST(a_symmetric_buffer_is_never_adopted_as_a_gradient),
        TEST(without_gradient_it_is_a_plain_identity),
        TEST(another_type_of_element_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
