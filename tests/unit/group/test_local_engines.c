/* The manners of the local engine, by name: what each promises beyond the rules of groups, which
 * tests/conform/group holds all of them to. What is read late is in test_local_late.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/try.h"
#include "group/local/local_manner.h"
#include "headrace/group.h"
#include "support/holds.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static hr_status sync(void)
{
    return hr_stream_synchronize(hr_stream_current());
}

static hr_status send_to(hr_group *g, int peer, int *x)
{
    hr_p2p op = {.send = true, .peer = peer, .buf = x, .bytes = sizeof *x};
    return hr_group_batch(g, &op, 1, hr_stream_current());
}

static hr_status receive_from(hr_group *g, int peer, int *x)
{
    hr_p2p op = {.peer = peer, .buf = x, .bytes = sizeof *x};
    return hr_group_batch(g, &op, 1, hr_stream_current());
}

static void runs(const char *engine, int n, hr_rank_fn fn, void *arg)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .engine = engine, .timeout_s = 60};
    hr_status st = hr_local_run(n, &o, fn, arg);
    if (st != HR_OK)
        print_error("%s: %s\n", engine ? engine : "NULL", hr_last_error());
    assert_int_equal(st, HR_OK);
}

/* ---- names ---- */
static hr_status write_name(hr_group *g, void *arg)
{
    hr_group *part;
    HR_TRY(hr_group_create(g, NULL, 0, &part));
    HOLDS(strcmp(hr_group_engine(part), hr_group_engine(g)) == 0);
    if (hr_group_rank(g) == 0)
        snprintf(arg, 32, "%s", hr_group_engine(g));
    hr_group_release(part);
    return HR_OK;
}

static void every_engine_of_the_list_runs_under_its_name(void **state)
{
    int n = 0;
    for (const char *name; (name = hr_local_engine_name(n)); n++) {
        char said[32] = "";
        runs(name, 2, write_name, said);
        assert_string_equal(said, name);
    }
    assert_int_equal(n, 5);
    assert_null(hr_local_engine_name(-1));
}

static void an_unknown_name_is_refused_with_the_list(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .engine = "locally"};
    assert_int_equal(hr_local_run(2, &o, write_name, NULL), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "group_engine");
    assert_non_null(strstr(hr_last_error(), "no engine 'locally'"));
    for (int i = 0; hr_local_engine_name(i); i++)
        assert_non_null(strstr(hr_last_error(), hr_local_engine_name(i)));
    o = (hr_local_opts){HR_INIT(hr_local_opts), .delay_us = -1};
    assert_int_equal(hr_local_run(2, &o, write_name, NULL), HR_ERR_INVALID);
}

static void the_environment_names_the_engine_where_the_options_do_not(void **state)
{
    char said[32] = "";
    runs(NULL, 1, write_name, said);
    assert_string_equal(said, "local");
    setenv("HEADRACE_GROUP_ENGINE", "local-buffered", 1);
    runs(NULL, 1, write_name, said);
    assert_string_equal(said, "local-buffered");
    runs("local-late", 1, write_name, said);
    assert_string_equal(said, "local-late");
    setenv("HEADRACE_GROUP_ENGINE", "locally", 1);
    assert_int_equal(hr_local_run(1, NULL, write_name, said), HR_ERR_INVALID);
    unsetenv("HEADRACE_GROUP_ENGINE");
}

/* ---- when a send ends ---- */
/* Rank 1 posts its receive only after rank 0 has looked, or waited. */
struct meeting {
    bool waits;
    atomic_int looked;
};

static hr_status look_first(hr_group *g, void *arg)
{
    struct meeting *m = arg;
    int x = 7, y = 0;
    if (hr_group_rank(g) == 1) {
        while (!atomic_load(&m->looked))
            sched_yield();
        HR_TRY(receive_from(g, 0, &y));
        HR_TRY(sync());
        HOLDS(y == 7);
        return HR_OK;
    }
    HR_TRY(send_to(g, 1, &x));
    if (m->waits) {
        HR_TRY(sync());
        x = 8; /* it is the caller's again */
    } else
        for (int i = 0; i < 1000; i++) {
            HOLDS(hr_stream_query(hr_stream_current()) == HR_PENDING);
            sched_yield();
        }
    atomic_store(&m->looked, 1);
    return sync();
}

static void a_rendezvous_send_ends_after_its_receive(void **state)
{
    static const char *const names[] = {"local", "local-rendezvous", "local-delays",
                                        "local-late"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        runs(names[i], 2, look_first, &(struct meeting){.waits = false});
}

static void a_buffered_send_ends_without_its_receive(void **state)
{
    runs("local-buffered", 2, look_first, &(struct meeting){.waits = true});
}

/* Both send before they receive, in batches of their own. */
static hr_status head_to_head(hr_group *g, void *arg)
{
    int me = hr_group_rank(g), x = 10 + me, y = 0;
    HR_TRY(send_to(g, 1 - me, &x));
    HR_TRY(receive_from(g, 1 - me, &y));
    HR_TRY(sync());
    HOLDS(y == 11 - me);
    return HR_OK;
}

static void
code_that_relies_on_buffering_passes_on_one_and_is_named_by_the_others(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 0.2};
    runs("local-buffered", 2, head_to_head, NULL);
    o.engine = "local-rendezvous";
    assert_int_equal(hr_local_run(2, &o, head_to_head, NULL), HR_ERR_TIMEOUT);
    assert_non_null(strstr(hr_last_error(), "sends of none; receives of "));
    assert_non_null(strstr(hr_last_error(), " is in send_recv 0 of the group"));
}

static hr_status many_before_one_receives(hr_group *g, void *arg)
{
    enum { MANY = 100 };
    int x, y;
    if (hr_group_rank(g) == 0) {
        for (x = 0; x < MANY; x++) {
            HR_TRY(send_to(g, 1, &x));
            HR_TRY(sync());
        }
        atomic_store((atomic_int *)arg, 1);
        return HR_OK; /* and leaves */
    }
    while (!atomic_load((atomic_int *)arg))
        sched_yield();
    for (int i = 0; i < MANY; i++) {
        HR_TRY(receive_from(g, 0, &y));
        HR_TRY(sync());
        HOLDS(y == i);
    }
    return HR_OK;
}

static void buffered_sends_keep_their_order_and_outlive_their_sender(void **state)
{
    atomic_int sent = 0;
    runs("local-buffered", 2, many_before_one_receives, &sent);
}

/* The first message is never received: a reset drops it; so does the end of a job. */
static hr_status dropped(hr_group *g, void *arg)
{
    int me = hr_group_rank(g), x = 1, y = 0;
    for (int round = 0; round < 2; round++) {
        if (me == 0)
            HR_TRY(send_to(g, 1, &x));
        HR_TRY(sync());
        x++;
        if (round == 0)
            HR_TRY(hr_job_reset(g));
        if (round == 0 && me == 0)
            HR_TRY(send_to(g, 1, &x));
        if (round == 0 && me == 1)
            HR_TRY(receive_from(g, 0, &y));
        HR_TRY(sync());
    }
    HOLDS(me == 0 || y == 2);
    return HR_OK;
}

static void a_reset_drops_what_was_buffered(void **state)
{
    runs("local-buffered", 2, dropped, NULL);
}

/* ---- delays ---- */
static void delays_follow_from_seed_place_and_number(void **state)
{
    enum { N = 1000 };
    const int64_t longest = 1000000;
    int64_t sum = 0, differ[3] = {0};
    for (uint64_t n = 0; n < N; n++) {
        int64_t ns = hr__manner_delay(5, 1, n, longest);
        assert_true(ns >= 0 && ns < longest);
        assert_int_equal(ns, hr__manner_delay(5, 1, n, longest));
        differ[0] += ns != hr__manner_delay(6, 1, n, longest);
        differ[1] += ns != hr__manner_delay(5, 2, n, longest);
        differ[2] += ns != hr__manner_delay(5, 1, n + 1, longest);
        sum += ns;
    }
    for (int i = 0; i < 3; i++)
        assert_true(differ[i] > N - 10);
    assert_true(sum / N > longest * 4 / 10 && sum / N < longest * 6 / 10);
}

enum { SEED = 11, LONGEST_US = 50000 };

/* A barrier has three of them: before, within, after. */
static hr_status measure(hr_group *g, void *arg)
{
    int me = hr_group_rank(g);
    int64_t least = 0, begin = hr_now_ns();
    for (uint64_t n = 0; n < 3; n++)
        least += hr__manner_delay(SEED, me, n, (int64_t)LONGEST_US * 1000);
    HR_TRY(hr_barrier(g, hr_stream_current()));
    HR_TRY(sync());
    HOLDS(hr_now_ns() - begin >= least);
    return HR_OK;
}

static double cpu_seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void an_operation_takes_the_delays_of_its_seed_and_no_core(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .engine = "local-delays", .seed = SEED,
                       .delay_us = LONGEST_US};
    double before = cpu_seconds();
    hr_status st = hr_local_run(8, &o, measure, NULL);
    if (st < 0)
        print_error("%s\n", hr_last_error());
    assert_int_equal(st, HR_OK);
    assert_true(cpu_seconds() - before < 0.2); /* 0.6 s of sleep, all ranks together */
}

static hr_status fail_within(hr_group *g, void *arg)
{
    HR_TRY(hr_barrier(g, hr_stream_current()));
    if (hr_group_rank(g) == 1)
        return hr_fail(HR_ERR_IO, "test", "the disk is full");
    return sync();
}

/* Delays of a quarter of an hour; the test has a limit of its own. */
static void a_failure_ends_a_delay(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .engine = "local-delays",
                       .delay_us = 9e8};
    assert_int_equal(hr_local_run(3, &o, fail_within, NULL), HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), "rank 1: the disk is full"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_engine_of_the_list_runs_under_its_name),
        cmocka_unit_test(an_unknown_name_is_refused_with_the_list),
        cmocka_unit_test(the_environment_names_the_engine_where_the_options_do_not),
        cmocka_unit_test(a_rendezvous_send_ends_after_its_receive),
        cmocka_unit_test(a_buffered_send_ends_without_its_receive),
        cmocka_unit_test(
            code_that_relies_on_buffering_passes_on_one_and_is_named_by_the_others),
        cmocka_unit_test(buffered_sends_keep_their_order_and_outlive_their_sender),
        cmocka_unit_test(a_reset_drops_what_was_buffered),
        cmocka_unit_test(delays_follow_from_seed_place_and_number),
        cmocka_unit_test(an_operation_takes_the_delays_of_its_seed_and_no_core),
        cmocka_unit_test(a_failure_ends_a_delay),
    };
    unsetenv("HEADRACE_GROUP_ENGINE");
    unsetenv(
        "HEADRACE_LAUNCH_BLOCKING"); /* a launch that waits is no test of who waits */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
