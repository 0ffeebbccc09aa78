/* Events: what a wait holds, what it does not, and when a record counts. */
#include "device_kit.h"

#include "device/host/host_device.h" /* how many entries a stream has queued */

typedef struct fixture {
    hr_device *dev;
    hr_stream *a, *b, *c;
    hr_event *e;
} fixture;

static fixture set_up(void)
{
    /* With poison every wait is queued, for the fills that the clocks do not see. */
    fixture f = {
        .dev = open_device(&(hr_device_opts){HR_INIT(hr_device_opts), .poison = -1})};
    f.a = hr_device_default_stream(f.dev);
    f.b = new_stream(f.dev, "b");
    f.c = new_stream(f.dev, "c");
    f.e = new_event(f.dev);
    return f;
}

static void tear_down(fixture *f)
{
    OK(hr_device_synchronize(f->dev));
    hr_device_close(f->dev);
}

static void wait_holds_only_its_own_stream(void **state)
{
    fixture f = set_up();
    gate g = GATE_INIT;
    run_log log = {0};
    launch_gate(f.a, &g);
    OK(hr_event_record(f.e, f.a));
    OK(hr_event_wait(f.e, f.b));
    launch_note(f.b, &log, 2);
    launch_note(f.c, &log, 1);
    OK(hr_stream_synchronize(f.c));
    assert_int_equal(hr_stream_query(f.b), HR_PENDING);
    assert_int_equal(hr_event_query(f.e), HR_PENDING);
    assert_int_equal(log.n, 1);
    open_gate(&g);
    OK(hr_stream_synchronize(f.b));
    assert_int_equal(log.n, 2);
    assert_int_equal(hr_event_query(f.e), HR_OK);
    tear_down(&f);
}

static void record_stands_for_all_queued_before_it_and_nothing_after(void **state)
{
    fixture f = set_up();
    gate later = GATE_INIT;
    run_log log = {0};
    for (int i = 0; i < 100; i++)
        launch_note(f.a, &log, i);
    OK(hr_event_record(f.e, f.a));
    launch_gate(f.a, &later);
    OK(hr_event_synchronize(f.e)); /* would hang if it waited for the gate */
    assert_int_equal(log.n, 100);
    open_gate(&later);
    tear_down(&f);
}

static void event_that_was_never_recorded_waits_for_nothing(void **state)
{
    fixture f = set_up();
    run_log log = {0};
    assert_int_equal(hr_event_query(f.e), HR_OK);
    OK(hr_event_synchronize(f.e));
    OK(hr_event_wait(f.e, f.b));
    launch_note(f.b, &log, 1);
    OK(hr_stream_synchronize(f.b));
    assert_int_equal(log.n, 1);
    tear_down(&f);
}

static void wait_takes_the_record_that_is_current_at_the_call(void **state)
{
    fixture f = set_up();
    gate first = GATE_INIT, second = GATE_INIT;
    run_log log = {0};
    launch_gate(f.a, &first);
    OK(hr_event_record(f.e, f.a));
    OK(hr_event_wait(f.e, f.b));
    launch_note(f.b, &log, 1);
    launch_gate(f.a, &second);
    OK(hr_event_record(f.e, f.a));
    OK(hr_event_wait(f.e, f.c));
    launch_note(f.c, &log, 2);
    open_gate(&first);
    OK(hr_stream_synchronize(f.b)); /* would hang if it took the second record */
    assert_int_equal(hr_stream_query(f.c), HR_PENDING);
    open_gate(&second);
    OK(hr_stream_synchronize(f.c));
    assert_int_equal(log.value[0], 1);
    assert_int_equal(log.value[1], 2);
    tear_down(&f);
}

static void record_on_another_stream_replaces_the_first(void **state)
{
    fixture f = set_up();
    gate g = GATE_INIT;
    launch_gate(f.a, &g);
    OK(hr_event_record(f.e, f.a));
    OK(hr_event_record(f.e, f.b));
    OK(hr_event_synchronize(f.e));
    OK(hr_event_wait(f.e, f.c));
    OK(hr_stream_synchronize(f.c));
    open_gate(&g);
    tear_down(&f);
}

static void order_passes_on_through_a_stream_without_launches(void **state)
{
    fixture f = set_up();
    hr_event *e2 = new_event(f.dev);
    gate g = GATE_INIT;
    run_log log = {0};
    launch_gate(f.a, &g);
    OK(hr_event_record(f.e, f.a));
    OK(hr_event_wait(f.e, f.b));
    OK(hr_event_record(e2, f.b));
    OK(hr_event_wait(e2, f.c));
    launch_note(f.c, &log, 1);
    assert_int_equal(hr_stream_query(f.c), HR_PENDING);
    assert_int_equal(hr_event_query(e2), HR_PENDING);
    open_gate(&g);
    OK(hr_stream_synchronize(f.c));
    tear_down(&f);
}

static void event_outlives_its_stream(void **state)
{
    fixture f = set_up();
    run_log log = {0};
    launch_note(f.b, &log, 1);
    OK(hr_event_record(f.e, f.b));
    hr_stream_destroy(f.b);
    OK(hr_event_query(f.e));
    OK(hr_event_synchronize(f.e));
    hr_stream *again = new_stream(f.dev, "again"); /* takes the place of b */
    gate g = GATE_INIT;
    launch_gate(again, &g);
    OK(hr_event_query(f.e));
    OK(hr_event_wait(f.e, f.c));
    OK(hr_stream_synchronize(f.c)); /* would hang if e meant the new stream */
    open_gate(&g);
    tear_down(&f);
}

static void waits_stay_when_their_event_is_destroyed(void **state)
{
    fixture f = set_up();
    gate g = GATE_INIT;
    run_log log = {0};
    launch_gate(f.a, &g);
    OK(hr_event_record(f.e, f.a));
    OK(hr_event_wait(f.e, f.b));
    hr_event_destroy(f.e);
    launch_note(f.b, &log, 1);
    assert_int_equal(hr_stream_query(f.b), HR_PENDING);
    open_gate(&g);
    OK(hr_stream_synchronize(f.b));
    hr_event_destroy(NULL);
    tear_down(&f);
}

static uint64_t queued(hr_stream *s)
{
    return ((hr__host_stream *)s)->head;
}

static void waits_that_order_nothing_new_are_not_queued(void **state)
{
    if (!test_on_host())
        skip(); /* other backends do not show what they have queued */
    fixture f = set_up();
    gate g = GATE_INIT;
    launch_gate(f.a, &g);
    uint64_t a = queued(f.a), b = queued(f.b);
    OK(hr_event_record(f.e, f.a));
    OK(hr_event_wait(f.e, f.a)); /* its own stream */
    assert_int_equal(queued(f.a), a);
    OK(hr_event_wait(f.e, f.b));
    assert_int_equal(queued(f.b), b + 1);
    OK(hr_event_wait(f.e, f.b)); /* once more */
    assert_int_equal(queued(f.b), b + 1);
    open_gate(&g);
    tear_down(&f);
}

static void events_stay_on_their_device(void **state)
{
    fixture f = set_up();
    hr_device *other;
    OK(hr_device_open(test_backend(),
                      &(hr_device_opts){HR_INIT(hr_device_opts), .rank = 3}, &other));
    hr_stream *foreign = hr_device_default_stream(other);
    assert_int_equal(hr_event_wait(f.e, foreign), HR_ERR_INVALID);
    assert_non_null(strstr(hr_last_error(), "rank 3"));
    assert_int_equal(hr_event_record(f.e, foreign), HR_ERR_INVALID);
    assert_int_equal(hr_event_record(NULL, f.a), HR_ERR_INVALID);
    assert_int_equal(hr_event_wait(f.e, NULL), HR_ERR_INVALID);
    assert_int_equal(hr_event_synchronize(NULL), HR_ERR_INVALID);
    assert_int_equal(hr_event_query(NULL), HR_ERR_INVALID);
    assert_int_equal(hr_event_create(NULL, &f.e), HR_ERR_INVALID);
    hr_device_close(other);
    tear_down(&f);
}

struct seen {
    int n;
    hr_probe_record r[16];
};

static void see(void *ctx, const hr_probe_record *r)
{
    struct seen *seen = ctx;
    if (seen->n < 16)
        seen->r[seen->n++] = *r;
}

static void probe_sees_steps_before_they_are_elided(void **state)
{
    fixture f = set_up();
    struct seen seen = {0};
    hr_stream *made, *before;
    int least, greatest;
    hr_probe_set(see, &seen);
    OK(hr_event_wait(f.e, f.a)); /* never recorded */
    OK(hr_event_record(f.e, f.a));
    OK(hr_event_wait(f.e, f.a)); /* its own stream */
    hr_stream_enter(f.b, &before);
    hr_stream_enter(NULL, NULL); /* nothing to see */
    hr_stream_exit(f.b, before);
    hr_device_priority_range(f.dev, &least, &greatest);
    OK(hr_stream_create(
        f.dev, &(hr_stream_opts){HR_INIT(hr_stream_opts), .priority = -2}, &made));
    hr_probe_set(NULL, NULL);
    const hr_probe_kind kinds[] = {
        HR_PROBE_WAIT, HR_PROBE_RECORD,         HR_PROBE_WAIT,      HR_PROBE_ENTER,
        HR_PROBE_EXIT, HR_PROBE_PRIORITY_RANGE, HR_PROBE_NEW_STREAM};
    assert_int_equal(seen.n, 7);
    for (int i = 0; i < 7; i++)
        assert_int_equal(seen.r[i].kind, kinds[i]);
    assert_ptr_equal(seen.r[0].a, f.e);
    assert_ptr_equal(seen.r[0].b, f.a);
    assert_ptr_equal(seen.r[3].a, f.b);
    assert_int_equal(seen.r[5].value, 0);
    assert_int_equal(seen.r[5].extra, -5);
    assert_ptr_equal(seen.r[6].a, made);
    assert_int_equal(seen.r[6].value, -2);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wait_holds_only_its_own_stream),
        cmocka_unit_test(record_stands_for_all_queued_before_it_and_nothing_after),
        cmocka_unit_test(event_that_was_never_recorded_waits_for_nothing),
        cmocka_unit_test(wait_takes_the_record_that_is_current_at_the_call),
        cmocka_unit_test(record_on_another_stream_replaces_the_first),
        cmocka_unit_test(order_passes_on_through_a_stream_without_launches),
        cmocka_unit_test(event_outlives_its_stream),
        cmocka_unit_test(waits_stay_when_their_event_is_destroyed),
        cmocka_unit_test(waits_that_order_nothing_new_are_not_queued),
        cmocka_unit_test(events_stay_on_their_device),
        cmocka_unit_test(probe_sees_steps_before_they_are_elided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
