/* Operations are ordered on the stream they are given, and a group is one channel. */
#include "conform/group/engines.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

static hr_status make_stream(hr_group *g, const char *name, hr_stream **out)
{
    return hr_stream_create(hr_group_device(g),
                            &(hr_stream_opts){HR_INIT(hr_stream_opts), .name = name},
                            out);
}

/* A kernel that holds its stream until the host opens the gate. */
static hr_status hold(const void *args, hr_team *team)
{
    atomic_int *gate = *(atomic_int *const *)args;
    while (!atomic_load(gate))
        sched_yield();
    return HR_OK;
}

static hr_status issue_behind_gate(hr_group *g, void *arg)
{
    atomic_int gate = 0, *p = &gate;
    int x = 1;
    hr_stream *s;
    TRY(make_stream(g, "communication", &s));
    TRY(hr_launch(s, "hold", hold, &p, sizeof p, NULL, 0));
    TRY(hr_all_reduce(g, &x, &x, 1, HR_I32, HR_SUM, s)); /* returns at once */
    CHECK(hr_stream_query(s) == HR_PENDING && x == 1);
    atomic_store(&gate, 1);
    TRY(hr_stream_synchronize(s));
    CHECK(x == hr_group_size(g));
    return HR_OK;
}

/* Two of the tests need a launch that has not run when it returns. */
static void skip_if_blocking(void)
{
    const char *v = getenv("HEADRACE_LAUNCH_BLOCKING");
    if (v && v[0] && v[0] != '0')
        skip();
}

static void an_operation_runs_in_stream_order_and_issue_returns(void **state)
{
    skip_if_blocking();
    for (int e = 0; e < n_engines; e++)
        for (int n = 1; n <= 8; n *= 2)
            assert_int_equal(run_on(&engines[e], n, NULL, issue_behind_gate, NULL),
                             HR_OK);
}

static hr_status switch_streams(hr_group *g, void *arg)
{
    hr_stream *a, *b;
    hr_event *e;
    int64_t none[8] = {0};
    hr_p2p self = {true, hr_group_rank(g), NULL, 0};
    TRY(make_stream(g, "first", &a));
    TRY(make_stream(g, "second", &b));
    TRY(hr_event_create(hr_group_device(g), &e));
    TRY(hr_barrier(g, a));
    EXPECT(hr_barrier(g, b), HR_ERR_STATE, "stream 'second'");
    CHECK(hr_last_reason()[0] == 'g'); /* group_streams */
    EXPECT(hr_group_batch(g, &self, 1, b), HR_ERR_STATE, "stream 'first'");
    TRY(hr_event_record(e, a));
    TRY(hr_event_wait(e, b));
    TRY(hr_all_to_all_v(g, NULL, none, NULL, none, 1, b));
    EXPECT(hr_barrier(g, a), HR_ERR_STATE, "stream 'first'");
    TRY(hr_stream_synchronize(b)); /* the host orders as well */
    TRY(hr_barrier(g, a));
    TRY(hr_stream_synchronize(a));
    hr_stream_destroy(a);
    hr_stream_destroy(b);
    TRY(make_stream(g, "third", &a));
    TRY(hr_barrier(g, a));
    TRY(hr_stream_synchronize(a));
    hr_event_destroy(e);
    return HR_OK;
}

static void one_group_on_two_streams_needs_an_event(void **state)
{
    succeeds_everywhere(switch_streams, NULL);
}

/* Two groups of the same ranks are two channels: they may meet in different orders. */
static hr_status two_groups(hr_group *world, void *arg)
{
    hr_group *tokens, *counts;
    hr_stream *a, *b;
    int x = 1, y = 2, n = hr_group_size(world);
    TRY(hr_group_create(world, NULL, 0, &tokens));
    TRY(hr_group_create(world, NULL, 0, &counts));
    TRY(make_stream(world, "communication", &a));
    TRY(make_stream(world, "counts", &b));
    for (int i = 0; i < 20; i++) {
        bool first = hr_group_rank(world) % 2;
        x = 1, y = 2;
        if (first)
            TRY(hr_all_reduce(tokens, &x, &x, 1, HR_I32, HR_SUM, a));
        TRY(hr_all_reduce(counts, &y, &y, 1, HR_I32, HR_SUM, b));
        if (!first)
            TRY(hr_all_reduce(tokens, &x, &x, 1, HR_I32, HR_SUM, a));
        TRY(hr_stream_synchronize(b));
        TRY(hr_stream_synchronize(a));
        CHECK(x == n && y == 2 * n);
    }
    hr_group_release(tokens);
    hr_group_release(counts);
    return HR_OK;
}

static void two_groups_on_two_streams_are_independent(void **state)
{
    skip_if_blocking();
    for (int e = 0; e < n_engines; e++)
        for (int n = 1; n <= 8; n *= 2)
            assert_int_equal(run_on(&engines[e], n, NULL, two_groups, NULL), HR_OK);
}

static hr_status foreign_stream(hr_group *g, void *arg)
{
    hr_device *other;
    TRY(hr_device_open("host", NULL, &other));
    hr_status st = hr_barrier(g, hr_device_default_stream(other));
    hr_status checked =
        expect(st, HR_ERR_INVALID, "not of the group's device", __LINE__);
    hr_device_close(other);
    return checked;
}

static void a_stream_of_another_device_is_refused(void **state)
{
    succeeds_everywhere(foreign_stream, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_runs_in_stream_order_and_issue_returns),
        cmocka_unit_test(one_group_on_two_streams_needs_an_event),
        cmocka_unit_test(two_groups_on_two_streams_are_independent),
        cmocka_unit_test(a_stream_of_another_device_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
