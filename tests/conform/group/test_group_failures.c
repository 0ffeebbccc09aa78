/* One rank fails, stays away or leaves: the others come back in time, with the first cause,
 * and after a reset the next operation is exact. */
#include "conform/group/engines.h"
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

static hr_status sync(void)
{
    return hr_stream_synchronize(hr_stream_current());
}

static hr_status failing_kernel(const void *args, hr_team *team)
{
    return hr_fail(HR_ERR_CALLBACK, "test", "microbatch 3 went wrong");
}

/* ---- disagreement ---- */
static hr_status other_operation(hr_group *g, void *arg)
{
    int32_t x = 1;
    TRY(hr_barrier(g, hr_stream_current()));
    if (hr_group_rank(g) == 2)
        TRY(hr_broadcast(g, &x, 4, 1, hr_stream_current()));
    else
        TRY(hr_all_reduce(g, &x, &x, 1, HR_I32, HR_SUM, hr_stream_current()));
    EXPECT(sync(), HR_ERR_MISMATCH, "rank 2 calls broadcast (4 bytes from member 1)");
    return HR_OK;
}

static void two_operations_at_once_are_named_with_both_ranks(void **state)
{
    fails(4, NULL, other_operation, NULL, HR_ERR_MISMATCH,
          WORDS("operation 1 of the group of ranks 0,1,2,3",
                "rank 0 calls all_reduce (sum of 1 i32)", "rank 2 calls broadcast"));
}

static hr_status other_count(hr_group *g, void *arg)
{
    float x[3] = {0};
    int64_t count = hr_group_rank(g) == 1 ? 2 : 3;
    TRY(hr_all_reduce(g, x, x, count, HR_F32, HR_SUM, hr_stream_current()));
    EXPECT(sync(), HR_ERR_MISMATCH, "sum of 3 f32");
    return HR_OK;
}

static void two_counts_are_named(void **state)
{
    fails(2, NULL, other_count, NULL, HR_ERR_MISMATCH,
          WORDS("rank 0 calls all_reduce (sum of 3 f32) but rank 1 calls all_reduce "
                "(sum of 2 f32)"));
}

/* ---- staying away ---- */
static hr_status stay_away(hr_group *g, void *arg)
{
    if (hr_group_rank(g) == 1) {
        while (hr_group_status(g) == HR_OK)
            sched_yield();
        EXPECT(sync(), HR_ERR_TIMEOUT, "missing: 1"); /* its device failed too */
        return HR_OK;
    }
    int64_t x = 0;
    TRY(hr_all_reduce(g, &x, &x, 1, HR_I64, HR_MAX, hr_stream_current()));
    EXPECT(sync(), HR_ERR_TIMEOUT, "missing: 1");
    return HR_OK;
}

static void a_time_out_names_who_waits_for_whom(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 0.2};
    fails(4, &o, stay_away, NULL, HR_ERR_TIMEOUT,
          WORDS("rank ", "waited 0.2 s in all_reduce 0", "present: 0,2,3; missing: 1",
                "bytes"));
}

static hr_status no_send(hr_group *g, void *arg)
{
    char buf[24];
    if (hr_group_rank(g) == 1) {
        while (hr_group_status(g) == HR_OK)
            sched_yield();
        return HR_OK;
    }
    hr_p2p op = {.peer = 1, .buf = buf, .bytes = sizeof buf};
    TRY(hr_group_batch(g, &op, 1, hr_stream_current()));
    EXPECT(sync(), HR_ERR_TIMEOUT, "sends of 1");
    return HR_OK;
}

static void a_message_that_never_comes_names_its_sender(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 0.2};
    fails(2, &o, no_send, NULL, HR_ERR_TIMEOUT,
          WORDS("rank 0: ", "send_recv 0", "sends of 1 (24 bytes); receives of none",
                "rank 1 is in no operation, it had none here"));
}

/* ---- labels ---- */
static hr_status open_gate(const void *args, hr_team *team)
{
    atomic_store(*(atomic_int *const *)args, 1);
    return HR_OK;
}

/* Rank 1 wants a message of rank 3, the others are in a collective. */
static hr_status crossed(hr_group *g, void *arg)
{
    atomic_int *gate = arg;
    int32_t x[6] = {0}, me = hr_group_rank(g);
    hr_group *pair;
    TRY(hr_group_create(g, (const int[]){1, 3}, 2, &pair));
    if (me == 1) {
        hr_p2p op = {.peer = 1, .buf = x, .bytes = sizeof x};
        hr_group_set_label(pair, &(hr_op_label){"receive forward", 1, 0, 3});
        TRY(hr_launch(hr_stream_current(), "gate", open_gate, &gate, sizeof gate, NULL,
                      0));
        TRY(hr_group_batch(pair, &op, 1, hr_stream_current()));
        hr_group_set_label(pair, NULL); /* of what comes next */
    } else {
        while (!atomic_load(gate))
            sched_yield();
        hr_group_set_label(g, &(hr_op_label){"norm", 2, -1, -1});
        TRY(hr_all_reduce(g, x, x, 6, HR_I32, HR_SUM, hr_stream_current()));
    }
    EXPECT(sync(), HR_ERR_TIMEOUT, "rank");
    hr_group_release(pair);
    return HR_OK;
}

/* Whoever finds it: it names both operations, with what they are for. */
static void a_time_out_says_where_the_missing_rank_is(void **state)
{
    skip_across_processes();
    for (int e = 0; e < n_engines; e++) {
        atomic_int gate = 0;
        hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 0.3};
        assert_int_equal(run_on(&engines[e], 4, &o, crossed, &gate), HR_ERR_TIMEOUT);
        const char *const words[] = {
            "send_recv 0 of the group of ranks 1,3 [receive forward, stage 1",
            "stage 1, chunk 0, microbatch 3]",
            "all_reduce 0 of the group of ranks 0,1,2,3 [norm, stage 2]",
            "24 bytes",
            "is in ",
            "missing: ",
        };
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            if (!strstr(hr_last_error(), words[i]))
                print_error("%s: no '%s' in: %s\n", engines[e].name, words[i],
                            hr_last_error());
            assert_non_null(strstr(hr_last_error(), words[i]));
        }
    }
}

static hr_status labelled_sizes(hr_group *g, void *arg)
{
    float x[3] = {0};
    int64_t count = 3 - hr_group_rank(g);
    hr_group_set_label(g, &(hr_op_label){"gradients", 1, -1, 4});
    TRY(hr_all_reduce(g, x, x, count, HR_F32, HR_SUM, hr_stream_current()));
    hr_group_set_label(g, NULL);
    EXPECT(sync(), HR_ERR_MISMATCH, "sum of 3 f32");
    return HR_OK;
}

static void a_disagreement_says_what_the_operation_was_for(void **state)
{
    fails(2, NULL, labelled_sizes, NULL, HR_ERR_MISMATCH,
          WORDS("operation 0 of the group of ranks 0,1 [gradients, stage 1, microbatch "
                "4]: rank 0 calls"));
}

static hr_status leave(hr_group *g, void *arg)
{
    if (hr_group_rank(g) == 1)
        return HR_OK;
    TRY(hr_barrier(g, hr_stream_current()));
    return sync();
}

static void who_has_returned_is_not_waited_for(void **state)
{
    fails(3, NULL, leave, NULL, HR_ERR_ABORTED, /* long before the limit of 300 s */
          WORDS("rank 1 has returned"));
}

static hr_status leave_pair(hr_group *g, void *arg)
{
    char x = 0;
    hr_p2p op = {.send = true, .peer = 1, .buf = &x, .bytes = 1};
    if (hr_group_rank(g) == 1)
        return HR_OK;
    TRY(hr_group_batch(g, &op, 1, hr_stream_current()));
    return sync();
}

static void a_send_to_who_has_returned_fails(void **state)
{
    fails_unbuffered(2, NULL, leave_pair, NULL, HR_ERR_ABORTED,
                     WORDS("rank 1 has returned"));
}

/* ---- failing ---- */
static hr_status fail_in_kernel(hr_group *g, void *arg)
{
    if (hr_group_rank(g) == 2)
        TRY(hr_launch(hr_stream_current(), "mlp", failing_kernel, NULL, 0, NULL, 0));
    for (int i = 0; i < 200; i++) /* later operations do nothing */
        TRY(hr_barrier(g, hr_stream_current()));
    EXPECT(sync(), HR_ERR_CALLBACK, "microbatch 3 went wrong");
    EXPECT(hr_group_status(g), HR_ERR_CALLBACK, "rank 2: ");
    return HR_OK;
}

static void a_failing_kernel_wakes_all_ranks_with_its_cause(void **state)
{
    fails(4, NULL, fail_in_kernel, NULL, HR_ERR_CALLBACK,
          WORDS("rank 2: ", "'mlp'", "microbatch 3 went wrong"));
}

static hr_status fail_on_host(hr_group *g, void *arg)
{
    if (hr_group_rank(g) == 0)
        return hr_fail(HR_ERR_PARSE, "test", "bad line %d", 7);
    TRY(hr_barrier(g, hr_stream_current()));
    return sync();
}

static void a_function_that_fails_ends_the_job(void **state)
{
    fails(3, NULL, fail_on_host, NULL, HR_ERR_PARSE, WORDS("rank 0: bad line 7"));
    if (runs(&engines[0], 3))
        assert_string_equal(hr_last_reason(), "test");
}

/* The long transfer of an imitated link ends when a rank outside of it aborts the job. */
static hr_status signal_kernel(const void *args, hr_team *team)
{
    atomic_fetch_add(*(atomic_int *const *)args, 1);
    return HR_OK;
}

static hr_status abort_transfer(hr_group *world, void *arg)
{
    atomic_int *begun = arg;
    int pair[] = {0, 1};
    char x[1000] = {0};
    hr_group *g;
    TRY(hr_group_create(world, pair, 2, &g));
    if (g) {
        hr_stream *s = hr_stream_current();
        TRY(hr_launch(s, "signal", signal_kernel, &begun, sizeof begun, NULL, 0));
        TRY(hr_broadcast(g, x, sizeof x, 0, s));
    } else {
        while (atomic_load(begun) < 2)
            sched_yield();
        (void)hr_fail(HR_ERR_ABORTED, NULL, "interrupted");
        hr_group_abort(world, HR_ERR_ABORTED);
        (void)hr_fail(HR_ERR_IO, NULL, "second");
        hr_group_abort(world, HR_ERR_IO); /* the first counts */
    }
    EXPECT(sync(), HR_ERR_ABORTED, "rank 2: interrupted");
    return HR_OK;
}

static void abort_ends_a_long_transfer(void **state)
{
    skip_across_processes();
    skip_over_nccl();
    hr_local_opts o = {HR_INIT(hr_local_opts), .link_us = 9e8}; /* 900 s */
    atomic_int begun = 0;
    fails(3, &o, abort_transfer, &begun, HR_ERR_ABORTED, WORDS("rank 2: interrupted"));
}

/* ---- reset ---- */
static hr_status exact(hr_group *g)
{
    int n = hr_group_size(g), me = hr_group_rank(g), got[8];
    int64_t out[8], in[8];
    int32_t send[8], recv[8], sum = me;
    for (int r = 0; r < n; r++) {
        out[r] = in[r] = 1;
        send[r] = me * 10 + r;
        got[r] = -1;
    }
    hr_p2p ops[] = {{true, (me + 1) % n, &me, sizeof me},
                    {false, (me + n - 1) % n, &got[0], sizeof(int)}};
    TRY(hr_all_to_all_v(g, send, out, recv, in, 4, hr_stream_current()));
    TRY(hr_all_reduce(g, &sum, &sum, 1, HR_I32, HR_SUM, hr_stream_current()));
    TRY(hr_group_batch(g, ops, 2, hr_stream_current()));
    TRY(sync());
    for (int r = 0; r < n; r++)
        CHECK(recv[r] == r * 10 + me);
    CHECK(sum == n * (n - 1) / 2 && got[0] == (me + n - 1) % n);
    return HR_OK;
}

/* On rank 0, what is queued from here on runs after all others have called this. */
static hr_status after_all(hr_group *g)
{
    hr_p2p ops[8];
    int n = hr_group_size(g);
    for (int r = 1; r < n; r++)
        ops[r - 1] = (hr_p2p){.send = false, .peer = r};
    if (hr_group_rank(g) == 0)
        return hr_group_batch(g, ops, n - 1, hr_stream_current());
    ops[0] = (hr_p2p){.send = true, .peer = 0};
    return hr_group_batch(g, ops, 1, hr_stream_current());
}

static hr_status reset_after_failure(hr_group *world, void *arg)
{
    hr_group *g;
    char x[8];
    int me = hr_group_rank(world);
    TRY(hr_group_create(world, NULL, 0, &g));
    for (int round = 0; round < 3; round++) {
        TRY(exact(g));
        TRY(after_all(world));
        /* Half-done things of every kind when rank 0 fails. */
        hr_p2p lost[] = {{true, 0, x, 8}, {false, 0, x, 3}};
        if (me == 0)
            TRY(hr_launch(hr_stream_current(), "bad", failing_kernel, NULL, 0, NULL,
                          0));
        else if (me % 2)
            TRY(hr_group_batch(g, lost, 2, hr_stream_current()));
        TRY(hr_barrier(world, hr_stream_current()));
        EXPECT(sync(), HR_ERR_CALLBACK, "went wrong");
        TRY(hr_job_reset(world));
        CHECK(hr_group_status(world) == HR_OK);
        TRY(exact(world));
    }
    hr_group_release(g);
    return HR_OK;
}

static void the_step_after_a_reset_is_exact(void **state)
{
    static const int sizes[] = {2, 3, 4, 8};
    succeeds(sizes, 4, reset_after_failure, NULL);
}

/* Rank 1 never entered the operation that timed out. */
static hr_status reset_after_absence(hr_group *g, void *arg)
{
    if (hr_group_rank(g) == 1) {
        while (hr_group_status(g) == HR_OK)
            sched_yield();
    } else {
        TRY(hr_barrier(g, hr_stream_current()));
        EXPECT(sync(), HR_ERR_TIMEOUT, "missing: 1");
    }
    TRY(hr_job_reset(g));
    return exact(g);
}

static void a_rank_that_was_away_joins_the_reset(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 1};
    for (int e = 0; e < n_engines; e++)
        if (e == 0 || engines[e].buffers) /* what a reset drops differs */
            assert_int_equal(run_on(&engines[e], 4, &o, reset_after_absence, NULL),
                             HR_OK);
}

static hr_status reset_when_well(hr_group *g, void *arg)
{
    TRY(exact(g));
    TRY(hr_job_reset(g));
    return exact(g);
}

static void a_reset_of_a_healthy_job_changes_nothing(void **state)
{
    succeeds_everywhere(reset_when_well, NULL);
}

static hr_status reset_alone(hr_group *g, void *arg)
{
    if (hr_group_rank(g) == 1)
        return HR_OK;
    EXPECT(hr_job_reset(g), HR_ERR_ABORTED, "has returned");
    EXPECT(hr_job_reset(g), HR_ERR_ABORTED, "has returned");
    return HR_OK;
}

static void a_reset_does_not_wait_for_who_has_returned(void **state)
{
    static const int sizes[] = {2, 3, 8};
    succeeds(sizes, 3, reset_alone, NULL);
}

/* The first try finds nobody; the arrival is taken back, and the second one counts. */
static hr_status reset_late(hr_group *g, void *arg)
{
    atomic_int *tried = arg;
    if (hr_group_rank(g) == 0) {
        hr_status st = hr_job_reset(g);
        atomic_store(tried, 1);
        EXPECT(st, HR_ERR_TIMEOUT, "rank 1 did not call");
    } else {
        while (!atomic_load(tried))
            sched_yield();
    }
    TRY(hr_job_reset(g));
    return exact(g);
}

static void a_reset_that_timed_out_can_be_tried_again(void **state)
{
    skip_across_processes();
    skip_over_nccl(); /* whose communicators would have to be made within that time, too */
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 0.5};
    for (int e = 0; e < n_engines; e++) {
        atomic_int tried = 0;
        if (e > 0 && !engines[e].buffers)
            continue;
        assert_int_equal(run_on(&engines[e], 2, &o, reset_late, &tried), HR_OK);
    }
}

static hr_status reset_part(hr_group *world, void *arg)
{
    hr_group *g;
    TRY(hr_group_create(world, NULL, 0, &g));
    EXPECT(hr_job_reset(g), HR_ERR_INVALID, "not the world");
    EXPECT(hr_job_reset(NULL), HR_ERR_INVALID, "no group");
    hr_group_release(g);
    return HR_OK;
}

static void only_the_world_can_be_reset(void **state)
{
    succeeds_everywhere(reset_part, NULL);
}

/* ---- where a rank is ---- */
static hr_status tell(hr_group *g, bool send, int peer, hr_stream *s)
{
    char byte = 0;
    hr_p2p m = {.send = send, .peer = peer, .buf = &byte, .bytes = 1};
    TRY(hr_group_batch(g, &m, 1, s));
    return hr_stream_synchronize(s);
}

/* Has issued a barrier, and sees from beside that the rank waits in it. */
static hr_status watch(hr_group *words, hr_stream *beside, const char *what)
{
    char said[512];
    int64_t until = hr_now_ns() + 20000000000;
    do {
        sched_yield();
        hr_group_where(words, said, sizeof said);
    } while (!said[0] && hr_now_ns() < until);
    CHECK(strstr(said, "rank 0 is in barrier"));
    CHECK(strstr(said, what));
    TRY(tell(words, true, 1, beside));
    return tell(words, true, 2, beside);
}

static hr_status wait_watched(hr_group *meeting, hr_group *words, hr_stream *beside,
                              const char *what)
{
    char said[512];
    if (hr_group_rank(words) > 0)
        TRY(tell(words, false, 0, beside));
    TRY(hr_barrier(meeting, hr_stream_current()));
    if (hr_group_rank(words) == 0)
        TRY(watch(words, beside, what));
    TRY(sync());
    hr_group_where(words, said, sizeof said);
    CHECK(said[0] == '\0');
    return HR_OK;
}

static hr_status say_where(hr_group *world, void *arg)
{
    hr_group *meeting, *words;
    hr_stream *beside;
    TRY(hr_group_create(world, NULL, 0, &meeting));
    TRY(hr_group_create(world, NULL, 0, &words));
    TRY(hr_stream_create(hr_device_current(), NULL, &beside));
    hr_group_set_label(meeting, &(hr_op_label){"meeting", 1, -1, -1});
    TRY(wait_watched(meeting, words, beside, "ranks 0,1,2 [meeting, stage 1]"));
    hr_group_set_label(meeting, NULL);
    hr_span_begin(hr_stream_current(),
                  &(hr_mark){"moe_dispatch", 2, 5, HR_DIR_FORWARD});
    TRY(wait_watched(meeting, words, beside,
                     "ranks 0,1,2 [moe_dispatch, microbatch 5]"));
    hr_span_end(hr_stream_current());
    hr_stream_destroy(beside);
    hr_group_release(words);
    hr_group_release(meeting);
    return HR_OK;
}

static void a_rank_says_what_it_waits_in(void **state)
{
    for (int e = 0; e < n_engines; e++)
        assert_int_equal(run_on(&engines[e], 3, NULL, say_where, NULL), HR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_operations_at_once_are_named_with_both_ranks),
        cmocka_unit_test(two_counts_are_named),
        cmocka_unit_test(a_time_out_names_who_waits_for_whom),
        cmocka_unit_test(a_message_that_never_comes_names_its_sender),
        cmocka_unit_test(a_time_out_says_where_the_missing_rank_is),
        cmocka_unit_test(a_disagreement_says_what_the_operation_was_for),
        cmocka_unit_test(who_has_returned_is_not_waited_for),
        cmocka_unit_test(a_send_to_who_has_returned_fails),
        cmocka_unit_test(a_failing_kernel_wakes_all_ranks_with_its_cause),
        cmocka_unit_test(a_function_that_fails_ends_the_job),
        cmocka_unit_test(abort_ends_a_long_transfer),
        cmocka_unit_test(the_step_after_a_reset_is_exact),
        cmocka_unit_test(a_rank_that_was_away_joins_the_reset),
        cmocka_unit_test(a_reset_of_a_healthy_job_changes_nothing),
        cmocka_unit_test(a_reset_does_not_wait_for_who_has_returned),
        cmocka_unit_test(a_reset_that_timed_out_can_be_tried_again),
        cmocka_unit_test(only_the_world_can_be_reset),
        cmocka_unit_test(a_rank_says_what_it_waits_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
