/* Tensors: handles, claims, questions, names, the probe. */
#include "unit/tensor/tensor_kit.h"

static void shapes_are_what_was_asked(void **state)
{
    const int64_t shape[3] = {2, 3, 5};
    hr_tensor *t;
    kit_ok(hr_tensor_create(HR_BF16, 3, shape, &t));
    assert_int_equal(hr_tensor_dtype(t), HR_BF16);
    assert_int_equal(hr_tensor_ndim(t), 3);
    assert_memory_equal(hr_tensor_shape(t), shape, sizeof shape);
    assert_int_equal(hr_tensor_dim(t, 1), 3);
    assert_int_equal(hr_tensor_dim(t, -1), 5);
    assert_int_equal(hr_tensor_dim(t, 3), 0);
    assert_int_equal(hr_tensor_dim(t, -4), 0);
    assert_int_equal(hr_tensor_count(t), 30);
    assert_int_equal(hr_tensor_bytes(t), 60);
    assert_null(hr_tensor_f32(t));
    assert_null(hr_tensor_base(t));
    assert_false(hr_tensor_is_symmetric(t));
    hr_storage_set_symmetric(hr_tensor_storage(t), true);
    assert_true(hr_tensor_is_symmetric(t));
    assert_int_equal(kit_live(), 60);
    hr_tensor_release(t);
}

static void no_dimension_is_one_element(void **state)
{
    hr_tensor *t;
    kit_ok(hr_tensor_zeros(HR_F32, 0, NULL, &t));
    assert_int_equal(hr_tensor_count(t), 1);
    KIT_EXPECT(t, 0);
    hr_tensor_release(t);
}

static void empty_tensors_are_ordinary(void **state)
{
    const int64_t shape[2] = {0, 3};
    hr_tensor *t;
    kit_ok(hr_tensor_zeros(HR_F32, 2, shape, &t));
    assert_null(hr_tensor_data(t));
    assert_int_equal(hr_tensor_count(t), 0);
    assert_int_equal(kit_blocks(), 0);
    kit_ok(hr_tensor_check(t, "test"));
    hr_tensor_drop(t, NULL);
    kit_ok(hr_tensor_check(t, "test"));
    hr_tensor_release(t);
}

static void bad_shapes_are_refused(void **state)
{
    const int64_t negative[2] = {2, -1};
    const int64_t huge[4] = {INT64_MAX, 2, 1, 1};
    const int64_t large[1] = {INT64_MAX / 2};
    hr_tensor *t = (hr_tensor *)&t;
    kit_fails(hr_tensor_create(HR_F32, 2, negative, &t), HR_ERR_INVALID, "shape");
    assert_null(t);
    kit_fails(hr_tensor_create(HR_F32, 4, huge, &t), HR_ERR_INVALID, "shape");
    kit_fails(hr_tensor_create(HR_F32, 1, large, &t), HR_ERR_INVALID, "shape");
    kit_fails(hr_tensor_create(HR_F32, 5, huge, &t), HR_ERR_INVALID, "shape");
    kit_fails(hr_tensor_create(HR_F32, -1, huge, &t), HR_ERR_INVALID, "shape");
    kit_fails(hr_tensor_create(HR_F32, 1, NULL, &t), HR_ERR_INVALID, "shape");
    kit_fails(hr_tensor_create((hr_dtype)99, 0, NULL, &t), HR_ERR_INVALID, "dtype");
    kit_fails(hr_tensor_create(HR_F32, 0, NULL, NULL), HR_ERR_INVALID, "no_out");
    hr_device_set_current(NULL);
    kit_fails(hr_tensor_create(HR_F32, 0, NULL, &t), HR_ERR_STATE, "no_device");
    hr_device_set_current(kit_dev);
}

static void no_tensor_is_never_a_crash(void **state)
{
    hr_tensor_release(NULL);
    hr_tensor_drop(NULL, NULL);
    hr_tensor_set_name(NULL, "x");
    assert_null(hr_tensor_retain(NULL));
    assert_null(hr_tensor_data(NULL));
    assert_null(hr_tensor_shape(NULL));
    assert_null(hr_tensor_storage(NULL));
    assert_int_equal(hr_tensor_bytes(NULL), 0);
    assert_string_equal(hr_tensor_name(NULL), "");
    assert_false(hr_tensor_same_shape(NULL, NULL));
    kit_fails(hr_tensor_check(NULL, "op"), HR_ERR_INVALID, "no_tensor");
    kit_fails(hr_tensor_record_stream(NULL, NULL), HR_ERR_INVALID, "no_tensor");
}

static void a_retained_handle_shares_the_claim(void **state)
{
    hr_tensor *t = KIT_TENSOR(1, 2);
    assert_ptr_equal(hr_tensor_retain(t), t);
    assert_int_equal(hr_tensor_refs(t), 2);
    assert_int_equal(hr_storage_claims(hr_tensor_storage(t)), 1);
    hr_tensor_release(t);
    KIT_EXPECT(t, 1, 2);
    hr_tensor_drop(t, NULL);
    assert_true(hr_tensor_dropped(t));
    assert_int_equal(kit_live(), 0);
    hr_tensor_release(t);
}

static void use_after_the_bytes_went_is_named(void **state)
{
    const int64_t shape[2] = {1, 2};
    hr_tensor *t;
    float host[2];
    kit_ok(hr_tensor_create(HR_F32, 2, shape, &t));
    hr_tensor_set_name(t, "tokens");
    kit_ok(hr_tensor_check(t, "op"));
    hr_tensor_drop(t, NULL);
    hr_tensor_drop(t, NULL);
    assert_null(hr_tensor_data(t));
    kit_fails(hr_tensor_check(t, "op"), HR_ERR_STATE, "freed");
    assert_non_null(strstr(hr_last_error(), "op: "));
    assert_non_null(strstr(hr_last_error(), "'tokens' [1, 2]"));
    kit_fails(hr_tensor_read(t, host, sizeof host), HR_ERR_STATE, "freed");
    kit_fails(hr_tensor_write(t, host, sizeof host), HR_ERR_STATE, "freed");
    assert_int_equal(kit_live(), 0);
    hr_tensor_release(t);
}

static void a_name_is_copied_and_cut(void **state)
{
    char name[64];
    hr_tensor *t = KIT_TENSOR(1);
    assert_string_equal(hr_tensor_name(t), "");
    memset(name, 'n', sizeof name);
    name[63] = '\0';
    hr_tensor_set_name(t, name);
    memset(name, 'm', 40);
    assert_int_equal(strlen(hr_tensor_name(t)), 31);
    assert_int_equal(hr_tensor_name(t)[0], 'n');
    hr_tensor_set_name(t, NULL);
    assert_string_equal(hr_tensor_name(t), "");
    hr_tensor_release(t);
}

static void the_probe_sees_frees_and_recorded_streams(void **state)
{
    hr_tensor *t = KIT_TENSOR(1), *alias;
    hr_stream *other = kit_stream("other");
    kit_ok(hr_tensor_alias(t, &alias));
    kit_probe(1);
    kit_ok(hr_tensor_record_stream(t, other));
    hr_tensor_drop(t, other); /* frees nothing: the alias has a claim */
    hr_tensor_drop(t, other); /* nor does this */
    kit_fails(hr_tensor_record_stream(t, NULL), HR_ERR_STATE, "no_stream");
    hr_tensor_release(t); /* not a drop */
    assert_int_equal(kit_records, 3);
    assert_int_equal(kit_record[0].kind, HR_PROBE_RECORD_STREAM);
    assert_ptr_equal(kit_record[0].a, t);
    assert_ptr_equal(kit_record[0].b, other);
    assert_int_equal(kit_record[1].kind, HR_PROBE_FREE);
    assert_ptr_equal(kit_record[1].a, t);
    assert_int_equal(kit_record[2].kind, HR_PROBE_FREE);
    kit_probe(0);
    hr_tensor_release(alias);
    hr_stream_destroy(other);
}

static void element_types_have_names_and_sizes(void **state)
{
    assert_string_equal(hr_dtype_name(HR_BF16), "bf16");
    assert_string_equal(hr_dtype_name((hr_dtype)77), "?");
    assert_int_equal(hr_dtype_bytes(HR_F32), 4);
    assert_int_equal(hr_dtype_bytes(HR_F16), 2);
    assert_int_equal(hr_dtype_bytes(HR_I32), 4);
    assert_int_equal(hr_dtype_bytes(HR_I64), 8);
    assert_int_equal(hr_dtype_bytes(HR_U8), 1);
    assert_int_equal(hr_dtype_bytes((hr_dtype)-1), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, kit_open, kit_close)
    const struct CMUnitTest tests[] = {
        T(shapes_are_what_was_asked),
        T(no_dimension_is_one_element),
        T(empty_tensors_are_ordinary),
        T(bad_shapes_are_refused),
        T(no_tensor_is_never_a_crash),
        T(a_retained_handle_shares_the_claim),
        T(use_after_the_bytes_went_is_named),
        T(a_name_is_copied_and_cut),
        T(the_probe_sees_frees_and_recorded_streams),
        T(element_types_have_names_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
