/* Worlds of processes: over somebody else's communicator, one after another, and what they say of
 * themselves. Run by a launcher with 3 ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/group_mpi.h"
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int my_rank(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

static hr_status sum_of_ranks(hr_group *g, int *out)
{
    hr_stream *s = hr_device_default_stream(hr_group_device(g));
    *out = hr_group_rank(g);
    hr_status st = hr_all_reduce(g, out, out, 1, HR_I32, HR_SUM, s);
    return st < 0 ? st : hr_stream_synchronize(s);
}

static hr_status work(hr_group *world, void *arg)
{
    return sum_of_ranks(world, arg);
}

/* ---- communicators of others ---- */
static void a_job_runs_over_the_communicator_that_it_is_given(void **state)
{
    MPI_Comm half;
    int sum = -1, mine = my_rank() == 1; /* {0, 2} and {1} */
    MPI_Comm_split(MPI_COMM_WORLD, mine, -my_rank(), &half);
    hr_mpi_opts o = {HR_INIT(hr_mpi_opts), .comm = &half};
    assert_int_equal(hr_mpi_run(&o, work, &sum), HR_OK);
    assert_int_equal(sum, mine ? 0 : 1);
    MPI_Comm_free(&half);
}

static void a_wrapped_world_makes_groups_and_goes(void **state)
{
    hr_device *dev;
    hr_group *world, *two;
    int sum = -1, pair[] = {2, 0};
    MPI_Comm comm = MPI_COMM_WORLD;
    assert_int_equal(hr_device_open("host", NULL, &dev), HR_OK);
    assert_int_equal(hr_group_wrap_mpi(&comm, dev, NULL, &world), HR_OK);
    assert_string_equal(hr_group_engine(world), "mpi");
    assert_int_equal(hr_group_rank(world), my_rank());
    assert_int_equal(hr_group_create(world, pair, 2, &two), HR_OK);
    assert_int_equal(two != NULL, my_rank() != 1);
    if (two) {
        assert_int_equal(hr_group_global_rank(two, 0), 2);
        assert_int_equal(sum_of_ranks(two, &sum), HR_OK);
        assert_int_equal(sum, 1);
    }
    hr_group_release(two);
    hr_group_release(world);
    hr_device_close(dev);
}

static void what_is_missing_is_refused(void **state)
{
    hr_group *world = NULL;
    assert_int_equal(hr_group_wrap_mpi(NULL, NULL, NULL, &world), HR_ERR_INVALID);
    assert_non_null(strstr(hr_last_error(), "no communicator"));
    assert_int_equal(hr_mpi_run(NULL, NULL, NULL), HR_ERR_INVALID);
    hr_mpi_opts o = {HR_INIT(hr_mpi_opts), .timeout_s = -1};
    assert_int_equal(hr_mpi_run(&o, work, NULL), HR_ERR_INVALID);
    o = (hr_mpi_opts){HR_INIT(hr_mpi_opts), .backend = "no such"};
    assert_int_equal(hr_mpi_run(&o, work, NULL), HR_ERR_INVALID);
    assert_non_null(strstr(hr_last_error(), "no such"));
}

/* ---- one after another ---- */
static hr_status fail_on_one(hr_group *world, void *arg)
{
    int sum;
    if (hr_group_rank(world) == 1)
        return hr_fail(HR_ERR_IO, "disk", "the disk is full");
    return sum_of_ranks(world, &sum);
}

static void a_failed_job_leaves_nothing_to_the_next(void **state)
{
    for (int i = 0; i < 5; i++) {
        int sum = -1;
        assert_int_equal(hr_mpi_run(NULL, fail_on_one, NULL), HR_ERR_IO);
        assert_non_null(strstr(hr_last_error(), "rank 1: the disk is full (host "));
        assert_string_equal(hr_last_reason(), "disk");
        assert_int_equal(hr_mpi_run(NULL, work, &sum), HR_OK);
        assert_int_equal(sum, 3);
    }
}

static hr_status fail_later(const void *args, hr_team *team)
{
    const struct timespec *after = args;
    nanosleep(after, NULL);
    return hr_fail(HR_ERR_IO, "disk", "the disk is full");
}

/* Groups are made, which MPI does with a call that waits for all, while a kernel of one rank is about to fail. */
static hr_status fail_while_groups_are_made(hr_group *world, void *arg)
{
    int sum, us = *(const int *)arg;
    struct timespec after = {.tv_nsec = us * 1000L};
    hr_status st = sum_of_ranks(world, &sum);
    if (st == HR_OK && hr_group_rank(world) == 2)
        st = hr_launch(hr_stream_current(), "write", fail_later, &after, sizeof after,
                       NULL, 0);
    for (int i = 0; st == HR_OK && i < 1000; i++) {
        hr_group *g;
        st = hr_group_create(world, NULL, 0, &g);
        hr_group_release(g);
    }
    return st;
}

static void no_rank_is_left_behind_making_a_group(void **state)
{
    hr_mpi_opts o = {HR_INIT(hr_mpi_opts), .timeout_s = 10};
    for (int i = 0; i < 25; i++) {
        int us = 13 * i;
        assert_int_equal(hr_mpi_run(&o, fail_while_groups_are_made, &us), HR_ERR_IO);
        assert_non_null(strstr(hr_last_error(), "the disk is full (host "));
    }
}

/* Rank 0 fails after rank 2 has, and before it has heard of it. */
static hr_status fail_twice(hr_group *world, void *arg)
{
    char go = 0;
    int me = hr_group_rank(world);
    if (me == 0)
        MPI_Recv(&go, 1, MPI_BYTE, 2, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (me != 1)
        hr_group_abort(world,
                       hr_fail(me ? HR_ERR_IO : HR_ERR_PARSE, NULL, "bad %d", me));
    if (me == 2)
        MPI_Send(&go, 1, MPI_BYTE, 0, 7, MPI_COMM_WORLD);
    return HR_OK;
}

static void of_two_failures_all_get_the_earlier(void **state)
{
    assert_int_equal(hr_mpi_run(NULL, fail_twice, NULL), HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), "rank 2: bad 2"));
}

static void one_call_at_a_time_is_enough(void **state)
{
    int sum = -1;
    hr_mpi_opts o = {HR_INIT(hr_mpi_opts), .serialise = 1};
    assert_int_equal(hr_mpi_run(&o, work, &sum), HR_OK);
    assert_int_equal(sum, 3);
}

/* ---- what is large ---- */
static hr_status ring_of_many_bytes(hr_group *g, void *arg)
{
    size_t bytes = (size_t)3 << 20;
    int n = hr_group_size(g), me = hr_group_rank(g);
    hr_stream *s = hr_stream_current();
    unsigned char *buf = malloc(3 * bytes), *from = buf + 2 * bytes;
    if (!buf)
        return HR_ERR_NOMEM;
    memset(buf, me + 1, bytes);
    memset(buf + bytes, me + 101, bytes);
    hr_p2p ops[] = {{true, (me + 1) % n, buf, bytes},
                    {false, (me + n - 1) % n, from, bytes},
                    {true, (me + 1) % n, buf + bytes, bytes},
                    {false, (me + n - 1) % n, buf, 0}};
    ops[3] = (hr_p2p){false, (me + n - 1) % n, malloc(bytes), bytes};
    hr_status st = hr_group_batch(g, ops, 4, s);
    if (st == HR_OK)
        st = hr_stream_synchronize(s);
    const unsigned char *second = ops[3].buf;
    for (size_t i = 0; st == HR_OK && i < bytes; i++)
        if (from[i] != (me + n - 1) % n + 1 || second[i] != (me + n - 1) % n + 101)
            st = hr_fail(HR_ERR_CALLBACK, NULL, "byte %zu is %d and %d", i, from[i],
                         second[i]);
    free(ops[3].buf);
    free(buf);
    return st;
}

static void two_long_messages_to_one_peer_keep_their_order(void **state)
{
    assert_int_equal(hr_mpi_run(NULL, ring_of_many_bytes, NULL), HR_OK);
}

/* Just above what travels within a head, one after another: a head and its bytes are then often through at
 * once. */
static hr_status many_short_transfers(hr_group *g, void *arg)
{
    enum { PART = 4096, TIMES = 500 };
    int n = hr_group_size(g), me = hr_group_rank(g);
    int64_t counts[] = {PART, PART, PART};
    size_t all = (size_t)n * PART;
    unsigned char *buf = malloc(TIMES * all * 2), *got = buf + TIMES * all;
    hr_status st = buf ? HR_OK : HR_ERR_NOMEM;
    for (size_t k = 0; st == HR_OK && k < TIMES; k++)
        memset(buf + k * all, (me + (int)k) % 251, all);
    for (size_t k = 0; st == HR_OK && k < TIMES; k++)
        st = hr_all_to_all_v(g, buf + k * all, counts, got + k * all, counts, 1,
                             hr_stream_current());
    if (st == HR_OK)
        st = hr_stream_synchronize(hr_stream_current());
    for (size_t i = 0; st == HR_OK && i < TIMES * all; i++)
        if (got[i] != (i % all / PART + i / all) % 251)
            st = hr_fail(HR_ERR_CALLBACK, NULL, "byte %zu is %d", i, got[i]);
    free(buf);
    return st;
}

static void a_step_ends_when_all_its_bytes_are_there(void **state)
{
    hr_mpi_opts o = {HR_INIT(hr_mpi_opts), .timeout_s = 10};
    assert_int_equal(hr_mpi_run(&o, many_short_transfers, NULL), HR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_job_leaves_nothing_to_the_next), /* starts MPI */
        cmocka_unit_test(a_job_runs_over_the_communicator_that_it_is_given),
        cmocka_unit_test(a_wrapped_world_makes_groups_and_goes),
        cmocka_unit_test(what_is_missing_is_refused),
        cmocka_unit_test(of_two_failures_all_get_the_earlier),
        cmocka_unit_test(two_long_messages_to_one_peer_keep_their_order),
        cmocka_unit_test(a_step_ends_when_all_its_bytes_are_there),
        cmocka_unit_test(no_rank_is_left_behind_making_a_group),
        cmocka_unit_test(one_call_at_a_time_is_enough),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return hr_mpi_finish(failed ? HR_ERR_CALLBACK : HR_OK);
}
