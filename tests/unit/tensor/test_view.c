/* Views and aliases: who keeps the bytes, and whether a release frees them. */
#include "unit/tensor/tensor_kit.h"

static const int64_t two_by_three[2] = {2, 3}, three_by_two[2] = {3, 2}, six[1] = {6};

static hr_tensor *numbers(void)
{
    return KIT_TENSOR(1, 2, 3, 4, 5, 6);
}

static void a_view_has_the_same_bytes_and_a_base(void **state)
{
    hr_tensor *t = numbers(), *v, *w;
    kit_ok(hr_tensor_view(t, 2, two_by_three, &v));
    kit_ok(hr_tensor_view(v, 2, three_by_two, &w));
    assert_ptr_equal(hr_tensor_data(v), hr_tensor_data(t));
    assert_ptr_equal(hr_tensor_base(v), t);
    assert_ptr_equal(hr_tensor_base(w), t); /* not v: the base of a base */
    assert_int_equal(hr_storage_claims(hr_tensor_storage(t)), 3);
    assert_false(hr_tensor_same_shape(v, w));
    hr_tensor_release(v);
    KIT_EXPECT(w, 1, 2, 3, 4, 5, 6);
    hr_tensor_release(w);
    hr_tensor_release(t);
}

static void rows_begin_where_they_should(void **state)
{
    hr_tensor *t = numbers(), *v, *r, *one;
    kit_ok(hr_tensor_view(t, 2, three_by_two, &v));
    kit_ok(hr_tensor_rows(v, 1, 3, &r));
    assert_int_equal(hr_tensor_dim(r, 0), 2);
    KIT_EXPECT(r, 3, 4, 5, 6);
    kit_ok(hr_tensor_rows(r, 1, 2, &one));
    KIT_EXPECT(one, 5, 6);
    assert_ptr_equal(hr_tensor_base(one), t);
    hr_tensor_release(one);
    kit_ok(hr_tensor_rows(r, 2, 2, &one)); /* no row */
    assert_int_equal(hr_tensor_count(one), 0);
    hr_tensor_release(one);
    hr_tensor_release(r);
    hr_tensor_release(v);
    hr_tensor_release(t);
}

static void bad_views_are_refused(void **state)
{
    const int64_t seven[1] = {7};
    hr_tensor *t = numbers(), *v, *scalar;
    kit_fails(hr_tensor_view(t, 1, seven, &v), HR_ERR_INVALID, "shape");
    assert_null(v);
    kit_fails(hr_tensor_rows(t, -1, 2, &v), HR_ERR_INVALID, "bounds");
    kit_fails(hr_tensor_rows(t, 4, 3, &v), HR_ERR_INVALID, "bounds");
    kit_fails(hr_tensor_rows(t, 0, 7, &v), HR_ERR_INVALID, "bounds");
    kit_ok(hr_tensor_zeros(HR_F32, 0, NULL, &scalar));
    kit_fails(hr_tensor_rows(scalar, 0, 0, &v), HR_ERR_INVALID, "bounds");
    kit_fails(hr_tensor_alias(NULL, &v), HR_ERR_INVALID, "no_tensor");
    assert_int_equal(hr_storage_claims(hr_tensor_storage(t)), 1);
    hr_tensor_release(scalar);
    hr_tensor_release(t);
}

/* As many numbers as its owner's own shape has, and not as many dimensions. */
static void the_shape_of_the_owner_is_checked_like_any(void **state)
{
    hr_tensor *t, *v;
    kit_ok(hr_tensor_zeros(HR_F32, 2, two_by_three, &t));
    kit_fails(hr_tensor_view(t, 1, hr_tensor_shape(t), &v), HR_ERR_INVALID, "shape");
    assert_null(v);
    kit_fails(hr_tensor_view(t, -1, hr_tensor_shape(t), &v), HR_ERR_INVALID, "shape");
    kit_fails(hr_tensor_view(t, HR_MAX_DIMS + 1, hr_tensor_shape(t), &v),
              HR_ERR_INVALID, "shape");
    hr_tensor_release(t);
}

static void pain_11_release_of_an_owner_leaves_its_views(void **state)
{
    hr_tensor *t = numbers(), *v;
    kit_ok(hr_tensor_view(t, 2, two_by_three, &v));
    hr_tensor_drop(t, NULL);
    assert_int_equal(kit_live(), 24);
    KIT_EXPECT(v, 1, 2, 3, 4, 5, 6);
    hr_tensor_release(t);
    KIT_EXPECT(v, 1, 2, 3, 4, 5, 6);
    hr_tensor_release(v);
    assert_int_equal(kit_live(), 0);
}

static void pain_11_release_of_a_view_leaves_its_owner(void **state)
{
    hr_tensor *t = numbers(), *v;
    kit_ok(hr_tensor_view(t, 2, two_by_three, &v));
    hr_tensor_drop(v, NULL);
    KIT_EXPECT(t, 1, 2, 3, 4, 5, 6);
    hr_tensor_release(v);
    KIT_EXPECT(t, 1, 2, 3, 4, 5, 6);
    hr_tensor_release(t);
}

/* A base that nobody but its views holds has no claim of its own that could keep the bytes. */
static void pain_11_release_of_the_last_view_frees(void **state)
{
    hr_tensor *t = numbers(), *v, *w;
    kit_ok(hr_tensor_view(t, 2, two_by_three, &v));
    kit_ok(hr_tensor_view(t, 2, three_by_two, &w));
    hr_tensor_release(t);
    assert_ptr_equal(hr_tensor_base(v), t);
    assert_int_equal(hr_storage_claims(hr_tensor_storage(v)), 2);
    hr_tensor_drop(v, NULL);
    KIT_EXPECT(w, 1, 2, 3, 4, 5, 6);
    hr_tensor_drop(w, NULL);
    assert_int_equal(kit_live(), 0);
    hr_tensor_release(v);
    hr_tensor_release(w);
}

static void a_base_can_be_held_again_through_its_view(void **state)
{
    hr_tensor *t = numbers(), *v, *base;
    kit_ok(hr_tensor_view(t, 2, two_by_three, &v));
    hr_tensor_release(t);
    base = hr_tensor_retain(hr_tensor_base(v));
    KIT_EXPECT(base, 1, 2, 3, 4, 5, 6);
    hr_tensor_release(v);
    assert_int_equal(hr_tensor_count(base), 6);
    assert_null(hr_tensor_data(base));
    hr_tensor_release(base);
}

static void pain_11_a_view_of_a_receive_buffer_leaves_the_buffer(void **state)
{
    hr_storage *buffer;
    hr_tensor *part, *view;
    kit_ok(hr_storage_create(hr_stream_current(), 24, &buffer));
    kit_ok(hr_tensor_over(buffer, 0, HR_F32, 1, six, &part));
    kit_ok(hr_tensor_view(part, 2, two_by_three, &view));
    hr_tensor_drop(view, NULL);
    hr_tensor_drop(part, NULL);
    assert_int_equal(kit_live(), 24);
    assert_non_null(hr_storage_data(buffer));
    hr_tensor_release(view);
    hr_tensor_release(part);
    hr_storage_release(buffer);
    assert_int_equal(kit_live(), 0);
}

static void an_alias_has_no_base_and_its_own_claim(void **state)
{
    hr_tensor *t = numbers(), *a;
    kit_ok(hr_tensor_alias(t, &a));
    assert_null(hr_tensor_base(a));
    assert_true(hr_tensor_same_shape(a, t));
    hr_tensor_drop(t, NULL);
    KIT_EXPECT(a, 1, 2, 3, 4, 5, 6);
    assert_non_null(
        hr_tensor_data(t)); /* the bytes are there as long as anybody's claim */
    hr_tensor_drop(a, NULL);
    assert_null(hr_tensor_data(a));
    hr_tensor_release(t);
    hr_tensor_release(a);
}

static void an_alias_of_freed_bytes_has_no_claim(void **state)
{
    hr_tensor *t = numbers(), *a, *v;
    hr_tensor_drop(t, NULL);
    kit_ok(hr_tensor_alias(t, &a));
    kit_ok(hr_tensor_view(t, 2, two_by_three, &v));
    assert_true(hr_tensor_dropped(a));
    kit_fails(hr_tensor_check(v, "op"), HR_ERR_STATE, "freed");
    assert_int_equal(hr_storage_claims(hr_tensor_storage(t)), 0);
    hr_tensor_release(a);
    hr_tensor_release(v);
    hr_tensor_release(t);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, kit_open, kit_close)
    const struct CMUnitTest tests[] = {
        T(a_view_has_the_same_bytes_and_a_base),
        T(rows_begin_where_they_should),
        T(bad_views_are_refused),
        T(the_shape_of_the_owner_is_checked_like_any),
        T(pain_11_release_of_an_owner_leaves_its_views),
        T(pain_11_release_of_a_view_leaves_its_owner),
        T(pain_11_release_of_the_last_view_frees),
        T(a_base_can_be_held_again_through_its_view),
        T(pain_11_a_view_of_a_receive_buffer_leaves_the_buffer),
        T(an_alias_has_no_base_and_its_own_claim),
        T(an_alias_of_freed_bytes_has_no_claim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
