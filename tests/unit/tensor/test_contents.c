/* Copies between tensors, and to and from host memory. */
#include "unit/tensor/tensor_kit.h"

static void what_is_written_is_read(void **state)
{
    hr_tensor *t = KIT_TENSOR(1.5F, -2, 0);
    KIT_EXPECT(t, 1.5F, -2, 0);
    hr_tensor_release(t);
}

static void a_copy_runs_in_stream_order(void **state)
{
    hr_tensor *a = KIT_TENSOR(1, 2), *b = KIT_TENSOR(0, 0);
    sem_t gate;
    kit_gate(hr_stream_current(), &gate);
    kit_ok(hr_tensor_copy(b, a));
    kit_ok(hr_fill(hr_stream_current(), hr_tensor_data(a), 0, hr_tensor_bytes(a)));
    hr_tensor_release(a); /* freed at its position, after the copy */
    sem_post(&gate);
    KIT_EXPECT(b, 1, 2);
    hr_tensor_release(b);
}

static void a_read_sees_what_was_queued_before(void **state)
{
    hr_tensor *t = KIT_TENSOR(1, 2);
    kit_ok(hr_fill(hr_stream_current(), hr_tensor_data(t), 0, hr_tensor_bytes(t)));
    KIT_EXPECT(t, 0, 0);
    hr_tensor_release(t);
}

static void sizes_must_agree(void **state)
{
    float host[3];
    hr_tensor *a = KIT_TENSOR(1, 2), *b = KIT_TENSOR(1, 2, 3);
    kit_fails(hr_tensor_copy(a, b), HR_ERR_INVALID, "bytes");
    assert_non_null(strstr(hr_last_error(), "12"));
    assert_non_null(strstr(hr_last_error(), "8"));
    kit_fails(hr_tensor_read(a, host, 12), HR_ERR_INVALID, "bytes");
    kit_fails(hr_tensor_write(a, host, 4), HR_ERR_INVALID, "bytes");
    kit_fails(hr_tensor_read(a, NULL, 8), HR_ERR_INVALID, "no_memory");
    kit_fails(hr_tensor_copy(NULL, b), HR_ERR_INVALID, "no_tensor");
    kit_fails(hr_tensor_copy(b, NULL), HR_ERR_INVALID, "no_tensor");
    hr_tensor_drop(b, NULL);
    kit_fails(hr_tensor_copy(b, b), HR_ERR_STATE, "freed");
    hr_tensor_release(a);
    hr_tensor_release(b);
}

static void empty_copies_are_ordinary(void **state)
{
    const int64_t none[1] = {0};
    hr_tensor *a, *b;
    kit_ok(hr_tensor_create(HR_F32, 1, none, &a));
    kit_ok(hr_tensor_create(HR_F32, 1, none, &b));
    kit_ok(hr_tensor_copy(a, b));
    kit_ok(hr_tensor_read(a, NULL, 0));
    kit_ok(hr_tensor_write(a, NULL, 0));
    hr_tensor_release(a);
    hr_tensor_release(b);
}

static void the_probe_sees_a_copy_even_if_nothing_moves(void **state)
{
    hr_tensor *t = KIT_TENSOR(1, 2), *alias;
    kit_ok(hr_tensor_alias(t, &alias));
    kit_probe(1);
    kit_ok(hr_tensor_copy(alias, t));
    assert_int_equal(kit_records, 1);
    assert_int_equal(kit_record[0].kind, HR_PROBE_COPY);
    assert_ptr_equal(kit_record[0].a, alias);
    assert_ptr_equal(kit_record[0].b, t);
    kit_probe(0);
    hr_tensor_release(alias);
    hr_tensor_release(t);
}

static void a_failed_device_is_reported_by_read(void **state)
{
    float host[2];
    hr_tensor *t = KIT_TENSOR(1, 2);
    hr_device_fail(kit_dev, hr_fail(HR_ERR_CALLBACK, "test", "on purpose"));
    kit_fails(hr_tensor_read(t, host, sizeof host), HR_ERR_CALLBACK, "test");
    hr_device_reset(kit_dev);
    KIT_EXPECT(t, 1, 2);
    hr_tensor_release(t);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, kit_open, kit_close)
    const struct CMUnitTest tests[] = {
        T(what_is_written_is_read),
        T(a_copy_runs_in_stream_order),
        T(a_read_sees_what_was_queued_before),
        T(sizes_must_agree),
        T(empty_copies_are_ordinary),
        T(the_probe_sees_a_copy_even_if_nothing_moves),
        T(a_failed_device_is_reported_by_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
