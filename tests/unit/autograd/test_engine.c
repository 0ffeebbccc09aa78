/* The engine: order, sums, what it frees and when. */
#include "unit/autograd/autograd_kit.h"

#include "tensor/pool.h"

static void a_chain_multiplies(void **state)
{
    hr_tensor *x = LEAF(1, 2), *y = scale(x, 2), *z = scale(y, 5),
              *g = KIT_TENSOR(1, 10);
    KIT_EXPECT(z, 10, 20);
    kit_ok(hr_backward(&z, &g, 1));
    KIT_EXPECT(hr_tensor_grad(x), 10, 100);
    assert_null(hr_tensor_grad(y));
    hr_tensor_release(z);
    hr_tensor_release(y);
    hr_tensor_release(x);
    hr_tensor_release(g);
}

static void no_gradient_means_one_for_one_element(void **state)
{
    hr_tensor *x = LEAF(3), *y = scale(x, 2), *wide = LEAF(1, 2), *z = scale(wide, 2);
    kit_ok(hr_backward(&y, NULL, 1));
    KIT_EXPECT(hr_tensor_grad(x), 2);
    kit_fails(hr_backward(&z, NULL, 1), HR_ERR_INVALID, "grad_missing");
    hr_tensor_release(x);
    hr_tensor_release(y);
    hr_tensor_release(z);
    hr_tensor_release(wide);
}

static void gradients_of_two_uses_are_summed(void **state)
{
    hr_tensor *x = LEAF(1, 1), *y = scale(x, 2), *a = scale(y, 3), *b = scale(y, 4);
    hr_tensor *z = pair(a, b), *g = KIT_TENSOR(1, 10);
    kit_ok(hr_backward(&z, &g, 1));
    KIT_EXPECT(hr_tensor_grad(x), 14, 140);
    KIT_EXPECT(g, 1, 10); /* the caller's own is never added to */
    hr_tensor_release(x);
    hr_tensor_release(y);
    hr_tensor_release(a);
    hr_tensor_release(b);
    hr_tensor_release(z);
    hr_tensor_release(g);
}

static void one_handle_for_two_inputs_is_not_summed_in_place(void **state)
{
    hr_tensor *x = LEAF(1), *y = scale(x, 2), *z = pair(y, y), *g = KIT_TENSOR(1);
    hr_tensor *w = LEAF(1), *v = pair(x, w);
    kit_ok(hr_backward(&z, &g, 1));
    KIT_EXPECT(hr_tensor_grad(x), 4);
    kit_ok(hr_backward(&v, &g, 1));
    KIT_EXPECT(hr_tensor_grad(x), 5);
    KIT_EXPECT(hr_tensor_grad(w), 1);
    KIT_EXPECT(g, 1);
    assert_ptr_not_equal(hr_tensor_data(hr_tensor_grad(w)), hr_tensor_data(g));
    hr_tensor_release(x);
    hr_tensor_release(y);
    hr_tensor_release(z);
    hr_tensor_release(g);
    hr_tensor_release(w);
    hr_tensor_release(v);
}

static void the_newest_ready_function_runs_first(void **state)
{
    hr_tensor *x = LEAF(1), *a = scale_as(x, 1, "a", HR_OK);
    hr_tensor *b = scale_as(a, 1, "b", HR_OK), *c = scale_as(a, 1, "c", HR_OK);
    hr_tensor *d = scale_as(b, 1, "d", HR_OK), *e = pair(c, d);
    const char *order[] = {"pair", "d", "c", "b", "a"};
    kit_ok(hr_backward(&e, NULL, 1));
    assert_int_equal(op_logged, 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(op_log[i], order[i]);
    hr_tensor *all[] = {x, a, b, c, d, e};
    for (int i = 0; i < 6; i++)
        hr_tensor_release(all[i]);
}

static void several_roots_run_as_one_pass(void **state)
{
    hr_tensor *x = LEAF(1), *y = scale_as(x, 2, "y", HR_OK);
    hr_tensor *p = scale_as(y, 3, "p", HR_OK), *q = scale_as(y, 4, "q", HR_OK);
    hr_tensor *g = KIT_TENSOR(10), *roots[4] = {p, q, p, y},
              *grads[4] = {g, NULL, g, g};
    kit_ok(hr_backward(roots, grads, 4));
    /* (10 + 10) * 3 + 1 * 4 + 10 = 74 at y */
    KIT_EXPECT(hr_tensor_grad(x), 148);
    assert_int_equal(op_logged, 3);
    assert_string_equal(op_log[0], "q");
    hr_tensor_release(x);
    hr_tensor_release(y);
    hr_tensor_release(p);
    hr_tensor_release(q);
    hr_tensor_release(g);
    kit_ok(hr_backward(NULL, NULL, 0));
}

static void a_leaf_may_be_a_root(void **state)
{
    hr_tensor *x = LEAF(1, 2), *g = KIT_TENSOR(5, 6), *roots[2] = {x, x},
              *grads[2] = {g, g};
    kit_ok(hr_backward(roots, grads, 2));
    KIT_EXPECT(hr_tensor_grad(x), 10, 12);
    hr_tensor_release(x);
    hr_tensor_release(g);
}

static void an_output_that_nothing_reached_has_no_gradient(void **state)
{
    hr_tensor *x = LEAF(1), *out[2], *g = KIT_TENSOR(3);
    split(x, out);
    kit_ok(hr_backward(&out[1], &g, 1));
    assert_string_equal(op_log[0], "split second");
    KIT_EXPECT(hr_tensor_grad(x), 3);
    hr_tensor_release(out[0]);
    hr_tensor_release(out[1]);
    hr_tensor_release(x);
    hr_tensor_release(g);
}

static hr_status silent_backward(hr_function *fn, hr_tensor *const *grad_out,
                                 hr_tensor **grad_in)
{
    op_log_add("silent");
    return HR_OK;
}

/* Where no gradient arrives none leaves, and the functions before wait for nothing. */
static void nothing_comes_of_no_gradient(void **state)
{
    static const hr_function_class silent = {.name = "silent",
                                             .backward = silent_backward};
    hr_function *fn;
    hr_tensor *x = LEAF(1), *y = scale_as(x, 2, "y", HR_OK), *z = scaled(y, 1);
    kit_ok(hr_function_create(&silent, &y, 1, &fn));
    kit_ok(hr_function_finish(fn, &z, 1));
    kit_ok(hr_backward(&z, NULL, 1));
    assert_int_equal(op_logged, 1);
    assert_null(hr_tensor_grad(x));
    kit_fails(hr_backward(&y, NULL, 1), HR_ERR_STATE, "spent");
    hr_tensor_release(x);
    hr_tensor_release(y);
    hr_tensor_release(z);
}

static void a_leaf_adopts_what_nobody_else_holds(void **state)
{
    hr_tensor *x = LEAF(1, 2), *y = scale(x, 2), *g = KIT_TENSOR(1, 1);
    kit_ok(hr_backward(&y, &g, 1));
    assert_int_equal(kit_blocks(), 4); /* x, y, g, and x's gradient: no copy of it */
    void *at = hr_tensor_data(hr_tensor_grad(x));
    hr_tensor_release(y);
    y = scale(x, 3);
    kit_ok(hr_backward(&y, &g, 1));
    KIT_EXPECT(hr_tensor_grad(x), 5, 5); /* in place */
    assert_ptr_equal(hr_tensor_data(hr_tensor_grad(x)), at);
    assert_int_equal(kit_blocks(), 4);
    hr_tensor_release(y);
    hr_tensor_release(x);
    hr_tensor_release(g);
}

static hr_tensor *transfer; /* has a claim on a gradient, as a pending send has */

static hr_status sending_backward(hr_function *fn, hr_tensor *const *grad_out,
                                  hr_tensor **grad_in)
{
    grad_in[0] = scaled(grad_out[0], 1);
    return hr_tensor_alias(grad_in[0], &transfer);
}

static void a_leaf_copies_what_somebody_has_a_claim_on(void **state)
{
    static const hr_function_class sends = {.name = "sends",
                                            .backward = sending_backward};
    hr_tensor *x = LEAF(1), *y = scaled(x, 1), *z = scale(x, 2);
    hr_function *fn;
    kit_ok(hr_function_create(&sends, &x, 1, &fn));
    kit_ok(hr_function_finish(fn, &y, 1));
    kit_ok(hr_backward(&y, NULL, 1));
    kit_ok(hr_backward(&z, NULL, 1));
    KIT_EXPECT(hr_tensor_grad(x), 3);
    KIT_EXPECT(transfer, 1);
    hr_tensor_release(transfer);
    hr_tensor_release(x);
    hr_tensor_release(y);
    hr_tensor_release(z);
}

static void a_leaf_adds_to_a_supplied_buffer(void **state)
{
    hr_tensor *x = LEAF(1, 2), *y = scale(x, 2), *g = KIT_TENSOR(1, 1);
    hr_tensor *mine = KIT_TENSOR(100, 200);
    kit_ok(hr_tensor_set_grad(x, mine));
    kit_ok(hr_backward(&y, &g, 1));
    KIT_EXPECT(mine, 102, 202);
    assert_ptr_equal(hr_tensor_grad(x), mine);
    hr_tensor_release(mine);
    hr_tensor_release(y);
    hr_tensor_release(x);
    hr_tensor_release(g);
}

/* A node's input is freed after its forward; what was saved of it stays, and goes as soon as
 * backward has used it, though the output and so the graph's head is still held. */
static void saved_bytes_go_as_they_are_used(void **state)
{
    hr_tensor *x = LEAF(1, 2, 3, 4), *y = scale(x, 2), *z = scale(y, 5);
    hr_tensor *g = KIT_TENSOR(1, 1, 1, 1);
    hr_tensor_drop(y, NULL);
    assert_int_equal(kit_blocks(), 4);
    kit_ok(hr_backward(&z, &g, 1));
    KIT_EXPECT(hr_tensor_grad(x), 10, 10, 10, 10);
    assert_int_equal(kit_blocks(), 4); /* y's bytes have gone, x's gradient came */
    assert_int_equal(hr_storage_claims(hr_tensor_storage(x)), 1);
    assert_int_equal(hr_tensor_refs(x), 1); /* z keeps no graph alive */
    hr_tensor_release(y);
    hr_tensor_release(z);
    hr_tensor_release(x);
    hr_tensor_release(g);
}

static size_t live_in_backward[3];

static hr_status watch_backward(hr_function *fn, hr_tensor *const *grad_out,
                                hr_tensor **grad_in)
{
    int i = *(int *)hr_function_ctx(fn);
    live_in_backward[i] = kit_blocks();
    assert_false(hr_grad_mode());
    grad_in[0] = hr_tensor_retain(grad_out[0]);
    return HR_OK;
}

static void saved_bytes_go_before_the_next_function_runs(void **state)
{
    static const hr_function_class watch = {
        .name = "watch", .ctx_bytes = sizeof(int), .backward = watch_backward};
    hr_tensor *x = LEAF(1), *y = hr_tensor_retain(x);
    for (int i = 0; i < 3; i++) {
        hr_tensor *kept = KIT_TENSOR(1, 2, 3), *z = scaled(x, 1);
        hr_function *fn;
        kit_ok(hr_function_create(&watch, &y, 1, &fn));
        *(int *)hr_function_ctx(fn) = i;
        kit_ok(hr_function_save(fn, kept, NULL));
        kit_ok(hr_function_finish(fn, &z, 1));
        hr_tensor_release(kept);
        hr_tensor_release(y);
        y = z;
    }
    kit_ok(hr_backward(&y, NULL, 1));
    assert_true(hr_grad_mode());
    assert_int_equal(live_in_backward[1], live_in_backward[2] - 1);
    assert_int_equal(live_in_backward[0], live_in_backward[2] - 2);
    hr_tensor_release(y);
    hr_tensor_release(x);
}

/* What is saved and has its last claim here was read by the stream that runs backward: its
 * block must not be handed out on its home stream before that stream is through. */
static void saved_bytes_go_on_the_stream_of_backward(void **state)
{
    const int64_t one[1] = {1};
    hr_stream *other = kit_stream("other"), *home;
    hr_tensor *x = LEAF(2), *y = scale(x, 3), *z = scale(y, 1), *again;
    void *was = hr_tensor_data(y);
    sem_t gate;
    hr_tensor_release(y);
    kit_ok(hr_device_synchronize(kit_dev));
    hr_stream_enter(other, &home);
    kit_gate(other, &gate);
    kit_ok(hr_backward(&z, NULL, 1));
    hr_stream_exit(other, home);
    for (int i = 0; i < 3; i++) {
        kit_ok(hr_tensor_create(HR_F32, 1, one, &again));
        assert_ptr_not_equal(hr_tensor_data(again), was);
        hr_tensor_release(again);
    }
    sem_post(&gate);
    kit_ok(hr_device_synchronize(kit_dev));
    hr_tensor_release(x);
    hr_tensor_release(z);
    kit_ok(hr_device_synchronize(kit_dev));
    hr_stream_destroy(other);
}

static void the_probe_sees_roots_then_gradients(void **state)
{
    hr_tensor *x = LEAF(1), *y = scale(x, 2), *g = KIT_TENSOR(1);
    kit_probe(1);
    kit_ok(hr_backward(&y, &g, 1));
    assert_int_equal(kit_records, 1);
    assert_int_equal(kit_record[0].kind, HR_PROBE_RUN_BACKWARD);
    assert_int_equal(kit_record[0].value, 1);
    kit_probe(0);
    hr_tensor_release(x);
    hr_tensor_release(y);
    hr_tensor_release(g);
}

static hr_status nested_backward(hr_function *fn, hr_tensor *const *grad_out,
                                 hr_tensor **grad_in)
{
    hr_tensor *w = hr_function_input(fn, 1), *inner;
    bool mode = hr_grad_mode_set(true);
    inner = scale_as(w, 7, "inner", HR_OK); /* as a recomputed forward does */
    hr_grad_mode_set(mode);
    hr_status st = hr_backward(&inner, NULL, 1);
    KIT_EXPECT(hr_tensor_grad(w), 7); /* the inner pass ends before the outer goes on */
    hr_tensor_release(inner);
    grad_in[0] = hr_tensor_retain(grad_out[0]);
    grad_in[1] = hr_tensor_retain(grad_out[0]);
    return st;
}

static void a_backward_may_run_inside_another(void **state)
{
    static const hr_function_class nested = {.name = "nested",
                                             .backward = nested_backward};
    hr_function *fn;
    hr_tensor *w = LEAF(1), *x = scale(w, 2), *in[2] = {x, w}, *y = scaled(x, 1);
    kit_ok(hr_function_create(&nested, in, 2, &fn));
    kit_ok(hr_function_finish(fn, &y, 1));
    kit_ok(hr_backward(&y, NULL, 1));
    KIT_EXPECT(hr_tensor_grad(w), 10); /* 7 inside, 1 along w's own edge, 2 along x's */
    hr_tensor_release(w);
    hr_tensor_release(x);
    hr_tensor_release(y);
}

static void empty_gradients_pass(void **state)
{
    const int64_t none[2] = {0, 3};
    hr_tensor *x, *g;
    kit_ok(hr_tensor_zeros(HR_F32, 2, none, &x));
    kit_ok(hr_tensor_zeros(HR_F32, 2, none, &g));
    as_leaf(x);
    hr_tensor *y = pair(x, x);
    kit_ok(hr_backward(&y, &g, 1));
    assert_non_null(hr_tensor_grad(x)); /* zeros and not absent */
    assert_int_equal(hr_tensor_count(hr_tensor_grad(x)), 0);
    hr_tensor_release(x);
    hr_tensor_release(y);
    hr_tensor_release(g);
}

static void large_gradients_are_summed_to_the_last_element(void **state)
{
    enum { N = (1 << 14) * 2 + 5 };
    static float host[N];
    const int64_t n[1] = {N};
    hr_tensor *x, *g;
    kit_ok(hr_tensor_zeros(HR_F32, 1, n, &x));
    as_leaf(x);
    hr_tensor *y = pair(x, x);
    for (int i = 0; i < N; i++)
        host[i] = (float)i;
    kit_ok(hr_tensor_create(HR_F32, 1, n, &g));
    kit_ok(hr_tensor_write(g, host, sizeof host));
    kit_ok(hr_backward(&y, &g, 1));
    kit_ok(hr_tensor_read(hr_tensor_grad(x), host, sizeof host));
    for (int i = 0; i < N; i++)
        assert_true(host[i] == 2.0F * (float)i);
    hr_tensor_release(x);
    hr_tensor_release(y);
    hr_tensor_release(g);
}

static void a_graph_of_100000_functions_runs(void **state)
{
    enum { DEPTH = 100000 };
    hr_tensor *x = LEAF(1), *y = hr_tensor_retain(x);
    for (int i = 0; i < DEPTH; i++) {
        hr_tensor *z, *in[1] = {y};
        hr_function *fn;
        kit_ok(hr_tensor_alias(x, &z));
        kit_ok(hr_function_create(&pair_class, in, 1, &fn));
        kit_ok(hr_function_finish(fn, &z, 1));
        hr_tensor_release(y);
        y = z;
    }
    kit_ok(hr_backward(&y, NULL, 1));
    KIT_EXPECT(hr_tensor_grad(x), 1);
    hr_tensor_release(y);
    hr_tensor_release(x);
}

static void a_thousand_steps_leave_nothing_behind(void **state)
{
    hr_tensor *w = LEAF(1, 2), *g = KIT_TENSOR(1, 1), *buffer;
    kit_ok(hr_grad_buffer(w, &buffer));
    size_t live = kit_live(), peak = 0, idle = 0;
    hr_mem_stats stats;
    for (int step = 0; step < 1000; step++) {
        hr_mem_reset_peak(kit_dev);
        hr_tensor *y = scale(w, 2), *z = scale(y, 3), *p = pair(z, y);
        hr_tensor_drop(y, NULL);
        hr_tensor_release(z);
        kit_ok(hr_backward(&p, &g, 1));
        hr_tensor_release(p);
        hr_tensor_release(y);
        assert_int_equal(kit_live(), live);
        hr_mem_get_stats(kit_dev, &stats);
        assert_true(step == 0 || stats.peak_bytes == peak);
        peak = stats.peak_bytes;
        assert_true(step < 2 ||
                    hr__pool_idle() == idle); /* nothing malloc'ed or freed */
        idle = hr__pool_idle();
    }
    KIT_EXPECT(buffer, 8000, 8000);
    hr_tensor_release(w);
    hr_tensor_release(g);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, autograd_open, kit_close)
    const struct CMUnitTest tests[] = {
        T(a_chain_multiplies),
        T(no_gradient_means_one_for_one_element),
        T(gradients_of_two_uses_are_summed),
        T(one_handle_for_two_inputs_is_not_summed_in_place),
        T(the_newest_ready_function_runs_first),
        T(several_roots_run_as_one_pass),
        T(a_leaf_may_be_a_root),
        T(an_output_that_nothing_reached_has_no_gradient),
        T(nothing_comes_of_no_gradient),
        T(a_leaf_adopts_what_nobody_else_holds),
        T(a_leaf_copies_what_somebody_has_a_claim_on),
        T(a_leaf_adds_to_a_supplied_buffer),
        T(saved_bytes_go_as_they_are_used),
        T(saved_bytes_go_before_the_next_function_runs),
        T(saved_bytes_go_on_the_stream_of_backward),
        T(the_probe_sees_roots_then_gradients),
        T(a_backward_may_run_inside_another),
        T(empty_gradients_pass),
        T(large_gradients_are_summed_to_the_last_element),
        T(a_graph_of_100000_functions_runs),
        T(a_thousand_steps_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
