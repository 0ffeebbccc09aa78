/* Failure: the first cause wins, the rest is skipped, everybody hears it, reset forgets it. */
#include "device_kit.h"

static void first_failure_is_the_cause_and_names_its_launch(void **state)
{
    hr_device *dev = open_device(&(hr_device_opts){HR_INIT(hr_device_opts), .rank = 4});
    hr_stream *b = new_stream(dev, "comm");
    OK(hr_device_status(dev));
    hr_span_begin(b, &(hr_mark){"mlp", 2, 1, HR_DIR_FORWARD});
    launch_failure(b, 17);
    hr_span_end(b);
    launch_failure(b, 18);
    hr_error_clear();
    assert_int_equal(hr_stream_synchronize(b), HR_ERR_CALLBACK);
    assert_non_null(strstr(hr_last_error(), "part 17 is broken"));
    assert_non_null(strstr(hr_last_error(), "rank 4"));
    assert_non_null(strstr(hr_last_error(), "'comm'"));
    assert_non_null(strstr(hr_last_error(), "'breaker'"));
    assert_non_null(strstr(hr_last_error(), "'mlp'"));
    assert_string_equal(hr_last_reason(), "broken");
    hr_device_close(dev);
}

static void later_launches_are_skipped_and_events_complete(void **state)
{
    hr_device *dev = open_device(NULL);
    hr_stream *a = hr_stream_current(), *b = new_stream(dev, "b");
    hr_event *e = new_event(dev);
    run_log log = {0};
    launch_failure(a, 1);
    launch_note(a, &log, 1);
    OK(hr_event_record(e, a));
    OK(hr_event_wait(e, b));
    launch_note(b, &log, 2);
    assert_int_equal(hr_event_synchronize(e), HR_ERR_CALLBACK);
    assert_int_equal(hr_event_query(e), HR_ERR_CALLBACK);
    assert_int_equal(hr_stream_synchronize(b), HR_ERR_CALLBACK); /* not its own */
    assert_int_equal(hr_stream_query(b), HR_ERR_CALLBACK);
    assert_int_equal(hr_device_synchronize(dev), HR_ERR_CALLBACK);
    assert_int_equal(hr_device_status(dev), HR_ERR_CALLBACK);
    assert_int_equal(log.n, 0);
    void *p;
    OK(hr_mem_alloc(b, 100, &p)); /* still possible, for an orderly end */
    hr_mem_free(p, b);
    hr_device_close(dev);
}

static void reset_forgets_the_failure(void **state)
{
    hr_device *dev = open_device(NULL);
    hr_stream *s = hr_stream_current();
    run_log log = {0};
    launch_failure(s, 1);
    hr_device_reset(dev);
    OK(hr_device_status(dev));
    launch_note(s, &log, 1);
    OK(hr_device_synchronize(dev));
    assert_int_equal(log.n, 1);
    launch_failure(s, 2);
    assert_int_equal(hr_device_synchronize(dev), HR_ERR_CALLBACK);
    assert_non_null(strstr(hr_last_error(), "part 2"));
    hr_device_close(dev);
}

static void count(void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
}

static void hooks_run_once_a_failure_until_taken_off(void **state)
{
    hr_device *dev = open_device(NULL);
    hr_stream *a = hr_stream_current(), *b = new_stream(dev, "b");
    atomic_int kept = 0, off = 0;
    OK(hr_device_on_fail(dev, count, &off));
    OK(hr_device_on_fail(dev, count, &kept));
    hr_device_off_fail(dev, count, &off);
    for (int i = 0; i < 50; i++) {
        launch_failure(a, i);
        launch_failure(b, i);
    }
    assert_int_equal(hr_device_synchronize(dev), HR_ERR_CALLBACK);
    assert_int_equal(kept, 1);
    assert_int_equal(off, 0);
    hr_device_reset(dev);
    launch_failure(b, 1);
    assert_int_equal(hr_device_synchronize(dev), HR_ERR_CALLBACK);
    assert_int_equal(kept, 2);
    assert_int_equal(hr_device_on_fail(dev, NULL, NULL), HR_ERR_INVALID);
    hr_device_close(dev);
}

static void any_thread_may_fail_the_device(void **state)
{
    hr_device *dev = open_device(NULL);
    atomic_int hooks = 0;
    OK(hr_device_on_fail(dev, count, &hooks));
    hr_device_fail(dev, HR_OK); /* no failure */
    OK(hr_device_status(dev));
    hr_device_fail(dev, hr_fail(HR_ERR_TIMEOUT, "peer", "rank 1 waits for rank 0"));
    hr_device_fail(dev, hr_fail(HR_ERR_IO, NULL, "too late"));
    assert_int_equal(hooks, 1);
    hr_error_clear();
    assert_int_equal(hr_device_status(dev), HR_ERR_TIMEOUT);
    assert_string_equal(hr_last_error(), "rank 1 waits for rank 0");
    assert_string_equal(hr_last_reason(), "peer");
    hr_device_close(dev);
}

static hr_status run_silent_failure(const void *args, hr_team *team)
{
    return HR_ERR_IO;
}

static void failure_without_words_gets_those_of_its_status(void **state)
{
    hr_device *dev = open_device(NULL);
    hr_stream *s = hr_stream_current();
    launch_failure(s, 5); /* leaves a sentence with the stream's thread */
    hr_device_reset(dev);
    OK(hr_launch(s, "silent", run_silent_failure, NULL, 0, NULL, 0));
    assert_int_equal(hr_stream_synchronize(s), HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), hr_status_text(HR_ERR_IO)));
    assert_null(strstr(hr_last_error(), "part 5"));
    hr_device_close(dev);
}

static void *open_fail_close(void *arg)
{
    hr_device *dev;
    if (hr_device_open(test_backend(), NULL, &dev) < 0)
        return NULL;
    int part = *(int *)arg;
    hr_stream *s = hr_device_default_stream(dev);
    if (hr_launch(s, "breaker", run_failure, &part, sizeof part, NULL, 0) < 0 ||
        hr_stream_synchronize(s) >= 0 || !strstr(hr_last_error(), "is broken"))
        part = -1;
    hr_device_close(dev);
    *(int *)arg = part;
    return NULL;
}

static void devices_fail_apart(void **state)
{
    enum { N = 4 };
    pthread_t t[N];
    int part[N];
    hr_device *dev = open_device(NULL);
    for (int i = 0; i < N; i++) {
        part[i] = i;
        assert_int_equal(pthread_create(&t[i], NULL, open_fail_close, &part[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(part[i], i);
    }
    OK(hr_device_synchronize(dev));
    hr_device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_failure_is_the_cause_and_names_its_launch),
        cmocka_unit_test(later_launches_are_skipped_and_events_complete),
        cmocka_unit_test(reset_forgets_the_failure),
        cmocka_unit_test(hooks_run_once_a_failure_until_taken_off),
        cmocka_unit_test(any_thread_may_fail_the_device),
        cmocka_unit_test(failure_without_words_gets_those_of_its_status),
        cmocka_unit_test(devices_fail_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
