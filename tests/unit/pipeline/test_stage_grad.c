/* Staging the dispatch gradient with real bytes: forward shares them, backward fills the buffer
 * that there is at that time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/pipeline.h"

static hr_device *dev;

static int setup(void **state)
{
    if (hr_device_open("host", NULL, &dev) < 0)
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

static void gradient_lands_in_the_buffer_of_backward_time(void **state)
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
        TEST(gradient_lands_in_the_buffer_of_backward_time),
        TEST(without_gradient_it_is_a_plain_identity),
        TEST(another_type_of_element_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
