/* The communication stream is state of the device: the first choice wins, and the next device, at
 * whatever address, starts without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/pipeline.h"
#include "support/backend.h"

static hr_device *open_device(void)
{
    hr_device *dev;
    assert_int_equal(hr_device_open(test_backend(), NULL, &dev), HR_OK);
    hr_device_set_current(dev);
    return dev;
}

static void no_device_means_no_streams(void **state)
{
    hr_device_set_current(NULL);
    assert_null(hr_get_comm_stream());
    assert_null(hr_get_comp_stream());
    assert_int_equal(hr_set_streams(NULL, false), HR_ERR_STATE);
}

static void first_choice_wins(void **state)
{
    hr_device *dev = open_device();
    assert_null(hr_get_comm_stream());
    assert_int_equal(hr_set_streams(NULL, true), HR_OK);
    hr_stream *first = hr_get_comm_stream(), *mine;
    int least, greatest;
    hr_device_priority_range(dev, &least, &greatest);
    assert_int_equal(hr_stream_priority(first), greatest);
    hr_stream_opts opts = {HR_INIT(hr_stream_opts)};
    assert_int_equal(hr_stream_create(dev, &opts, &mine), HR_OK);
    assert_int_equal(hr_set_streams(mine, false), HR_OK);
    assert_ptr_equal(hr_get_comm_stream(), first);
    hr_device_close(dev);
}

static void goes_with_its_device(void **state)
{
    for (int i = 0; i < 8; i++) { /* addresses come back */
        hr_device *dev = open_device();
        assert_null(hr_get_comm_stream());
        assert_int_equal(hr_set_streams(NULL, false), HR_OK);
        assert_ptr_equal(hr_stream_device(hr_get_comm_stream()), dev);
        hr_device_close(dev);
    }
}

static void stream_that_goes_takes_the_choice_along(void **state)
{
    hr_device *dev = open_device();
    hr_stream *mine;
    hr_stream_opts opts = {HR_INIT(hr_stream_opts)};
    assert_int_equal(hr_stream_create(dev, &opts, &mine), HR_OK);
    assert_int_equal(hr_set_streams(mine, false), HR_OK);
    hr_stream_destroy(mine);
    assert_null(hr_get_comm_stream());
    assert_int_equal(hr_set_streams(NULL, false), HR_OK);
    assert_non_null(hr_get_comm_stream());
    hr_device_close(dev);
}

static void each_device_has_its_own(void **state)
{
    hr_device *a = open_device(), *b = open_device();
    assert_int_equal(hr_set_streams(NULL, false), HR_OK);
    hr_stream *of_b = hr_get_comm_stream();
    hr_device_set_current(a);
    assert_null(hr_get_comm_stream());
    assert_int_equal(hr_set_streams(of_b, false), HR_ERR_INVALID);
    assert_null(hr_get_comm_stream());
    hr_device_close(a);
    hr_device_close(b);
}

static void survives_a_failure_and_a_reset(void **state)
{
    hr_device *dev = open_device();
    assert_int_equal(hr_set_streams(NULL, false), HR_OK);
    hr_stream *s = hr_get_comm_stream();
    hr_device_fail(dev, hr_fail(HR_ERR_DEVICE, NULL, "a failure"));
    assert_int_equal(hr_device_status(dev), HR_ERR_DEVICE);
    hr_device_reset(dev);
    assert_ptr_equal(hr_get_comm_stream(), s);
    hr_device_close(dev);
}

static void compute_stream_is_the_current_one(void **state)
{
    hr_device *dev = open_device();
    hr_stream *previous;
    assert_ptr_equal(hr_get_comp_stream(), hr_device_default_stream(dev));
    assert_int_equal(hr_set_streams(NULL, false), HR_OK);
    hr_stream_enter(hr_get_comm_stream(), &previous);
    assert_ptr_equal(hr_get_comp_stream(), hr_get_comm_stream());
    hr_stream_exit(hr_get_comm_stream(), previous);
    hr_device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_device_means_no_streams),
        cmocka_unit_test(first_choice_wins),
        cmocka_unit_test(goes_with_its_device),
        cmocka_unit_test(stream_that_goes_takes_the_choice_along),
        cmocka_unit_test(each_device_has_its_own),
        cmocka_unit_test(survives_a_failure_and_a_reset),
        cmocka_unit_test(compute_stream_is_the_current_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
