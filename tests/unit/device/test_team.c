/* The team of a launch: every part once, the least failure, busy teams. */
#include "device_kit.h"

enum { PARTS = 5000 };

struct parts {
    int n;
    atomic_int runs[PARTS];
    int fail_from; /* parts from here on fail; -1: none */
    gate *hold;    /* part 0 stops here */
};

static hr_status run_part(void *arg, int i)
{
    struct parts *p = arg;
    if (i == 0 && p->hold)
        pass_gate(&p->hold, NULL);
    atomic_fetch_add(&p->runs[i], 1);
    if (p->fail_from >= 0 && i >= p->fail_from)
        return hr_fail(HR_ERR_CALLBACK, "part", "part %d fails", i);
    return HR_OK;
}

static hr_status run_parts(const void *args, hr_team *team)
{
    struct parts *p = *(struct parts *const *)args;
    return hr_team_run(team, p->n, run_part, p);
}

static struct parts *new_parts(int n)
{
    struct parts *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->n = n;
    p->fail_from = -1;
    return p;
}

static void launch_parts(hr_stream *s, struct parts *p)
{
    OK(hr_launch(s, "parts", run_parts, &p, sizeof p, NULL, 0));
}

static void check_and_free(struct parts *p, int each)
{
    for (int i = 0; i < PARTS; i++)
        assert_int_equal(p->runs[i], i < p->n ? each : 0);
    free(p);
}

static void each_part_runs_once_whatever_the_cores(void **state)
{
    for (int cores = 1; cores <= 4; cores++) {
        hr_device *dev =
            open_device(&(hr_device_opts){HR_INIT(hr_device_opts), .cores = cores});
        assert_int_equal(hr_device_cores(dev), cores);
        for (int n = 0; n <= PARTS; n = n * 3 + 1) {
            struct parts *p = new_parts(n);
            launch_parts(hr_stream_current(), p);
            launch_parts(hr_stream_current(), p);
            OK(hr_device_synchronize(dev));
            check_and_free(p, 2);
        }
        hr_device_close(dev);
    }
}

static void many_short_jobs_do_not_mix(void **state)
{
    enum { JOBS = 3000 };
    hr_device *dev =
        open_device(&(hr_device_opts){HR_INIT(hr_device_opts), .cores = 3});
    struct parts *p = new_parts(7);
    for (int i = 0; i < JOBS; i++)
        launch_parts(hr_stream_current(), p);
    OK(hr_device_synchronize(dev));
    check_and_free(p, JOBS);
    hr_device_close(dev);
}

/* A helper that comes late to a small job must not take the next one, which is larger, for it. */
static void jobs_of_different_sizes_do_not_mix(void **state)
{
    enum { JOBS = 20000, SIZES = 3 };
    hr_device *dev =
        open_device(&(hr_device_opts){HR_INIT(hr_device_opts), .cores = 3});
    struct parts *p[SIZES] = {new_parts(2), new_parts(9), new_parts(30)};
    for (int i = 0; i < JOBS; i++)
        launch_parts(hr_stream_current(), p[i % SIZES]);
    OK(hr_device_synchronize(dev));
    for (int k = 0; k < SIZES; k++)
        check_and_free(p[k], (JOBS + SIZES - 1 - k) / SIZES);
    hr_device_close(dev);
}

static void failure_of_the_least_part_is_returned_and_all_run(void **state)
{
    for (int cores = 1; cores <= 3; cores++) {
        hr_device *dev =
            open_device(&(hr_device_opts){HR_INIT(hr_device_opts), .cores = cores});
        struct parts *p = new_parts(100);
        p->fail_from = 40;
        launch_parts(hr_stream_current(), p);
        assert_int_equal(hr_device_synchronize(dev), HR_ERR_CALLBACK);
        assert_non_null(strstr(hr_last_error(), "part 40 fails"));
        assert_string_equal(hr_last_reason(), "part");
        check_and_free(p, 1);
        hr_device_close(dev);
    }
}

/* Two parts that meet, so that each runs on a thread of its own; the helper's fails. */
struct pair {
    pthread_barrier_t both;
    pthread_t own; /* the launching stream's */
    bool says_why;
};

static hr_status fail_on_the_helper(void *arg, int i)
{
    struct pair *p = arg;
    pthread_barrier_wait(&p->both);
    if (pthread_equal(pthread_self(), p->own))
        return HR_OK;
    return p->says_why ? hr_fail(HR_ERR_CALLBACK, "part", "first words")
                       : HR_ERR_CALLBACK;
}

static hr_status run_pair(const void *args, hr_team *team)
{
    struct pair *p = *(struct pair *const *)args;
    p->own = pthread_self();
    return hr_team_run(team, 2, fail_on_the_helper, p);
}

static void a_part_does_not_fail_with_the_words_of_an_earlier_one(void **state)
{
    hr_device *dev =
        open_device(&(hr_device_opts){HR_INIT(hr_device_opts), .cores = 2});
    struct pair pair = {.says_why = true}, *p = &pair;
    pthread_barrier_init(&pair.both, NULL, 2);
    OK(hr_launch(hr_stream_current(), "pair", run_pair, &p, sizeof p, NULL, 0));
    assert_int_equal(hr_device_synchronize(dev), HR_ERR_CALLBACK);
    assert_non_null(strstr(hr_last_error(), "first words"));
    hr_device_reset(dev);
    pair.says_why = false;
    OK(hr_launch(hr_stream_current(), "pair", run_pair, &p, sizeof p, NULL, 0));
    assert_int_equal(hr_device_synchronize(dev), HR_ERR_CALLBACK);
    assert_null(strstr(hr_last_error(), "first words"));
    assert_string_equal(hr_last_reason(), "");
    hr_device_close(dev);
    pthread_barrier_destroy(&pair.both);
}

static void busy_team_leaves_a_launch_to_its_own_thread(void **state)
{
    hr_device *dev =
        open_device(&(hr_device_opts){HR_INIT(hr_device_opts), .cores = 2});
    hr_stream *b = new_stream(dev, "b");
    gate g = GATE_INIT;
    struct parts *p = new_parts(100), *q = new_parts(100);
    p->hold = &g;
    launch_parts(hr_stream_current(), p);
    await_gate(&g);
    launch_parts(b, q);
    OK(hr_stream_synchronize(b)); /* would hang if it waited for the team */
    open_gate(&g);
    OK(hr_device_synchronize(dev));
    check_and_free(p, 1);
    check_and_free(q, 1);
    hr_device_close(dev);
}

static void work_without_a_team_runs_on_the_caller(void **state)
{
    struct parts *p = new_parts(10);
    OK(hr_team_run(NULL, p->n, run_part, p));
    OK(hr_team_run(NULL, 0, run_part, p));
    assert_int_equal(hr_team_run(NULL, -1, run_part, p), HR_ERR_INVALID);
    assert_int_equal(hr_team_run(NULL, 1, NULL, p), HR_ERR_INVALID);
    check_and_free(p, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_runs_once_whatever_the_cores),
        cmocka_unit_test(many_short_jobs_do_not_mix),
        cmocka_unit_test(jobs_of_different_sizes_do_not_mix),
        cmocka_unit_test(failure_of_the_least_part_is_returned_and_all_run),
        cmocka_unit_test(a_part_does_not_fail_with_the_words_of_an_earlier_one),
        cmocka_unit_test(busy_team_leaves_a_launch_to_its_own_thread),
        cmocka_unit_test(work_without_a_team_runs_on_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
