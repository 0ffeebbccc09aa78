/* What goes wrong over NCCL: ranks that do not come, failures that NCCL tells of, GPUs that are shared, order that
 * differs, libraries that do not fit. How all engines fail alike is in tests/conform/group. */
#include "device/cuda/cuda_device.h"
#include "group/nccl/nccl_library.h"
#include "nccl_kit.h"

#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

static hr_stream *stream(void)
{
    return hr_stream_current();
}

static hr_status synced(void)
{
    return hr_stream_synchronize(stream());
}

static void until_failed(hr_group *g)
{
    while (hr_group_status(g) == HR_OK)
        sched_yield();
}

/* ---- who does not come ---- */
static hr_status stay_away(hr_group *g, void *arg)
{
    void *at;
    float x[6] = {0};
    if (hr_group_rank(g) == 1) {
        until_failed(g);
        return HR_OK;
    }
    TRY(on_gpu(x, sizeof x, &at));
    hr_group_set_label(g, &(hr_op_label){"gradients", 1, -1, -1});
    TRY(hr_all_reduce(g, at, at, 6, HR_F32, HR_SUM, stream()));
    CHECK(synced() == HR_ERR_TIMEOUT);
    CHECK(hr_group_nccl_comm(g) == NULL);                       /* aborted */
    TRY(hr_all_reduce(g, at, at, 6, HR_F32, HR_SUM, stream())); /* does nothing */
    hr_mem_free(at, stream());
    return HR_OK;
}

static void a_rank_that_does_not_come_is_named_with_what_it_misses(void **state)
{
    fails(
        3, 0.2, stay_away, NULL, HR_ERR_TIMEOUT,
        "waited 0.2 s in all_reduce 0 of the group of ranks 0,1,2 [gradients, stage 1] "
        "(24 bytes); present: 0,2; missing: 1; rank 1 is in no operation");
}

static hr_status leave(hr_group *g, void *arg)
{
    void *at;
    char x[8] = {0};
    TRY(on_gpu(x, sizeof x, &at));
    hr_p2p m = {.peer = 1, .buf = at, .bytes = sizeof x};
    if (hr_group_rank(g) == 0)
        TRY(hr_group_batch(g, &m, 1, stream()));
    hr_mem_free(at, stream());
    return synced();
}

static void who_has_returned_is_not_waited_for(void **state)
{
    fails(2, 60, leave, NULL, HR_ERR_ABORTED, "rank 1 has returned");
}

/* ---- what NCCL tells ---- */
static hr_status broken(hr_group *g, void *arg)
{
    void *at;
    char x[8] = {0};
    TRY(on_gpu(x, sizeof x, &at));
    hr_p2p m = {.peer = 1 - hr_group_rank(g), .buf = at, .bytes = sizeof x};
    TRY(hr_group_batch(g, &m, 1, stream())); /* both receive */
    if (hr_group_rank(g) == 0)
        break_all(*(int *)arg);
    hr_mem_free(at, stream());
    return synced();
}

static void an_error_that_nccl_finds_ends_the_wait(void **state)
{
    int code = ncclInternalError;
    fails(2, 60, broken, &code, HR_ERR_DEVICE,
          "internal error (it was broken by a test)");
}

/* Whose failure it was the base may still say; here there is nobody. */
static void a_failure_elsewhere_is_waited_for_and_then_counts(void **state)
{
    int code = ncclRemoteError;
    fails(2, 60, broken, &code, HR_ERR_DEVICE, "remote process exited");
}

static hr_status fail_one(hr_group *g, void *arg)
{
    void *at;
    char x[8] = {0};
    TRY(on_gpu(x, sizeof x, &at));
    if (hr_group_rank(g) == 2)
        return hr_fail(HR_ERR_PARSE, "test", "bad line 7");
    TRY(hr_broadcast(g, at, sizeof x, 0, stream()));
    hr_mem_free(at, stream());
    return synced();
}

static void the_cause_is_that_of_the_rank_that_failed(void **state)
{
    fails(3, 60, fail_one, NULL, HR_ERR_PARSE, "rank 2: bad line 7");
}

/* ---- the checker of order ---- */
/* Calls of one's own: nobody notes what they are but the double. */
static hr_status diverge(hr_group *g, void *arg)
{
    void *at;
    char x[64] = {0};
    const hr__nccl *lib;
    ncclComm_t comm = hr_group_nccl_comm(g);
    size_t count = hr_group_rank(g) == 0 ? 4 : 5;
    TRY(hr__nccl_load(&lib));
    TRY(on_gpu(x, sizeof x, &at));
    if (*(int *)arg)
        (void)lib->ncclAllReduce(at, at, count, ncclFloat32, ncclSum, comm,
                                 hr__cuda_stream(stream()));
    else if (hr_group_rank(g) == 0)
        (void)lib->ncclSend(at, count, ncclUint8, 1, comm, hr__cuda_stream(stream()));
    else
        (void)lib->ncclRecv(at, count, ncclUint8, 0, comm, hr__cuda_stream(stream()));
    hr_mem_free(at, stream());
    hr_group *meeting; /* both have called */
    TRY(hr_group_create(g, NULL, 0, &meeting));
    hr_group_release(meeting);
    TRY(hr_barrier(g, stream()));
    return synced();
}

static void calls_that_differ_are_found_by_the_double(void **state)
{
    int collective = 1;
    fails(2, 60, diverge, &collective, HR_ERR_DEVICE, "all-reduce of 5 elements");
    collective = 0;
    fails(2, 60, diverge, &collective, HR_ERR_DEVICE,
          "rank 0 sends 4 bytes to rank 1, which expects 5");
}

/* Both ranks reduce a part of their window, but not the same one. */
static hr_status other_place(hr_group *g, void *arg)
{
    hr_window *w;
    TRY(hr_window_create(g, 64, stream(), &w));
    char *at = hr_storage_data(hr_window_storage(w));
    at += hr_group_rank(g) ? 16 : 0;
    TRY(hr_all_reduce(g, at, at, 4, HR_F32, HR_SUM, stream()));
    hr_status st = synced();
    hr_window_destroy(w);
    return st;
}

static void another_place_in_a_window_is_found_by_the_double(void **state)
{
    fails(2, 60, other_place, NULL, HR_ERR_DEVICE, "of its window");
}

/* ---- what cannot be ---- */
static hr_status nothing(hr_group *g, void *arg)
{
    return HR_OK;
}

static void two_ranks_on_one_gpu_are_told_what_to_do(void **state)
{
    setenv("HEADRACE_DOUBLE_DEVICES", "1", 1);
    fails(2, 60, nothing, NULL, HR_ERR_UNSUPPORTED,
          "rank 0 and rank 1 are both on the GPU at 0000:3B:00.0");
    setenv("HEADRACE_DOUBLE_DEVICES", "8", 1);
}

static hr_status on_host(hr_group *base, void *arg)
{
    hr_group *world;
    CHECK(!hr_nccl_is_needed(hr_group_device(base)));
    return hr_group_over_nccl(base, NULL, &world);
}

static void a_device_of_the_host_has_no_nccl(void **state)
{
    assert_int_equal(hr_local_run(2, NULL, on_host, NULL), HR_ERR_UNSUPPORTED);
    assert_non_null(strstr(hr_last_error(), "the device is a 'host' one"));
}

static hr_status no_world(hr_group *world, void *arg)
{
    hr_group *g, *over;
    TRY(hr_group_create(world, NULL, 0, &g));
    CHECK(hr_group_over_nccl(g, NULL, &over) == HR_ERR_INVALID && over == NULL);
    CHECK(hr_group_over_nccl(world, NULL, &over) == HR_ERR_INVALID);
    CHECK(hr_group_over_nccl(NULL, NULL, &over) == HR_ERR_INVALID);
    hr_group_release(g);
    return HR_OK;
}

static void only_a_world_of_another_engine_is_a_base(void **state)
{
    succeeds(2, no_world, NULL);
}

static hr_status from_elsewhere(hr_group *base, void *arg)
{
    const hr__nccl *lib;
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    int64_t other = (int64_t)getpid() + 1;
    TRY(hr__nccl_load(&lib));
    TRY(hr__nccl_status(lib, lib->ncclGetUniqueId(&id), NULL, "id"));
    memcpy(id.internal + 16, &other, sizeof other);
    return hr__nccl_status(lib, lib->ncclCommInitRankConfig(&comm, 2, id, 0, &config),
                           NULL, "init");
}

static void the_double_refuses_ranks_of_other_processes(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .backend = "cuda"};
    assert_int_equal(hr_local_run(1, &o, from_elsewhere, NULL), HR_ERR_DEVICE);
    assert_non_null(strstr(hr_last_error(), "joins threads of one process"));
}

static void the_library_says_that_it_is_a_double(void **state)
{
    const char *why = NULL;
    assert_string_equal(hr_nccl_library(&why), "NCCL on test double, 2.28.9");
    assert_null(why);
}

static void all_that_lived_is_gone(void **state)
{
    nccl_live live;
    count_live(&live);
    assert_int_equal(live.comms, 0);
    assert_int_equal(live.windows, 0);
    assert_int_equal(live.blocks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_does_not_come_is_named_with_what_it_misses),
        cmocka_unit_test(who_has_returned_is_not_waited_for),
        cmocka_unit_test(an_error_that_nccl_finds_ends_the_wait),
        cmocka_unit_test(a_failure_elsewhere_is_waited_for_and_then_counts),
        cmocka_unit_test(the_cause_is_that_of_the_rank_that_failed),
        cmocka_unit_test(calls_that_differ_are_found_by_the_double),
        cmocka_unit_test(another_place_in_a_window_is_found_by_the_double),
        cmocka_unit_test(two_ranks_on_one_gpu_are_told_what_to_do),
        cmocka_unit_test(a_device_of_the_host_has_no_nccl),
        cmocka_unit_test(only_a_world_of_another_engine_is_a_base),
        cmocka_unit_test(the_double_refuses_ranks_of_other_processes),
        cmocka_unit_test(the_library_says_that_it_is_a_double),
        cmocka_unit_test(all_that_lived_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
