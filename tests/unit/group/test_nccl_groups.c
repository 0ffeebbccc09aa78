/* Operations of groups over NCCL on memory of the GPU, which the host cannot touch, and symmetric memory. What they come
 * to on memory of the host is in tests/conform/group. */
#include "group/nccl/nccl_library.h"
#include "nccl_kit.h"

enum { COUNT = 1000, RANKS = 4 };

static hr_stream *stream(void)
{
    return hr_stream_current();
}

static void numbers(float *x, int count, int rank)
{
    for (int i = 0; i < count; i++)
        x[i] = (float)(rank * 1000 + i);
}

/* ---- operations ---- */
static hr_status sums(hr_group *g, void *arg)
{
    float x[COUNT], sum[COUNT];
    void *at;
    int n = hr_group_size(g), me = hr_group_rank(g);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(me * i);
    TRY(on_gpu(x, sizeof x, &at));
    TRY(hr_all_reduce(g, at, at, COUNT, HR_F32, HR_SUM, stream()));
    TRY(from_gpu(sum, at, sizeof sum));
    for (int i = 0; i < COUNT; i++)
        CHECK(sum[i] == (float)(n * (n - 1) / 2 * i));
    hr_mem_free(at, stream());
    return HR_OK;
}

static void a_sum_over_ranks_stays_on_the_gpus(void **state)
{
    for (int n = 1; n <= RANKS; n++)
        succeeds(n, sums, NULL);
}

static hr_status parts(hr_group *g, void *arg)
{
    float x[RANKS * COUNT], y[RANKS * COUNT];
    void *all, *mine;
    int n = hr_group_size(g), me = hr_group_rank(g);
    numbers(x, COUNT, me);
    TRY(on_gpu(x, COUNT * sizeof(float), &mine));
    TRY(on_gpu(y, (size_t)n * COUNT * sizeof(float), &all));
    TRY(hr_all_gather(g, mine, all, COUNT, HR_F32, stream()));
    TRY(from_gpu(y, all, (size_t)n * COUNT * sizeof(float)));
    for (int i = 0; i < n * COUNT; i++)
        CHECK(y[i] == (float)(i / COUNT * 1000 + i % COUNT));
    TRY(hr_reduce_scatter(g, all, mine, COUNT, HR_F32, HR_SUM, stream()));
    TRY(from_gpu(y, mine, COUNT * sizeof(float)));
    for (int i = 0; i < COUNT; i++)
        CHECK(y[i] == (float)(n * (me * 1000 + i)));
    TRY(hr_broadcast(g, mine, COUNT * sizeof(float), n - 1, stream()));
    TRY(from_gpu(y, mine, COUNT * sizeof(float)));
    CHECK(y[1] == (float)(n * ((n - 1) * 1000 + 1)));
    TRY(hr_barrier(g, stream()));
    hr_mem_free(all, stream());
    hr_mem_free(mine, stream());
    return HR_OK;
}

static void parts_are_gathered_scattered_and_broadcast(void **state)
{
    succeeds(3, parts, NULL);
}

/* Rank r sends r + to elements to `to`; rank 0 sends nothing to itself. */
static hr_status uneven(hr_group *g, void *arg)
{
    int32_t x[64], y[64];
    int64_t out[RANKS], in[RANKS];
    void *from, *to;
    int n = hr_group_size(g), me = hr_group_rank(g), at = 0;
    for (int r = 0; r < n; r++) {
        out[r] = in[r] = me + r;
        for (int i = 0; i < out[r]; i++)
            x[at++] = me * 100 + r * 10 + i;
    }
    TRY(on_gpu(x, sizeof x, &from));
    TRY(on_gpu(y, sizeof y, &to));
    TRY(hr_all_to_all_v(g, from, out, to, in, sizeof *x, stream()));
    TRY(from_gpu(y, to, sizeof y));
    at = 0;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < in[r]; i++)
            CHECK(y[at++] == r * 100 + me * 10 + i);
    hr_mem_free(from, stream());
    hr_mem_free(to, stream());
    return HR_OK;
}

static void uneven_parts_go_from_gpu_to_gpu(void **state)
{
    succeeds(RANKS, uneven, NULL);
}

/* On even ranks memory of the GPU meets that of the host on odd ones. */
static hr_status mixed(hr_group *g, void *arg)
{
    int n = hr_group_size(g), me = hr_group_rank(g);
    int32_t host[2] = {me, 0}, got[2];
    void *gpu;
    TRY(on_gpu(host, sizeof host, &gpu));
    int32_t *buf = me % 2 ? host : gpu;
    hr_p2p ring[] = {{true, (me + 1) % n, buf, 4},
                     {false, (me + n - 1) % n, buf + 1, 4},
                     {true, (me + 1) % n, NULL, 0},
                     {false, (me + n - 1) % n, NULL, 0}};
    TRY(hr_group_batch(g, ring, 4, stream()));
    TRY(hr_all_reduce(g, buf, buf, 1, HR_I32, HR_MAX, stream()));
    TRY(hr_stream_synchronize(stream()));
    if (me % 2)
        memcpy(got, host, sizeof got);
    else
        TRY(from_gpu(got, gpu, sizeof got));
    CHECK(got[0] == n - 1 && got[1] == (me + n - 1) % n);
    hr_mem_free(gpu, stream());
    return HR_OK;
}

static void memory_of_gpu_and_host_meet_in_one_operation(void **state)
{
    succeeds(RANKS, mixed, NULL);
}

/* ---- symmetric memory ---- */
static hr_status windows(hr_group *g, void *arg)
{
    float x[16], y[16];
    hr_window *a, *b;
    hr_tensor *t;
    int n = hr_group_size(g), me = hr_group_rank(g);
    TRY(hr_window_create(g, 100, stream(), &a));
    TRY(hr_window_create(g, sizeof x, stream(), &b));
    CHECK(hr_window_offset(a) == 0 && hr_window_offset(b) == 4096);
    for (int r = 0; r < n; r++)
        CHECK((hr_window_peer(b, r) == hr_window_peer(b, me)) == (r == me));
    TRY(hr_tensor_over(hr_window_storage(b), 0, HR_F32, 1, (int64_t[]){16}, &t));
    CHECK(hr_tensor_is_symmetric(t));
    numbers(x, 16, me);
    TRY(hr_copy(stream(), hr_tensor_data(t), x, sizeof x));
    TRY(hr_all_reduce(g, hr_tensor_data(t), hr_tensor_data(t), 16, HR_F32, HR_MAX,
                      stream()));
    hr_window_destroy(a);
    hr_window_destroy(b); /* its bytes go with the tensor */
    TRY(from_gpu(y, hr_tensor_data(t), sizeof y));
    CHECK(y[3] == (float)((n - 1) * 1000 + 3));
    hr_tensor_release(t);
    hr_rows rows = {HR_INIT(hr_rows)};
    TRY(hr_window_create(g, 64, stream(), &a));
    rows.window = a;
    rows.counts = (const int32_t *)x;
    rows.parts = 1;
    rows.row_bytes = 4;
    CHECK(hr_rows_store(g, &rows, stream()) == HR_ERR_UNSUPPORTED);
    CHECK(strstr(hr_last_error(), "hr_all_to_all_v()"));
    hr_window_destroy(a);
    return HR_OK;
}

static void windows_have_one_offset_and_go_with_their_last_tensor(void **state)
{
    nccl_live live;
    succeeds(2, windows, NULL);
    count_live(&live);
    assert_int_equal(live.windows, 0);
    assert_int_equal(live.blocks, 0);
}

static hr_status other_size(hr_group *g, void *arg)
{
    hr_window *w;
    return hr_window_create(g, hr_group_rank(g) ? 64 : 128, stream(), &w);
}

static void windows_of_different_sizes_are_named(void **state)
{
    fails(2, 60, other_size, NULL, HR_ERR_MISMATCH,
          "rank 0 asks for 128 bytes but rank 1 for 64");
}

/* ---- communicators of others ---- */
static ncclUniqueId shared_id;

static hr_status make_comm(hr_group *base, const hr__nccl *lib, int rank,
                           ncclComm_t *out)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    hr_group *meeting;
    const hr__cudart *rt;
    TRY(hr__cudart_load(&rt));
    TRY(hr__cuda_status(rt, rt->cudaSetDevice(hr_group_rank(base)), "cudaSetDevice"));
    if (hr_group_rank(base) == 0)
        TRY(hr__nccl_status(lib, lib->ncclGetUniqueId(&shared_id), NULL, "id"));
    TRY(hr_group_create(base, NULL, 0, &meeting)); /* all are there */
    hr_group_release(meeting);
    return hr__nccl_status(
        lib,
        lib->ncclCommInitRankConfig(out, hr_group_size(base), shared_id, rank, &config),
        NULL, "init");
}

static hr_status wrapped(hr_group *base, void *arg)
{
    const hr__nccl *lib;
    ncclComm_t comm = NULL;
    hr_group *world, *pair, *refused;
    TRY(hr__nccl_load(&lib));
    TRY(make_comm(base, lib, hr_group_rank(base), &comm));
    TRY(hr_group_wrap_nccl(comm, base, NULL, &world));
    CHECK(hr_group_nccl_comm(world) == comm && hr_group_nccl_comm(base) == NULL);
    CHECK(strcmp(hr_group_engine(world), "nccl") == 0);
    TRY(sums(world, NULL));
    TRY(hr_group_create(world, NULL, 0, &pair));
    CHECK(hr_group_nccl_comm(pair) != NULL && hr_group_nccl_comm(pair) != comm);
    TRY(sums(pair, NULL));
    hr_group_release(pair);
    CHECK(hr_group_wrap_nccl(NULL, base, NULL, &refused) == HR_ERR_INVALID);
    CHECK(hr_group_wrap_nccl(comm, world, NULL, &refused) == HR_ERR_INVALID);
    hr_group_release(world);
    return hr__nccl_status(lib, lib->ncclCommDestroy(comm), NULL, "destroy");
}

static void a_communicator_of_another_engine_is_wrapped(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .backend = "cuda"};
    hr_status st = hr_local_run(2, &o, wrapped, NULL);
    if (st < 0)
        print_error("%s\n", hr_last_error());
    assert_int_equal(st, HR_OK);
}

/* The communicator has the ranks the other way round. */
static hr_status turned(hr_group *base, void *arg)
{
    const hr__nccl *lib;
    ncclComm_t comm = NULL;
    hr_group *world;
    TRY(hr__nccl_load(&lib));
    TRY(make_comm(base, lib, 1 - hr_group_rank(base), &comm));
    hr_status st = hr_group_wrap_nccl(comm, base, NULL, &world);
    TRY(hr__nccl_status(lib, lib->ncclCommDestroy(comm), NULL, "destroy"));
    CHECK(st == HR_ERR_INVALID && world == NULL);
    return hr_group_status(base); /* all is well but for that */
}

static void a_communicator_of_other_ranks_is_refused(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .backend = "cuda"};
    assert_int_equal(hr_local_run(2, &o, turned, NULL), HR_OK);
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
        cmocka_unit_test(a_sum_over_ranks_stays_on_the_gpus),
        cmocka_unit_test(parts_are_gathered_scattered_and_broadcast),
        cmocka_unit_test(uneven_parts_go_from_gpu_to_gpu),
        cmocka_unit_test(memory_of_gpu_and_host_meet_in_one_operation),
        cmocka_unit_test(windows_have_one_offset_and_go_with_their_last_tensor),
        cmocka_unit_test(windows_of_different_sizes_are_named),
        cmocka_unit_test(a_communicator_of_another_engine_is_wrapped),
        cmocka_unit_test(a_communicator_of_other_ranks_is_refused),
        cmocka_unit_test(all_that_lived_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
