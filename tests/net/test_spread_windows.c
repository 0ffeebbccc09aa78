/* Symmetric memory where the ranks of a job are on two hosts: not of all, but of those on one. Run by a
 * launcher with 4 ranks, dealt to the hosts in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/group_mpi.h"
#include <stdio.h>
#include <string.h>

enum { RANKS = 4 };

static hr_status refused(hr_group *world)
{
    hr_window *w;
    hr_status st = hr_window_create(world, 64, hr_stream_current(), &w);
    if (st == HR_ERR_UNSUPPORTED && !w &&
        strstr(hr_last_error(), "rank 0 is on host0 and rank 1 on host1"))
        return HR_OK;
    return hr_fail(HR_ERR_CALLBACK, NULL, "a window over two hosts: %s: %s",
                   hr_status_name(st), st < 0 ? hr_last_error() : "made");
}

/* Each writes its rank into the other's half. */
static hr_status shared(hr_group *half)
{
    hr_stream *s = hr_stream_current();
    hr_window *w;
    int me = hr_group_rank(half), rank = hr_thread_rank();
    hr_status st = hr_window_create(half, sizeof(int), s, &w);
    if (st < 0)
        return st;
    *(int *)hr_window_peer(w, 1 - me) = rank;
    st = hr_barrier(half, s);
    if (st == HR_OK)
        st = hr_stream_synchronize(s);
    int got = *(const int *)hr_storage_data(hr_window_storage(w));
    hr_window_destroy(w);
    if (st == HR_OK && got != (rank + 2) % RANKS)
        st = hr_fail(HR_ERR_CALLBACK, NULL, "rank %d has %d in its window", rank, got);
    return st;
}

static hr_status both(hr_group *world, void *arg)
{
    hr_status st = refused(world);
    for (int host = 0; host < 2 && st == HR_OK; host++) {
        int ranks[] = {host, host + 2};
        hr_group *half;
        st = hr_group_create(world, ranks, 2, &half);
        if (st == HR_OK && half)
            st = shared(half);
        hr_group_release(half);
    }
    return st;
}

static void windows_are_of_one_host_and_both_are_named_else(void **state)
{
    hr_status st = hr_mpi_run(NULL, both, NULL);
    if (st < 0)
        print_error("%s\n", hr_last_error());
    assert_int_equal(st, HR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_of_one_host_and_both_are_named_else),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return hr_mpi_finish(failed ? HR_ERR_CALLBACK : HR_OK);
}
