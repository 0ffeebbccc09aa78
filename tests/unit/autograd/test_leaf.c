/* A tensor's place in the graph: need of gradient, gradient buffers, detach, shared graph. */
#include "unit/autograd/autograd_kit.h"

static void need_of_gradient_belongs_to_real_leaves(void **state)
{
    const int64_t two[1] = {2};
    hr_tensor *t = KIT_TENSOR(1), *ids;
    assert_false(hr_tensor_requires_grad(t));
    kit_ok(hr_tensor_set_requires_grad(t, true));
    assert_true(hr_tensor_requires_grad(t));
    kit_ok(hr_tensor_set_requires_grad(t, false));
    assert_false(hr_tensor_requires_grad(t));
    kit_ok(hr_tensor_create(HR_I32, 1, two, &ids));
    kit_fails(hr_tensor_set_requires_grad(ids, true), HR_ERR_INVALID, "dtype");
    kit_fails(hr_tensor_set_requires_grad(NULL, true), HR_ERR_INVALID, "no_tensor");
    hr_tensor_release(ids);
    hr_tensor_release(t);
}

static void a_buffer_is_made_once_and_zeroed(void **state)
{
    hr_tensor *t = LEAF(1, 2), *g, *again;
    assert_null(hr_tensor_grad(t));
    kit_ok(hr_grad_buffer(t, &g));
    KIT_EXPECT(g, 0, 0);
    kit_ok(hr_grad_buffer(t, &again));
    assert_ptr_equal(g, again);
    assert_ptr_equal(hr_tensor_grad(t), g);
    assert_int_equal(hr_tensor_refs(g), 1);
    hr_tensor_release(t);
}

static void a_buffer_may_be_supplied_and_forgotten(void **state)
{
    hr_tensor *t = LEAF(1, 2), *mine = KIT_TENSOR(7, 8), *wrong = KIT_TENSOR(1), *g;
    kit_fails(hr_tensor_set_grad(t, wrong), HR_ERR_INVALID, "grad_shape");
    kit_fails(hr_tensor_set_grad(t, t), HR_ERR_INVALID, "no_tensor");
    kit_fails(hr_tensor_set_grad(NULL, mine), HR_ERR_INVALID, "no_tensor");
    kit_ok(hr_tensor_set_grad(t, mine));
    kit_ok(hr_tensor_set_grad(t, mine));
    assert_int_equal(hr_tensor_refs(mine), 2);
    kit_ok(hr_grad_buffer(t, &g));
    assert_ptr_equal(g, mine);
    kit_ok(hr_tensor_set_grad(t, NULL));
    assert_null(hr_tensor_grad(t));
    assert_int_equal(hr_tensor_refs(mine), 1);
    hr_tensor_release(wrong);
    hr_tensor_release(mine);
    hr_tensor_release(t);
}

static void a_gradient_that_keeps_its_tensor_is_refused(void **state)
{
    const int64_t two[1] = {2};
    hr_tensor *t = LEAF(1, 2), *view, *alias, *part;
    kit_ok(hr_tensor_view(t, 1, two, &view));
    kit_fails(hr_tensor_set_grad(t, view), HR_ERR_INVALID, "grad_view");
    assert_null(hr_tensor_grad(t));
    kit_ok(hr_tensor_rows(view, 0, 2, &part)); /* of the view, and so of `t` */
    kit_fails(hr_tensor_set_grad(t, part), HR_ERR_INVALID, "grad_view");
    kit_ok(hr_tensor_set_grad(view, t)); /* the other way it is no circle */
    kit_ok(hr_tensor_alias(t, &alias));
    kit_ok(hr_tensor_set_grad(alias, view));
    hr_tensor_release(alias);
    hr_tensor_release(part);
    hr_tensor_release(view);
    assert_int_equal(hr_tensor_refs(t), 1);
    hr_tensor_release(t);
}

static void only_leaves_have_buffers(void **state)
{
    hr_tensor *x = LEAF(1), *y = scale(x, 2), *g;
    kit_fails(hr_grad_buffer(y, &g), HR_ERR_STATE, "not_leaf");
    assert_null(g);
    hr_tensor_release(y);
    hr_tensor_release(x);
}

static void a_detached_tensor_is_outside_the_graph(void **state)
{
    hr_tensor *x = LEAF(1, 2), *y = scale(x, 2), *d;
    kit_probe(1);
    kit_ok(hr_tensor_detach(y, &d));
    kit_ok(hr_tensor_set_requires_grad(d, true));
    assert_int_equal(kit_records, 2);
    assert_int_equal(kit_record[0].kind, HR_PROBE_DETACH);
    assert_ptr_equal(kit_record[0].a, y);
    assert_ptr_equal(kit_record[0].b, d);
    assert_int_equal(kit_record[1].kind, HR_PROBE_REQUIRES_GRAD);
    assert_ptr_equal(kit_record[1].a, d);
    assert_int_equal(kit_record[1].value, 1);
    kit_probe(0);
    assert_true(hr_tensor_is_leaf(d));
    assert_null(hr_tensor_base(d));
    hr_tensor_drop(y, NULL);
    KIT_EXPECT(d, 2, 4);
    hr_tensor_release(d);
    hr_tensor_release(y);
    hr_tensor_release(x);
}

/* The viewless helper is an alias that shares the graph. */
static void a_shared_place_gets_the_same_gradient(void **state)
{
    hr_tensor *x = LEAF(1, 2), *y = scale(x, 3), *u, *g = KIT_TENSOR(1, 10);
    kit_ok(hr_tensor_alias(y, &u));
    kit_ok(hr_tensor_share_graph(y, u));
    assert_false(hr_tensor_is_leaf(u));
    kit_fails(hr_tensor_share_graph(y, u), HR_ERR_STATE, "output_in_graph");
    hr_tensor_release(y);
    kit_ok(hr_backward(&u, &g, 1));
    KIT_EXPECT(hr_tensor_grad(x), 3, 30);
    hr_tensor_release(u);
    hr_tensor_release(g);
    hr_tensor_release(x);
}

static void a_leafs_shared_place_leads_to_the_leaf(void **state)
{
    hr_tensor *x = LEAF(1, 2), *u, *plain, *g = KIT_TENSOR(1, 10),
              *wrong = KIT_TENSOR(1);
    kit_ok(hr_tensor_alias(x, &u));
    kit_ok(hr_tensor_share_graph(x, u));
    assert_true(hr_tensor_requires_grad(u));
    kit_ok(hr_backward(&u, &g, 1));
    KIT_EXPECT(hr_tensor_grad(x), 1, 10);
    kit_ok(hr_tensor_alias(g, &plain));
    kit_ok(hr_tensor_share_graph(g, plain)); /* no graph to share */
    assert_false(hr_tensor_requires_grad(plain));
    kit_fails(hr_tensor_share_graph(x, wrong), HR_ERR_INVALID, "grad_shape");
    kit_fails(hr_tensor_share_graph(x, x), HR_ERR_INVALID, "no_tensor");
    hr_tensor_release(wrong);
    hr_tensor_release(plain);
    hr_tensor_release(u);
    hr_tensor_release(g);
    hr_tensor_release(x);
}

static void a_long_chain_of_gradients_is_released(void **state)
{
    hr_tensor *first = KIT_TENSOR(1), *t = hr_tensor_retain(first);
    for (int i = 0; i < 100000; i++) {
        hr_tensor *g;
        kit_ok(hr_tensor_alias(first, &g));
        kit_ok(hr_tensor_set_grad(g, t));
        hr_tensor_release(t);
        t = g;
    }
    hr_tensor_release(t);
    hr_tensor_release(first);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, autograd_open, kit_close)
    const struct CMUnitTest tests[] = {
        T(need_of_gradient_belongs_to_real_leaves),
        T(a_buffer_is_made_once_and_zeroed),
        T(a_buffer_may_be_supplied_and_forgotten),
        T(a_gradient_that_keeps_its_tensor_is_refused),
        T(only_leaves_have_buffers),
        T(a_detached_tensor_is_outside_the_graph),
        T(a_shared_place_gets_the_same_gradient),
        T(a_leafs_shared_place_leads_to_the_leaf),
        T(a_long_chain_of_gradients_is_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
