/* Streams: order within one, none across, waiting, limits, the current one. */
#include "device_kit.h"

static void launches_run_in_issue_order(void **state)
{
    hr_device *dev = open_device(NULL);
    run_log log = {0};
    for (int i = 0; i < 3000; i++)
        launch_note(hr_stream_current(), &log, i);
    OK(hr_stream_synchronize(hr_stream_current()));
    assert_int_equal(log.n, 3000);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(log.value[i], i);
    hr_device_close(dev);
}

static void streams_run_independently(void **state)
{
    hr_device *dev = open_device(NULL);
    hr_stream *other = new_stream(dev, "other");
    gate g = GATE_INIT;
    run_log log = {0};
    launch_gate(hr_stream_current(), &g);
    launch_note(other, &log, 7);
    OK(hr_stream_synchronize(other)); /* would hang if it waited for the gate */
    assert_int_equal(log.value[0], 7);
    assert_int_equal(hr_stream_query(hr_stream_current()), HR_PENDING);
    open_gate(&g);
    OK(hr_device_synchronize(dev));
    assert_int_equal(hr_stream_query(hr_stream_current()), HR_OK);
    hr_device_close(dev);
}

static hr_status sum_args(const void *args, hr_team *team)
{
    const struct {
        atomic_long *out;
        unsigned char bytes[HR_LAUNCH_ARGS - sizeof(void *)];
    } *a = args;
    long sum = (uintptr_t)args % 16 ? 1000000 : 0;
    for (size_t i = 0; i < sizeof a->bytes; i++)
        sum += a->bytes[i];
    atomic_store(a->out, sum);
    return HR_OK;
}

static void arguments_are_copied_and_aligned(void **state)
{
    hr_device *dev = open_device(NULL);
    gate g = GATE_INIT;
    atomic_long out = -1;
    struct {
        atomic_long *out;
        unsigned char bytes[HR_LAUNCH_ARGS - sizeof(void *)];
    } a = {.out = &out};
    memset(a.bytes, 2, sizeof a.bytes);
    launch_gate(hr_stream_current(), &g);
    OK(hr_launch(hr_stream_current(), "sum", sum_args, &a, sizeof a, NULL, 0));
    memset(a.bytes, 9, sizeof a.bytes);
    open_gate(&g);
    OK(hr_device_synchronize(dev));
    assert_int_equal(out, 2 * (long)sizeof a.bytes);
    hr_device_close(dev);
}

struct issue {
    hr_stream *s;
    run_log *log;
    atomic_int issued;
};

static void *issue_many(void *arg)
{
    struct issue *is = arg;
    struct note_args a = {is->log, 0};
    for (int i = 0; i < 2000; i++) {
        if (hr_launch(is->s, "note", run_note, &a, sizeof a, NULL, 0) < 0)
            return NULL;
        atomic_fetch_add(&is->issued, 1);
    }
    return NULL;
}

static void full_queue_blocks_the_issuer_until_there_is_room(void **state)
{
    hr_device *dev = open_device(NULL);
    gate g = GATE_INIT;
    run_log log = {0};
    struct issue is = {.s = hr_stream_current(), .log = &log};
    pthread_t t;
    launch_gate(is.s, &g);
    await_gate(&g);
    assert_int_equal(pthread_create(&t, NULL, issue_many, &is), 0);
    while (atomic_load(&is.issued) < 1000)
        sched_yield();
    assert_int_equal(log.n, 0);
    open_gate(&g);
    pthread_join(t, NULL);
    OK(hr_stream_synchronize(is.s));
    assert_int_equal(log.n, 2000);
    hr_device_close(dev);
}

static void launch_blocking_has_run_before_it_returns(void **state)
{
    hr_device *dev =
        open_device(&(hr_device_opts){HR_INIT(hr_device_opts), .launch_blocking = 1});
    run_log log = {0};
    for (int i = 0; i < 100; i++) {
        launch_note(hr_stream_current(), &log, i);
        assert_int_equal(log.n, i + 1);
    }
    hr_device_close(dev);

    setenv("HEADRACE_LAUNCH_BLOCKING", "1", 1);
    dev = open_device(NULL);
    unsetenv("HEADRACE_LAUNCH_BLOCKING");
    launch_note(hr_stream_current(), &log, 0);
    assert_int_equal(log.n, 101);
    hr_device_close(dev);
}

static void bad_launches_are_refused(void **state)
{
    hr_device *dev = open_device(NULL);
    hr_stream *s = hr_stream_current();
    char args[HR_LAUNCH_ARGS + 1] = {0};
    hr_operand op = {args, 1, HR_READ};
    assert_int_equal(hr_launch(NULL, "x", run_note, NULL, 0, NULL, 0), HR_ERR_INVALID);
    assert_int_equal(hr_launch(s, NULL, run_note, NULL, 0, NULL, 0), HR_ERR_INVALID);
    assert_int_equal(hr_launch(s, "x", NULL, NULL, 0, NULL, 0), HR_ERR_INVALID);
    assert_int_equal(hr_launch(s, "x", run_note, NULL, 8, NULL, 0), HR_ERR_INVALID);
    assert_int_equal(hr_launch(s, "x", run_note, NULL, 0, NULL, 1), HR_ERR_INVALID);
    assert_int_equal(hr_launch(s, "x", run_note, NULL, 0, &op, -1), HR_ERR_INVALID);
    assert_int_equal(hr_launch(s, "big", run_note, args, sizeof args, NULL, 0),
                     HR_ERR_INVALID);
    assert_non_null(strstr(hr_last_error(), "129"));
    assert_non_null(strstr(hr_last_error(), "128"));
    assert_int_equal(hr_copy(s, NULL, args, 1), HR_ERR_INVALID);
    assert_int_equal(hr_fill(s, NULL, 0, 1), HR_ERR_INVALID);
    assert_int_equal(hr_stream_synchronize(NULL), HR_ERR_INVALID);
    assert_int_equal(hr_device_synchronize(NULL), HR_ERR_INVALID);
    OK(hr_device_synchronize(dev)); /* none of it failed the device */
    hr_device_close(dev);
}

static void copy_and_fill_run_in_order(void **state)
{
    hr_device *dev = open_device(NULL);
    hr_stream *s = hr_stream_current();
    enum { BYTES = 64 };
    char before[BYTES] = "before";
    void *a, *b;
    gate g = GATE_INIT;
    OK(hr_mem_alloc(s, BYTES, &a));
    OK(hr_mem_alloc(s, BYTES, &b));
    OK(hr_copy(s, a, before, BYTES));
    OK(hr_fill(s, b, 0, BYTES));
    OK(hr_stream_synchronize(s));
    launch_gate(s, &g);
    OK(hr_fill(s, a, 'x', 5));
    OK(hr_copy(s, b, a, BYTES));
    OK(hr_fill(s, a, 0, BYTES));
    OK(hr_copy(s, NULL, NULL, 0));
    assert_string_equal(b, "");
    open_gate(&g);
    OK(hr_stream_synchronize(s));
    assert_string_equal(b, "xxxxxe");
    assert_string_equal(a, "");
    hr_mem_free(a, s);
    hr_mem_free(b, s);
    hr_device_close(dev);
}

static void one_more_than_the_most_streams_is_refused(void **state)
{
    hr_device *dev = open_device(NULL);
    hr_stream *s[HR_MAX_STREAMS], *extra = (hr_stream *)dev;
    for (int i = 1; i < HR_MAX_STREAMS; i++)
        s[i] = new_stream(dev, "many");
    assert_int_equal(hr_stream_create(dev, NULL, &extra), HR_ERR_INVALID);
    assert_null(extra);
    hr_stream_destroy(s[5]);
    OK(hr_stream_create(dev, NULL, &extra)); /* its place can be had again */
    run_log log = {0};
    launch_note(extra, &log, 3);
    OK(hr_stream_synchronize(extra));
    assert_int_equal(log.n, 1);
    hr_device_close(dev); /* takes all of them along */
}

static void priority_is_clamped_to_the_range(void **state)
{
    hr_device *dev = open_device(NULL);
    int least = 1, greatest = 1;
    hr_device_priority_range(dev, &least, &greatest);
    assert_int_equal(least, 0);
    assert_int_equal(greatest, -5);
    hr_stream *s;
    OK(hr_stream_create(
        dev, &(hr_stream_opts){HR_INIT(hr_stream_opts), .priority = -99}, &s));
    assert_int_equal(hr_stream_priority(s), -5);
    assert_string_equal(hr_stream_name(s), "stream");
    OK(hr_stream_synchronize(s)); /* runs with or without the right to be urgent */
    OK(hr_stream_create(dev, &(hr_stream_opts){HR_INIT(hr_stream_opts), .priority = 9},
                        &s));
    assert_int_equal(hr_stream_priority(s), 0);
    assert_int_equal(hr_stream_create(dev, &(hr_stream_opts){.size = 1}, &s),
                     HR_ERR_INVALID);
    hr_device_close(dev);
}

static void entering_a_stream_makes_it_current_until_exit(void **state)
{
    assert_null(hr_stream_current());
    hr_device *dev = open_device(NULL);
    hr_stream *s = new_stream(dev, "s"), *before, *inner;
    assert_ptr_equal(hr_stream_current(), hr_device_default_stream(dev));
    hr_stream_enter(s, &before);
    assert_ptr_equal(before, hr_device_default_stream(dev));
    hr_stream_enter(NULL, &inner);
    assert_ptr_equal(inner, s);
    assert_ptr_equal(hr_stream_current(), s);
    hr_stream_exit(NULL, inner);
    assert_ptr_equal(hr_stream_current(), s);
    hr_stream_exit(s, before);
    assert_ptr_equal(hr_stream_current(), hr_device_default_stream(dev));
    hr_device_close(dev);
    assert_null(hr_device_current());
}

static void close_waits_for_queued_work(void **state)
{
    hr_device *dev = open_device(NULL);
    hr_stream *s = new_stream(dev, "s");
    run_log log = {0};
    for (int i = 0; i < 500; i++)
        launch_note(s, &log, i);
    hr_device_close(dev);
    assert_int_equal(log.n, 500);
    hr_device_close(NULL);
    hr_stream_destroy(NULL);
}

static void unknown_backends_are_named(void **state)
{
    hr_device *dev = (hr_device *)&dev;
    assert_int_equal(hr_device_open("tpu", NULL, &dev), HR_ERR_INVALID);
    assert_null(dev);
    assert_non_null(strstr(hr_last_error(), "tpu"));
    assert_int_equal(hr_device_open(NULL, NULL, &dev), HR_ERR_INVALID);
    assert_int_equal(hr_device_open("host", &(hr_device_opts){.size = 3}, &dev),
                     HR_ERR_INVALID);
    assert_int_equal(
        hr_device_open("host", &(hr_device_opts){HR_INIT(hr_device_opts), .cores = -1},
                       &dev),
        HR_ERR_INVALID);
    assert_int_equal(hr_device_open("host", NULL, NULL), HR_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_run_in_issue_order),
        cmocka_unit_test(streams_run_independently),
        cmocka_unit_test(arguments_are_copied_and_aligned),
        cmocka_unit_test(full_queue_blocks_the_issuer_until_there_is_room),
        cmocka_unit_test(launch_blocking_has_run_before_it_returns),
        cmocka_unit_test(bad_launches_are_refused),
        cmocka_unit_test(copy_and_fill_run_in_order),
        cmocka_unit_test(one_more_than_the_most_streams_is_refused),
        cmocka_unit_test(priority_is_clamped_to_the_range),
        cmocka_unit_test(entering_a_stream_makes_it_current_until_exit),
        cmocka_unit_test(close_waits_for_queued_work),
        cmocka_unit_test(unknown_backends_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
