/* Functions: when they are made, what they keep and how long. */
#include "unit/autograd/autograd_kit.h"

#include "headrace/base.h"
#include "tensor/tensor_impl.h"

static void no_function_where_nothing_needs_a_gradient(void **state)
{
    hr_function *fn;
    hr_tensor *x = KIT_TENSOR(1), *w = LEAF(2), *in[3] = {x, NULL, w};
    kit_ok(hr_function_create(&pair_class, in, 2, &fn));
    assert_null(fn);
    assert_true(hr_grad_mode_set(false));
    assert_false(hr_grad_mode());
    kit_ok(hr_function_create(&pair_class, in, 3, &fn));
    assert_null(fn);
    assert_false(hr_grad_mode_set(true));
    kit_ok(hr_function_create(&pair_class, in, 3, &fn));
    assert_non_null(fn);
    assert_false(hr_function_needs(fn, 0));
    assert_false(hr_function_needs(fn, 1));
    assert_true(hr_function_needs(fn, 2));
    assert_false(hr_function_needs(fn, 3));
    assert_ptr_equal(hr_function_input(fn, 2), w);
    assert_null(hr_function_input(fn, 0));
    assert_null(hr_function_input(fn, -1));
    hr_function_abandon(fn);
    hr_tensor_release(x);
    hr_tensor_release(w);
}

static void no_function_is_no_trouble(void **state)
{
    int slot = 7;
    hr_tensor *x = KIT_TENSOR(1);
    kit_ok(hr_function_save(NULL, x, &slot));
    assert_int_equal(slot, -1);
    assert_null(hr_function_saved(NULL, 0));
    assert_null(hr_function_ctx(NULL));
    assert_false(hr_function_needs(NULL, 0));
    kit_ok(hr_function_finish(NULL, &x, 1));
    hr_function_abandon(NULL);
    assert_true(hr_tensor_is_leaf(x));
    hr_tensor_release(x);
}

static void outputs_require_grad_and_are_no_leaves(void **state)
{
    hr_tensor *x = LEAF(1), *y = scale(x, 3);
    assert_true(hr_tensor_is_leaf(x));
    assert_false(hr_tensor_is_leaf(y));
    assert_true(hr_tensor_requires_grad(y));
    kit_fails(hr_tensor_set_requires_grad(y, false), HR_ERR_STATE, "not_leaf");
    hr_tensor_release(y);
    hr_tensor_release(x);
}

static void integer_outputs_stay_outside(void **state)
{
    const int64_t two[1] = {2};
    hr_function *fn;
    hr_tensor *x = LEAF(1), *out[3] = {NULL, NULL, scaled(x, 2)};
    kit_ok(hr_tensor_create(HR_I32, 1, two, &out[0]));
    kit_ok(hr_function_create(&split_class, &x, 1, &fn));
    kit_ok(hr_function_finish(fn, out, 3));
    assert_false(hr_tensor_requires_grad(out[0]));
    assert_true(hr_tensor_requires_grad(out[2]));
    hr_tensor_release(out[0]);
    hr_tensor_release(out[2]);
    hr_tensor_release(x);
}

static void what_is_saved_has_a_claim_of_its_own(void **state)
{
    hr_function *fn;
    hr_tensor *x = LEAF(1), *mid = KIT_TENSOR(4, 5);
    int slot;
    kit_ok(hr_function_create(&scale_class, &x, 1, &fn));
    for (int i = 0; i < 9; i++) { /* past what a function holds inline */
        kit_ok(hr_function_save(fn, i % 2 ? NULL : mid, &slot));
        assert_int_equal(slot, i);
    }
    assert_int_equal(hr_storage_claims(hr_tensor_storage(mid)), 6);
    hr_tensor_drop(mid, NULL);
    hr_tensor_release(mid);
    for (int i = 0; i < 9; i++) {
        if (i % 2)
            assert_null(hr_function_saved(fn, i));
        else
            KIT_EXPECT(hr_function_saved(fn, i), 4, 5);
    }
    assert_null(hr_function_saved(fn, 9));
    assert_null(hr_function_saved(fn, -1));
    hr_function_abandon(fn);
    assert_int_equal(kit_live(), 4); /* x */
    hr_tensor_release(x);
}

static void freed_bytes_cannot_be_saved(void **state)
{
    hr_function *fn;
    hr_tensor *x = LEAF(1), *mid = KIT_TENSOR(4, 5);
    hr_tensor_drop(mid, NULL);
    kit_ok(hr_function_create(&scale_class, &x, 1, &fn));
    kit_fails(hr_function_save(fn, mid, NULL), HR_ERR_STATE, "freed");
    hr_function_abandon(fn);
    hr_tensor_release(mid);
    hr_tensor_release(x);
}

static void the_graph_keeps_no_activation_but_saved_ones(void **state)
{
    hr_tensor *x = LEAF(1, 2, 3, 4), *y = scale(x, 2), *z = pair(y, y);
    assert_int_equal(kit_live(), 48);
    hr_tensor_release(y); /* pair saved nothing */
    assert_int_equal(kit_live(), 32);
    hr_tensor_release(z);
    hr_tensor_release(x);
    assert_int_equal(kit_live(), 0);
}

static void a_finished_function_is_closed(void **state)
{
    hr_function *fn;
    hr_tensor *x = LEAF(1), *y = scaled(x, 1), *taken = scale(x, 2);
    kit_ok(hr_function_create(&scale_class, &x, 1, &fn));
    kit_fails(hr_function_finish(fn, &taken, 1), HR_ERR_STATE, "output_in_graph");
    kit_ok(hr_function_create(&scale_class, &x, 1, &fn));
    kit_fails(hr_function_finish(fn, &x, 1), HR_ERR_STATE, "output_in_graph");
    kit_ok(hr_function_create(&scale_class, &x, 1, &fn));
    kit_fails(hr_function_finish(fn, NULL, 1), HR_ERR_INVALID, "outputs");
    kit_ok(hr_function_create(&scale_class, &x, 1, &fn));
    kit_ok(hr_function_finish(fn, &y, 1));
    kit_fails(hr_function_save(fn, x, NULL), HR_ERR_STATE, "not_open");
    assert_true(hr_tensor_is_leaf(x));
    hr_tensor_release(taken);
    hr_tensor_release(y);
    hr_tensor_release(x);
}

/* Its outputs hold it: whoever ends it again has no hold to give up. */
static void a_second_end_takes_nothing(void **state)
{
    hr_function *fn;
    hr_tensor *x = LEAF(1), *y = scaled(x, 1), *z = scaled(x, 1);
    kit_ok(hr_function_create(&scale_class, &x, 1, &fn));
    kit_ok(hr_function_finish(fn, &y, 1));
    kit_fails(hr_function_finish(fn, &z, 1), HR_ERR_STATE, "not_open");
    hr_function_abandon(fn);
    kit_fails(hr_function_save(fn, x, NULL), HR_ERR_STATE, "not_open");
    assert_true(hr_tensor_is_leaf(z));
    hr_tensor_release(z);
    hr_tensor_release(y);
    hr_tensor_release(x);
}

static void a_class_needs_a_backward(void **state)
{
    hr_function_class none = {.name = "none"};
    hr_function *fn = (hr_function *)&none;
    hr_tensor *x = LEAF(1);
    kit_fails(hr_function_create(&none, &x, 1, &fn), HR_ERR_INVALID, "function");
    assert_null(fn);
    kit_fails(hr_function_create(NULL, &x, 1, &fn), HR_ERR_INVALID, "function");
    kit_fails(hr_function_create(&scale_class, NULL, 1, &fn), HR_ERR_INVALID,
              "function");
    hr_tensor_release(x);
}

static void the_context_ends_once(void **state)
{
    int ends = 0;
    hr_function *fn;
    hr_tensor *x = LEAF(1);
    kit_ok(hr_function_create(&scale_class, &x, 1, &fn));
    struct scale_ctx *ctx = hr_function_ctx(fn);
    assert_true(ctx->c == 0.0F && ctx->fini_count == NULL);
    assert_int_equal((uintptr_t)ctx % 16, 0);
    ctx->fini_count = &ends;
    hr_function_abandon(fn);
    assert_int_equal(ends, 1);
    hr_tensor_release(x);
}

static void a_chain_of_100000_is_destroyed_without_recursion(void **state)
{
    hr_tensor *x = LEAF(1), *y = hr_tensor_retain(x);
    for (int i = 0; i < 100000; i++) {
        hr_tensor *z, *in[1] = {y};
        hr_function *fn;
        kit_ok(hr_tensor_alias(x, &z));
        kit_ok(hr_function_create(&pair_class, in, 1, &fn));
        kit_ok(hr_function_finish(fn, &z, 1));
        hr_tensor_release(y);
        y = z;
    }
    hr_tensor_release(y);
    hr_tensor_release(x);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, autograd_open, kit_close)
    const struct CMUnitTest tests[] = {
        T(no_function_where_nothing_needs_a_gradient),
        T(no_function_is_no_trouble),
        T(outputs_require_grad_and_are_no_leaves),
        T(integer_outputs_stay_outside),
        T(what_is_saved_has_a_claim_of_its_own),
        T(freed_bytes_cannot_be_saved),
        T(the_graph_keeps_no_activation_but_saved_ones),
        T(a_finished_function_is_closed),
        T(a_second_end_takes_nothing),
        T(a_class_needs_a_backward),
        T(the_context_ends_once),
        T(a_chain_of_100000_is_destroyed_without_recursion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
