/* hr_local_run(): threads, devices, options, and that nothing is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/group.h"
#include <stdio.h>
#include <string.h>

struct seen {
    int rank, size, thread_rank, device_rank, cores;
    bool current;
};

static hr_status look(hr_group *world, void *arg)
{
    hr_device *dev = hr_group_device(world);
    ((struct seen *)arg)[hr_group_rank(world)] =
        (struct seen){hr_group_rank(world),
                      hr_group_size(world),
                      hr_thread_rank(),
                      hr_device_rank(dev),
                      hr_device_cores(dev),
                      hr_device_current() == dev &&
                          hr_stream_current() == hr_device_default_stream(dev)};
    return HR_OK;
}

static void each_rank_has_its_device_current(void **state)
{
    struct seen seen[64] = {0};
    assert_int_equal(hr_local_run(64, NULL, look, seen), HR_OK);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(seen[i].rank, i);
        assert_int_equal(seen[i].size, 64);
        assert_int_equal(seen[i].thread_rank, i);
        assert_int_equal(seen[i].device_rank, i);
        assert_true(seen[i].cores >= 1 && seen[i].current);
    }
    assert_null(hr_device_current()); /* the caller's is untouched */
}

static void cores_are_split_evenly(void **state)
{
    struct seen seen[3] = {0};
    hr_local_opts o = {HR_INIT(hr_local_opts), .cores = 7};
    assert_int_equal(hr_local_run(3, &o, look, seen), HR_OK);
    assert_int_equal(seen[2].cores, 2);
    o.cores = 1;
    assert_int_equal(hr_local_run(3, &o, look, seen), HR_OK);
    assert_int_equal(seen[0].cores, 1);
}

static hr_status sum(hr_group *world, void *arg)
{
    int64_t x = hr_group_rank(world);
    int n = hr_group_size(world);
    hr_status st = hr_all_reduce(world, &x, &x, 1, HR_I64, HR_SUM, hr_stream_current());
    if (st == HR_OK)
        st = hr_stream_synchronize(hr_stream_current());
    if (st == HR_OK && x != (int64_t)n * (n - 1) / 2)
        st = hr_fail(HR_ERR_CALLBACK, NULL, "sum is %lld", (long long)x);
    return st;
}

static void sixty_four_ranks_work_together(void **state)
{
    assert_int_equal(hr_local_run(64, NULL, sum, NULL), HR_OK);
}

/* Groups, streams and memory that a rank leaves behind when it fails go with the job. */
static hr_status leave_a_mess(hr_group *world, void *arg)
{
    hr_group *g;
    hr_stream *s;
    hr_status st = hr_group_create(world, NULL, 0, &g);
    if (st == HR_OK)
        st = hr_stream_create(hr_group_device(world), NULL, &s);
    for (int i = 0; st == HR_OK && i < 10; i++)
        st = hr_barrier(g, s);
    if (hr_group_rank(world) == 1)
        return hr_fail(HR_ERR_IO, "disk", "no space left");
    return st;
}

static void a_failed_rank_leaves_nothing_behind(void **state)
{
    assert_int_equal(hr_local_run(3, NULL, leave_a_mess, NULL), HR_ERR_IO);
    assert_string_equal(hr_last_error(), "rank 1: no space left");
    assert_string_equal(hr_last_reason(), "disk");
}

/* All fail; the first in time is the cause, whole. */
static hr_status all_fail(hr_group *world, void *arg)
{
    return hr_fail(HR_ERR_CALLBACK, NULL, "I am %d", hr_group_rank(world));
}

static void the_first_failure_is_the_cause(void **state)
{
    int prefix, said;
    assert_int_equal(hr_local_run(8, NULL, all_fail, NULL), HR_ERR_CALLBACK);
    assert_int_equal(sscanf(hr_last_error(), "rank %d: I am %d", &prefix, &said), 2);
    assert_int_equal(prefix, said);
}

static hr_status bad_kernel(const void *args, hr_team *team)
{
    return hr_fail(HR_ERR_CALLBACK, NULL, "queued and bad");
}

static hr_status fail_last(hr_group *world, void *arg)
{
    if (hr_group_rank(world) != 1)
        return HR_OK;
    return hr_launch(hr_stream_current(), "bad", bad_kernel, NULL, 0, NULL, 0);
}

static void what_was_queued_last_counts_too(void **state)
{
    assert_int_equal(hr_local_run(2, NULL, fail_last, NULL), HR_ERR_CALLBACK);
    assert_non_null(strstr(hr_last_error(), "queued and bad"));
}

static void bad_options_are_refused(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts)};
    assert_int_equal(hr_local_run(0, NULL, sum, NULL), HR_ERR_INVALID);
    assert_int_equal(hr_local_run(-3, NULL, sum, NULL), HR_ERR_INVALID);
    assert_int_equal(hr_local_run(2, NULL, NULL, NULL), HR_ERR_INVALID);
    assert_int_equal(hr_local_run(2, &(hr_local_opts){0}, sum, NULL), HR_ERR_INVALID);
    o.device.size = 3;
    assert_int_equal(hr_local_run(2, &o, sum, NULL), HR_ERR_INVALID);
    o = (hr_local_opts){HR_INIT(hr_local_opts), .timeout_s = -1};
    assert_int_equal(hr_local_run(2, &o, sum, NULL), HR_ERR_INVALID);
    o = (hr_local_opts){HR_INIT(hr_local_opts), .link_gbps = 1e-300};
    assert_int_equal(hr_local_run(2, &o, sum, NULL), HR_ERR_INVALID);
    o = (hr_local_opts){HR_INIT(hr_local_opts), .link_gbps = -1};
    assert_int_equal(hr_local_run(2, &o, sum, NULL), HR_ERR_INVALID);
    o = (hr_local_opts){HR_INIT(hr_local_opts), .link_us = -1};
    assert_int_equal(hr_local_run(2, &o, sum, NULL), HR_ERR_INVALID);
    o = (hr_local_opts){HR_INIT(hr_local_opts), .cores = -1};
    assert_int_equal(hr_local_run(2, &o, sum, NULL), HR_ERR_INVALID);
    o = (hr_local_opts){HR_INIT(hr_local_opts), .backend = "abacus"};
    assert_int_equal(hr_local_run(2, &o, sum, NULL), HR_ERR_INVALID);
    assert_non_null(strstr(hr_last_error(), "abacus"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_has_its_device_current),
        cmocka_unit_test(cores_are_split_evenly),
        cmocka_unit_test(sixty_four_ranks_work_together),
        cmocka_unit_test(a_failed_rank_leaves_nothing_behind),
        cmocka_unit_test(the_first_failure_is_the_cause),
        cmocka_unit_test(what_was_queued_last_counts_too),
        cmocka_unit_test(bad_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
