/* Collectives with the same count on all ranks: results to the bit, in place, for types and
 * reductions, sizes that do not divide, and none. */
#include "conform/group/engines.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static hr_stream *stream(hr_group *g)
{
    return hr_device_default_stream(hr_group_device(g));
}

/* Values whose sum depends on the order. */
static float value(int rank, int64_t i)
{
    uint32_t x = number((uint32_t)rank + 1, (uint32_t)i);
    return ldexpf((float)(int32_t)(x | 1), -20 + (int)(x % 41));
}

static float sum_in_rank_order(int n, int64_t i)
{
    float acc = value(0, i);
    for (int r = 1; r < n; r++)
        acc += value(r, i);
    return acc;
}

static bool same_bits(float a, float b)
{
    uint32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

/* By the rules; NCCL adds in an order of its own. */
static bool is_sum(float got, int n, int64_t i)
{
    double size = 0;
    float sum = sum_in_rank_order(n, i);
    for (int r = 0; r < n; r++)
        size += fabs((double)value(r, i));
    return engines[0].nccl ? fabs((double)got - (double)sum) <= size * 1e-6
                           : same_bits(got, sum);
}

static const int64_t counts[] = {0, 1, 2, 7, 1024, 3001};
enum { N_COUNTS = sizeof counts / sizeof counts[0], MOST = 3001 };

static hr_status sum_once(hr_group *g, int64_t count, bool in_place, float *send,
                          float *recv)
{
    int n = hr_group_size(g), me = hr_group_rank(g);
    for (int64_t i = 0; i < count; i++)
        send[i] = value(me, i);
    TRY(hr_all_reduce(g, send, in_place ? send : recv, count, HR_F32, HR_SUM,
                      stream(g)));
    TRY(hr_stream_synchronize(stream(g)));
    const float *got = in_place ? send : recv;
    for (int64_t i = 0; i < count; i++) {
        CHECK(is_sum(got[i], n, i));
        CHECK(in_place || send[i] == value(me, i));
    }
    return HR_OK;
}

static hr_status all_sums(hr_group *g, void *arg)
{
    static _Thread_local float send[MOST], recv[MOST];
    for (int c = 0; c < N_COUNTS; c++)
        for (int in_place = 0; in_place < 2; in_place++)
            TRY(sum_once(g, counts[c], in_place, send, recv));
    /* Some in place, some not. */
    return sum_once(g, MOST, hr_group_rank(g) % 2, send, recv);
}

static void all_reduce_sums_in_rank_order(void **state)
{
    succeeds_everywhere(all_sums, NULL);
}

static hr_status integers(hr_group *g, void *arg)
{
    int n = hr_group_size(g), me = hr_group_rank(g);
    int32_t a[3] = {me, -me, INT32_MAX}, b[3];
    int64_t c[2] = {(int64_t)me << 40, -((int64_t)me << 40)}, d[2];
    hr_stream *s = stream(g);
    TRY(hr_all_reduce(g, a, b, 3, HR_I32, HR_SUM, s));
    TRY(hr_all_reduce(g, c, d, 2, HR_I64, HR_MAX, s));
    TRY(hr_all_reduce(g, c, c, 2, HR_I64, HR_MIN, s));
    TRY(hr_stream_synchronize(s));
    CHECK(b[0] == n * (n - 1) / 2 && b[1] == -b[0]);
    CHECK(b[2] == (int32_t)((uint32_t)INT32_MAX * (uint32_t)n)); /* wraps */
    CHECK(d[0] == (int64_t)(n - 1) << 40 && d[1] == 0);
    CHECK(c[0] == 0 && c[1] == -((int64_t)(n - 1) << 40));
    return HR_OK;
}

static void integers_reduce_by_sum_max_and_min(void **state)
{
    succeeds_everywhere(integers, NULL);
}

static hr_status nan_spreads(hr_group *g, void *arg)
{
    float x = hr_group_rank(g) == hr_group_size(g) - 1 ? NAN : 1.0f, lo, hi;
    TRY(hr_all_reduce(g, &x, &lo, 1, HR_F32, HR_MIN, stream(g)));
    TRY(hr_all_reduce(g, &x, &hi, 1, HR_F32, HR_MAX, stream(g)));
    TRY(hr_stream_synchronize(stream(g)));
    CHECK(isnan(lo) && isnan(hi));
    return HR_OK;
}

static void one_nan_is_in_every_maximum(void **state)
{
    skip_over_nccl();
    succeeds_everywhere(nan_spreads, NULL);
}

static hr_status gather(hr_group *g, void *arg)
{
    enum { COUNT = 37, RANKS = 8 };
    int n = hr_group_size(g), me = hr_group_rank(g);
    int32_t send[COUNT], recv[COUNT * RANKS], in_place[COUNT * RANKS];
    int32_t *mine = in_place + (size_t)me * COUNT;
    for (int i = 0; i < COUNT; i++)
        send[i] = mine[i] = (int32_t)number((uint32_t)me, (uint32_t)i);
    TRY(hr_all_gather(g, send, recv, COUNT, HR_I32, stream(g)));
    TRY(hr_all_gather(g, mine, in_place, COUNT, HR_I32, stream(g)));
    TRY(hr_all_gather(g, NULL, NULL, 0, HR_BF16, stream(g)));
    TRY(hr_stream_synchronize(stream(g)));
    for (int r = 0; r < n; r++)
        for (int i = 0; i < COUNT; i++)
            CHECK(recv[r * COUNT + i] == (int32_t)number((uint32_t)r, (uint32_t)i));
    CHECK(memcmp(recv, in_place, (size_t)n * sizeof send) == 0);
    return HR_OK;
}

static void all_gather_packs_by_rank(void **state)
{
    succeeds_everywhere(gather, NULL);
}

static hr_status scatter(hr_group *g, void *arg)
{
    enum { COUNT = 1500, RANKS = 8 };
    static _Thread_local float send[COUNT * RANKS], recv[COUNT];
    int n = hr_group_size(g), me = hr_group_rank(g);
    float *mine = send + (size_t)me * COUNT; /* in place */
    for (int i = 0; i < COUNT * n; i++)
        send[i] = value(me, i);
    TRY(hr_reduce_scatter(g, send, recv, COUNT, HR_F32, HR_SUM, stream(g)));
    TRY(hr_reduce_scatter(g, send, mine, COUNT, HR_F32, HR_SUM, stream(g)));
    TRY(hr_stream_synchronize(stream(g)));
    for (int i = 0; i < COUNT; i++) {
        CHECK(is_sum(recv[i], n, me * COUNT + i));
        CHECK(same_bits(recv[i], mine[i]));
    }
    return HR_OK;
}

static void reduce_scatter_gives_each_its_part(void **state)
{
    succeeds_everywhere(scatter, NULL);
}

static hr_status broadcast(hr_group *g, void *arg)
{
    int n = hr_group_size(g), me = hr_group_rank(g);
    for (int root = 0; root < n; root++) {
        char buf[100];
        memset(buf, me + 1, sizeof buf);
        TRY(hr_broadcast(g, buf, sizeof buf - 1, root, stream(g)));
        TRY(hr_broadcast(g, NULL, 0, root, stream(g)));
        TRY(hr_stream_synchronize(stream(g)));
        for (size_t i = 0; i + 1 < sizeof buf; i++)
            CHECK(buf[i] == root + 1);
        CHECK(buf[99] == me + 1);
    }
    return HR_OK;
}

/* Engines may cut what is long, here into parts of unlike sizes. */
static hr_status long_broadcast(hr_group *g, void *arg)
{
    enum { BYTES = 300007 };
    int n = hr_group_size(g), me = hr_group_rank(g);
    unsigned char *buf = malloc(BYTES);
    hr_status st = buf ? HR_OK : HR_ERR_NOMEM;
    for (int root = 0; st == HR_OK && root < n; root++) {
        for (int i = 0; i < BYTES; i++)
            buf[i] = me == root ? (unsigned char)(i % 251 + root) : 0;
        st = hr_broadcast(g, buf, BYTES, root, stream(g));
        if (st == HR_OK)
            st = hr_stream_synchronize(stream(g));
        for (int i = 0; st == HR_OK && i < BYTES; i++)
            if (buf[i] != (unsigned char)(i % 251 + root))
                st = hr_fail(HR_ERR_CALLBACK, NULL, "root %d: byte %d is %d", root, i,
                             buf[i]);
    }
    free(buf);
    return st;
}

static void a_long_broadcast_takes_any_root(void **state)
{
    succeeds_everywhere(long_broadcast, NULL);
}

static void broadcast_takes_any_root(void **state)
{
    succeeds_everywhere(broadcast, NULL);
}

/* A rank passes the barrier only after all have written. */
static hr_status barrier(hr_group *g, void *arg)
{
    int *written = arg, n = hr_group_size(g), me = hr_group_rank(g);
    for (int round = 1; round <= 20; round++) {
        written[me] = round;
        TRY(hr_barrier(g, stream(g)));
        TRY(hr_stream_synchronize(stream(g)));
        for (int r = 0; r < n; r++)
            CHECK(written[r] == round);
        TRY(hr_barrier(g, stream(g)));
        TRY(hr_stream_synchronize(stream(g)));
    }
    return HR_OK;
}

static void barrier_holds_until_all_are_there(void **state)
{
    skip_across_processes();
    int written[8];
    succeeds_everywhere(barrier, written);
}

/* Many operations in flight: buffers and counts belong to their operation. */
static hr_status queue_many(hr_group *g, void *arg)
{
    enum { OPS = 300 };
    int n = hr_group_size(g), me = hr_group_rank(g);
    static _Thread_local int32_t x[OPS];
    for (int i = 0; i < OPS; i++)
        x[i] = i * (me + 1);
    for (int i = 0; i < OPS; i++)
        TRY(hr_all_reduce(g, &x[i], &x[i], 1, HR_I32, HR_SUM, stream(g)));
    TRY(hr_stream_synchronize(stream(g)));
    for (int i = 0; i < OPS; i++)
        CHECK(x[i] == i * n * (n + 1) / 2);
    return HR_OK;
}

static void many_operations_may_be_queued(void **state)
{
    succeeds_everywhere(queue_many, NULL);
}

/* What follows an operation on its stream may overwrite the sources at once, while slower ranks
 * are still in it. */
static hr_status overwrite(hr_group *g, void *arg)
{
    enum { COUNT = 8192, RANKS = 8, ROUNDS = 20 };
    static int32_t sends[RANKS][COUNT], sums[RANKS][COUNT], all[RANKS][RANKS * COUNT];
    int n = hr_group_size(g), me = hr_group_rank(g);
    hr_stream *s = stream(g);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++)
            sends[me][i] = round + me;
        TRY(hr_all_gather(g, sends[me], all[me], COUNT, HR_I32, s));
        TRY(hr_all_reduce(g, sends[me], sums[me], COUNT, HR_I32, HR_SUM, s));
        TRY(hr_fill(s, sends[me], 0xff, sizeof sends[me]));
        TRY(hr_broadcast(g, sums[me], COUNT * sizeof(int32_t), 0, s));
        if (me == 0)
            TRY(hr_fill(s, sums[me], 0xff, sizeof sums[me]));
        TRY(hr_stream_synchronize(s));
        for (int i = 0; i < n * COUNT; i++)
            CHECK(all[me][i] == round + i / COUNT);
        for (int i = 0; me && i < COUNT; i++)
            CHECK(sums[me][i] == n * round + n * (n - 1) / 2);
    }
    return HR_OK;
}

static void sources_may_be_overwritten_by_what_follows(void **state)
{
    succeeds_everywhere(overwrite, NULL);
}

static hr_status refuse(hr_group *g, void *arg)
{
    float x[4] = {0};
    hr_stream *s = stream(g);
    int n = hr_group_size(g);
    EXPECT(hr_all_reduce(NULL, x, x, 1, HR_F32, HR_SUM, s), HR_ERR_INVALID, "no group");
    EXPECT(hr_all_reduce(g, x, x, 1, HR_F32, HR_SUM, NULL), HR_ERR_INVALID,
           "no stream");
    EXPECT(hr_all_reduce(g, x, x, -1, HR_F32, HR_SUM, s), HR_ERR_INVALID, "-1");
    EXPECT(hr_all_reduce(g, NULL, x, 1, HR_F32, HR_SUM, s), HR_ERR_INVALID, "send");
    EXPECT(hr_all_reduce(g, x, NULL, 1, HR_F32, HR_SUM, s), HR_ERR_INVALID, "recv");
    EXPECT(hr_all_reduce(g, x, x + 1, 2, HR_F32, HR_SUM, s), HR_ERR_INVALID, "overlap");
    EXPECT(hr_all_reduce(g, x, x, 1, HR_BF16, HR_SUM, s), HR_ERR_INVALID, "bf16");
    EXPECT(hr_all_reduce(g, x, x, 1, (hr_dtype)99, HR_SUM, s), HR_ERR_INVALID, "99");
    EXPECT(hr_all_reduce(g, x, x, 1, HR_F32, (hr_reduce)7, s), HR_ERR_INVALID, "7");
    EXPECT(hr_all_reduce(g, (char *)x + 1, (char *)x + 1, 1, HR_F32, HR_SUM, s),
           HR_ERR_INVALID, "aligned");
    EXPECT(hr_all_gather(g, x, x + 3, INT64_MAX / 2, HR_F32, s), HR_ERR_INVALID,
           "do not fit");
    EXPECT(hr_broadcast(g, x, 4, n, s), HR_ERR_INVALID, "root");
    EXPECT(hr_broadcast(g, x, 4, -1, s), HR_ERR_INVALID, "root");
    EXPECT(hr_broadcast(g, NULL, 4, 0, s), HR_ERR_INVALID, "NULL");
    TRY(hr_barrier(g, s)); /* nothing of this counts as an operation */
    return hr_stream_synchronize(s);
}

static void bad_arguments_are_refused_at_once(void **state)
{
    succeeds_everywhere(refuse, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_reduce_sums_in_rank_order),
        cmocka_unit_test(integers_reduce_by_sum_max_and_min),
        cmocka_unit_test(one_nan_is_in_every_maximum),
        cmocka_unit_test(all_gather_packs_by_rank),
        cmocka_unit_test(reduce_scatter_gives_each_its_part),
        cmocka_unit_test(broadcast_takes_any_root),
        cmocka_unit_test(a_long_broadcast_takes_any_root),
        cmocka_unit_test(barrier_holds_until_all_are_there),
        cmocka_unit_test(many_operations_may_be_queued),
        cmocka_unit_test(sources_may_be_overwritten_by_what_follows),
        cmocka_unit_test(bad_arguments_are_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
