/* Delayed weight gradients: each item once, in order, with what it needs kept alive. */
#include "unit/autograd/autograd_kit.h"

static int ran[16], n_ran;

static hr_status note(const hr_wgrad_item *it)
{
    ran[n_ran++] = (int)it->arg[0];
    if (it->arg[1])
        return hr_fail(HR_ERR_CALLBACK, "callback", "%s fails on purpose", it->name);
    return HR_OK;
}

static hr_wgrad_queue *queue(void)
{
    hr_wgrad_queue *q;
    n_ran = 0;
    kit_ok(hr_wgrad_queue_create(&q));
    return q;
}

static void push(hr_wgrad_queue *q, int i, int fails)
{
    kit_ok(hr_wgrad_push(
        q, &(hr_wgrad_item){.run = note, .arg = {i, fails}, .name = "w"}));
}

static void items_run_once_in_order(void **state)
{
    hr_wgrad_queue *q = queue();
    assert_int_equal(hr_wgrad_pending(q), 0);
    for (int i = 0; i < 5; i++)
        push(q, i, 0);
    assert_int_equal(hr_wgrad_pending(q), 5);
    kit_ok(hr_wgrad_run(q));
    assert_int_equal(n_ran, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ran[i], i);
    assert_int_equal(hr_wgrad_pending(q), 0);
    push(q, 9, 0);
    kit_ok(hr_wgrad_run(q));
    assert_int_equal(ran[5], 9);
    hr_wgrad_queue_destroy(q);
}

static void an_empty_queue_is_an_error(void **state)
{
    hr_wgrad_queue *q = queue();
    kit_fails(hr_wgrad_run(q), HR_ERR_STATE, "wgrad_empty");
    push(q, 1, 0);
    kit_ok(hr_wgrad_run(q));
    kit_fails(hr_wgrad_run(q), HR_ERR_STATE, "wgrad_empty");
    kit_fails(hr_wgrad_run(NULL), HR_ERR_STATE, "wgrad_empty");
    kit_fails(hr_wgrad_push(q, &(hr_wgrad_item){.name = "no work"}), HR_ERR_INVALID,
              "wgrad");
    kit_fails(hr_wgrad_push(NULL, NULL), HR_ERR_INVALID, "wgrad");
    assert_int_equal(hr_wgrad_pending(NULL), 0);
    hr_wgrad_queue_destroy(NULL);
    hr_wgrad_queue_destroy(q);
}

static void a_failing_item_leaves_none_for_the_next_step(void **state)
{
    hr_wgrad_queue *q = queue();
    hr_tensor *t = KIT_TENSOR(1);
    push(q, 0, 0);
    push(q, 1, 1);
    kit_ok(hr_wgrad_push(q, &(hr_wgrad_item){.run = note, .tensor = {t}, .arg = {2}}));
    hr_tensor_release(t);
    kit_fails(hr_wgrad_run(q), HR_ERR_CALLBACK, "callback");
    assert_int_equal(n_ran, 2);
    assert_int_equal(hr_wgrad_pending(q), 0);
    assert_int_equal(kit_live(), 0);
    assert_true(hr_grad_mode());
    push(q, 7, 0); /* a clean step */
    kit_ok(hr_wgrad_run(q));
    assert_int_equal(n_ran, 3);
    assert_int_equal(ran[2], 7);
    hr_wgrad_queue_destroy(q);
}

static hr_status scale_into_buffer(const hr_wgrad_item *it)
{
    hr_tensor *g, *y;
    hr_status st = hr_tensor_check(it->tensor[0], "x");
    if (st >= 0)
        st = hr_grad_buffer(it->tensor[2], &g);
    if (st < 0)
        return st;
    y = scaled(it->tensor[0], (float)it->arg[0]);
    st = y ? hr_tensor_copy(g, y) : HR_ERR_NOMEM;
    hr_tensor_release(y);
    return st;
}

/* The activation's owner lets go before the work runs; the parameter finds its gradient. */
static void items_keep_bytes_and_parameters(void **state)
{
    hr_wgrad_queue *q = queue();
    hr_tensor *x = KIT_TENSOR(1, 2), *w = LEAF(0, 0);
    kit_ok(hr_wgrad_push(q, &(hr_wgrad_item){.run = scale_into_buffer,
                                             .tensor = {x, NULL, w},
                                             .arg = {3}}));
    hr_tensor_drop(x, NULL);
    hr_tensor_release(x);
    assert_int_equal(kit_blocks(), 2);
    kit_ok(hr_wgrad_run(q));
    KIT_EXPECT(hr_tensor_grad(w), 3, 6);
    assert_int_equal(kit_blocks(), 2); /* w and its gradient: x went with the item */
    assert_int_equal(hr_tensor_refs(w), 1);
    assert_int_equal(hr_storage_claims(hr_tensor_storage(w)), 1);
    hr_wgrad_queue_destroy(q);
    hr_tensor_release(w);
}

static void freed_bytes_cannot_be_queued(void **state)
{
    hr_wgrad_queue *q = queue();
    hr_tensor *x = KIT_TENSOR(1, 2), *gone = KIT_TENSOR(1);
    hr_tensor_drop(gone, NULL);
    hr_wgrad_item item = {.run = note, .tensor = {x, gone}, .name = "linear"};
    kit_fails(hr_wgrad_push(q, &item), HR_ERR_STATE, "freed");
    assert_non_null(strstr(hr_last_error(), "linear"));
    assert_int_equal(hr_wgrad_pending(q), 0);
    assert_int_equal(hr_storage_claims(hr_tensor_storage(x)), 1);
    hr_tensor_release(gone);
    hr_tensor_release(x);
    hr_wgrad_queue_destroy(q);
}

static void clear_and_destroy_drop_what_was_not_run(void **state)
{
    hr_wgrad_queue *q = queue();
    hr_tensor *x = KIT_TENSOR(1, 2);
    hr_wgrad_item item = {.run = note, .tensor = {x, x, x, x, x, x}};
    kit_ok(hr_wgrad_push(q, &item));
    hr_wgrad_clear(q);
    assert_int_equal(hr_storage_claims(hr_tensor_storage(x)), 1);
    kit_ok(hr_wgrad_push(q, &item));
    assert_int_equal(hr_wgrad_pending(q), 1);
    hr_tensor_release(x);
    hr_wgrad_queue_destroy(q);
    assert_int_equal(n_ran, 0);
    assert_int_equal(kit_live(), 0);
}

/* The work runs on another stream than its operands' home: they go at its position there. */
static void operands_go_on_the_stream_that_ran_them(void **state)
{
    const int64_t two[1] = {2};
    hr_wgrad_queue *q = queue();
    hr_stream *other = kit_stream("other"), *home;
    hr_tensor *x = KIT_TENSOR(1, 2), *w = LEAF(0, 0), *again;
    void *was = hr_tensor_data(x);
    sem_t gate;
    kit_ok(hr_wgrad_push(q, &(hr_wgrad_item){.run = scale_into_buffer,
                                             .tensor = {x, NULL, w},
                                             .arg = {3}}));
    hr_tensor_release(x);
    kit_ok(hr_device_synchronize(kit_dev));
    hr_stream_enter(other, &home);
    kit_gate(other, &gate);
    kit_ok(hr_wgrad_run(q));
    hr_stream_exit(other, home);
    kit_ok(hr_tensor_create(HR_F32, 1, two, &again));
    assert_ptr_not_equal(hr_tensor_data(again), was);
    kit_ok(hr_fill(home, hr_tensor_data(again), 0, hr_tensor_bytes(again)));
    sem_post(&gate);
    kit_ok(hr_device_synchronize(kit_dev));
    KIT_EXPECT(hr_tensor_grad(w), 3, 6);
    hr_tensor_release(again);
    hr_tensor_release(w);
    hr_wgrad_queue_destroy(q);
    kit_ok(hr_device_synchronize(kit_dev));
    hr_stream_destroy(other);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, autograd_open, kit_close)
    const struct CMUnitTest tests[] = {
        T(items_run_once_in_order),
        T(an_empty_queue_is_an_error),
        T(a_failing_item_leaves_none_for_the_next_step),
        T(items_keep_bytes_and_parameters),
        T(freed_bytes_cannot_be_queued),
        T(clear_and_destroy_drop_what_was_not_run),
        T(operands_go_on_the_stream_that_ran_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
