/* What the engine refuses, and what is left after a function failed. */
#include "unit/autograd/autograd_kit.h"

static void a_root_outside_any_graph_is_refused(void **state)
{
    hr_tensor *plain = KIT_TENSOR(1), *x = LEAF(1), *y = scale(x, 2);
    hr_tensor *roots[2] = {y, plain}, *none = NULL;
    kit_fails(hr_backward(roots, NULL, 2), HR_ERR_STATE, "output_needs_no_grad");
    kit_fails(hr_backward(&none, NULL, 1), HR_ERR_INVALID, "output_not_tensor");
    kit_fails(hr_backward(NULL, NULL, 1), HR_ERR_INVALID, "no_roots");
    kit_fails(hr_backward(roots, NULL, -1), HR_ERR_INVALID, "no_roots");
    assert_int_equal(op_logged, 0);
    kit_ok(hr_backward(&y, NULL, 1)); /* a refusal spends nothing */
    KIT_EXPECT(hr_tensor_grad(x), 2);
    hr_tensor_release(plain);
    hr_tensor_release(x);
    hr_tensor_release(y);
}

static void a_gradient_of_another_shape_is_refused(void **state)
{
    hr_tensor *x = LEAF(1, 2), *y = scale(x, 2), *g = KIT_TENSOR(1),
              *ok = KIT_TENSOR(1, 1);
    kit_fails(hr_backward(&y, &g, 1), HR_ERR_INVALID, "grad_shape");
    assert_non_null(strstr(hr_last_error(), "[1]"));
    assert_non_null(strstr(hr_last_error(), "[2]"));
    kit_ok(hr_backward(&y, &ok, 1));
    hr_tensor_release(x);
    hr_tensor_release(y);
    hr_tensor_release(g);
    hr_tensor_release(ok);
}

static void a_gradient_of_another_type_is_refused(void **state)
{
    hr_tensor *x = LEAF(1, 2), *y = scale(x, 2), *g;
    kit_ok(hr_tensor_zeros(HR_I32, 1, (int64_t[]){2}, &g));
    kit_fails(hr_backward(&y, &g, 1), HR_ERR_INVALID, "grad_dtype");
    assert_non_null(strstr(hr_last_error(), "i32"));
    assert_int_equal(op_logged, 0);
    hr_tensor_release(x);
    hr_tensor_release(y);
    hr_tensor_release(g);
}

static void a_freed_gradient_is_refused(void **state)
{
    hr_tensor *x = LEAF(1, 2), *y = scale(x, 2), *g = KIT_TENSOR(1, 1);
    hr_tensor_drop(g, NULL);
    kit_fails(hr_backward(&y, &g, 1), HR_ERR_STATE, "freed");
    hr_tensor_release(x);
    hr_tensor_release(y);
    hr_tensor_release(g);
}

static void a_graph_runs_backward_once(void **state)
{
    hr_tensor *x = LEAF(1), *y = scale(x, 2), *a = scale(y, 3), *b = scale(y, 4);
    kit_ok(hr_backward(&a, NULL, 1));
    kit_fails(hr_backward(&a, NULL, 1), HR_ERR_STATE, "spent");
    /* b shares y's function. */
    kit_fails(hr_backward(&b, NULL, 1), HR_ERR_STATE, "spent");
    hr_tensor *fresh = scale(x, 5), *roots[2] = {fresh, a};
    kit_fails(hr_backward(roots, NULL, 2), HR_ERR_STATE, "spent");
    assert_int_equal(op_logged, 2);
    kit_ok(hr_backward(&fresh, NULL, 1)); /* the refusal left it as it was */
    hr_tensor_release(fresh);
    KIT_EXPECT(hr_tensor_grad(x), 11);
    hr_tensor_release(x);
    hr_tensor_release(y);
    hr_tensor_release(a);
    hr_tensor_release(b);
}

static void a_failing_function_ends_the_pass(void **state)
{
    hr_tensor *x = LEAF(1), *w = LEAF(1);
    hr_tensor *y = scale_as(x, 2, "y", HR_OK),
              *z = scale_as(y, 2, "z", HR_ERR_CALLBACK);
    hr_tensor *v = scale_as(w, 5, "v", HR_OK), *p = pair(z, v);
    kit_fails(hr_backward(&p, NULL, 1), HR_ERR_CALLBACK, "callback");
    assert_non_null(strstr(hr_last_error(), "'z' fails on purpose"));
    assert_true(hr_grad_mode());
    assert_int_equal(op_logged, 3); /* pair, v, z; never y */
    KIT_EXPECT(hr_tensor_grad(w), 5);
    assert_null(hr_tensor_grad(x));
    kit_fails(hr_backward(&p, NULL, 1), HR_ERR_STATE, "spent");
    kit_fails(hr_backward(&y, NULL, 1), HR_ERR_STATE, "spent");
    /* Nothing is kept but what the test itself holds. */
    assert_int_equal(hr_storage_claims(hr_tensor_storage(x)), 1);
    assert_int_equal(hr_storage_claims(hr_tensor_storage(y)), 1);
    assert_int_equal(hr_tensor_refs(x), 1);
    hr_tensor *all[] = {x, w, y, z, v, p};
    for (int i = 0; i < 6; i++)
        hr_tensor_release(all[i]);
}

static void sums_begun_before_a_failure_are_released(void **state)
{
    hr_tensor *x = LEAF(1), *w = LEAF(1), *y = scale(w, 2);
    hr_tensor *bad = scale_as(x, 2, "bad", HR_ERR_CALLBACK);
    hr_tensor *p = pair(bad, x), *q = pair(p, y), *r = pair(q, y);
    kit_fails(hr_backward(&r, NULL, 1), HR_ERR_CALLBACK, "callback");
    assert_null(hr_tensor_grad(x)); /* one of two had come */
    assert_int_equal(hr_tensor_refs(x), 1);
    hr_tensor *all[] = {x, w, y, bad, p, q, r};
    for (int i = 0; i < 7; i++)
        hr_tensor_release(all[i]);
}

static hr_status wrong_backward(hr_function *fn, hr_tensor *const *grad_out,
                                hr_tensor **grad_in)
{
    const int64_t three[1] = {3};
    return hr_tensor_zeros(HR_F32, 1, three, &grad_in[0]);
}

static void a_gradient_that_fits_no_input_is_refused(void **state)
{
    static const hr_function_class wrong = {.name = "wrong",
                                            .backward = wrong_backward};
    hr_tensor *x = LEAF(1, 2), *mid = scale(x, 1);
    for (int at_leaf = 0; at_leaf < 2; at_leaf++) {
        hr_tensor *y = scaled(x, 1), *g = KIT_TENSOR(1, 1);
        hr_function *fn;
        kit_ok(hr_function_create(&wrong, at_leaf ? &x : &mid, 1, &fn));
        kit_ok(hr_function_finish(fn, &y, 1));
        kit_fails(hr_backward(&y, &g, 1), HR_ERR_INVALID, "grad_shape");
        assert_non_null(strstr(hr_last_error(), "'wrong'"));
        hr_tensor_release(y);
        hr_tensor_release(g);
    }
    hr_tensor_release(mid);
    hr_tensor_release(x);
}

static hr_status failing_after_gradient(hr_function *fn, hr_tensor *const *grad_out,
                                        hr_tensor **grad_in)
{
    grad_in[0] = scaled(grad_out[0], 1);
    return hr_fail(HR_ERR_CALLBACK, "callback", "too late");
}

static void what_a_failing_function_returned_is_released(void **state)
{
    static const hr_function_class late = {.name = "late",
                                           .backward = failing_after_gradient};
    hr_function *fn;
    hr_tensor *x = LEAF(1), *y = scaled(x, 1);
    kit_ok(hr_function_create(&late, &x, 1, &fn));
    kit_ok(hr_function_finish(fn, &y, 1));
    kit_fails(hr_backward(&y, NULL, 1), HR_ERR_CALLBACK, "callback");
    hr_tensor_release(x);
    hr_tensor_release(y);
}

static hr_status reentrant_backward(hr_function *fn, hr_tensor *const *grad_out,
                                    hr_tensor **grad_in)
{
    hr_tensor *root = *(hr_tensor **)hr_function_ctx(fn);
    return hr_backward(&root, NULL, 1);
}

static void a_pass_inside_cannot_take_the_functions_of_the_outer(void **state)
{
    static const hr_function_class again = {.name = "again",
                                            .ctx_bytes = sizeof(hr_tensor *),
                                            .backward = reentrant_backward};
    hr_function *fn;
    hr_tensor *x = LEAF(1), *y = scale(x, 1), *z = scaled(y, 1);
    kit_ok(hr_function_create(&again, &y, 1, &fn));
    *(hr_tensor **)hr_function_ctx(fn) = y;
    kit_ok(hr_function_finish(fn, &z, 1));
    kit_fails(hr_backward(&z, NULL, 1), HR_ERR_STATE, "spent");
    hr_tensor_release(x);
    hr_tensor_release(y);
    hr_tensor_release(z);
}

/* However little memory there is, a step passes or fails with ERR_NOMEM, and leaves nothing. */
static hr_status small_step(void)
{
    const int64_t n[1] = {16};
    hr_tensor *x, *y = NULL, *z = NULL;
    hr_function *fn = NULL;
    hr_status st = hr_tensor_zeros(HR_F32, 1, n, &x);
    if (st < 0)
        return st;
    as_leaf(x);
    y = scaled(x, 2);
    z = y ? scaled(y, 1) : NULL;
    st = z ? hr_function_create(&pair_class, (hr_tensor *[]){x, x}, 2, &fn)
           : HR_ERR_NOMEM;
    if (st >= 0)
        st = hr_function_finish(fn, &z, 1);
    if (st >= 0) {
        /* The test holds the gradient: sum and leaf need memory of their own. */
        st = hr_backward((hr_tensor *[]){z, z}, (hr_tensor *[]){y, y}, 2);
    }
    hr_tensor_release(z);
    hr_tensor_release(y);
    hr_tensor_release(x);
    return st;
}

static void memory_may_run_out_anywhere(void **state)
{
    int failed = 0, passed = 0;
    for (size_t limit = 64; limit <= 512; limit += 64) {
        hr_device *small;
        hr_device_opts opts = {HR_INIT(hr_device_opts), .memory = limit};
        hr_mem_stats stats;
        kit_ok(hr_device_open(test_backend(), &opts, &small));
        hr_device_set_current(small);
        hr_status st = small_step();
        assert_true(st == HR_OK || st == HR_ERR_NOMEM);
        failed += st < 0;
        passed += st == HR_OK;
        hr_mem_get_stats(small, &stats);
        assert_int_equal(stats.live_bytes, 0);
        hr_device_set_current(kit_dev);
        hr_device_close(small);
    }
    assert_true(passed >= 2);
    assert_true(failed >= 4);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, autograd_open, kit_close)
    const struct CMUnitTest tests[] = {
        T(a_root_outside_any_graph_is_refused),
        T(a_gradient_of_another_shape_is_refused),
        T(a_gradient_of_another_type_is_refused),
        T(a_freed_gradient_is_refused),
        T(a_graph_runs_backward_once),
        T(a_failing_function_ends_the_pass),
        T(sums_begun_before_a_failure_are_released),
        T(a_gradient_that_fits_no_input_is_refused),
        T(what_a_failing_function_returned_is_released),
        T(a_pass_inside_cannot_take_the_functions_of_the_outer),
        T(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
