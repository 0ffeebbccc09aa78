/* All-to-all with counts of every shape: no part may be skipped by one side only, and no
 * disagreement may hang. */
#include "conform/group/engines.h"
#include <sched.h>
#include <string.h>

enum { RANKS = 8, PART = 5, MOST = RANKS * 16 };

/* What `from` sends to `to`. */
typedef int64_t (*matrix)(int n, int from, int to);

static int64_t all_zero(int n, int from, int to)
{
    return 0;
}

static int64_t equal(int n, int from, int to)
{
    return PART;
}

static int64_t zero_row(int n, int from, int to)
{
    return from == n / 2 ? 0 : PART;
}

static int64_t zero_column(int n, int from, int to)
{
    return to == n / 2 ? 0 : PART;
}

static int64_t one_pair(int n, int from, int to)
{
    return from == 0 && to == n - 1 ? PART : 0;
}

static int64_t own_part(int n, int from, int to)
{
    return from == to ? PART : 0;
}

static int64_t random_counts(int n, int from, int to)
{
    uint32_t x = number((uint32_t)(n * 100 + from), (uint32_t)to);
    return x % 3 ? x % 16 : 0;
}

static int32_t element(int from, int to, int64_t i)
{
    return from * 100000 + to * 1000 + (int32_t)i;
}

static hr_status exchange(hr_group *g, void *arg)
{
    matrix count = *(matrix *)arg;
    int n = hr_group_size(g), me = hr_group_rank(g);
    int64_t out[RANKS], in[RANKS];
    int32_t send[MOST], recv[MOST + 1], *end = send;
    hr_stream *s = hr_stream_current();
    for (int r = 0; r < n; r++) {
        out[r] = count(n, me, r);
        in[r] = count(n, r, me);
        for (int64_t i = 0; i < out[r]; i++)
            *end++ = element(me, r, i);
    }
    memset(recv, -1, sizeof recv);
    TRY(hr_all_to_all_v(g, send, out, recv, in, sizeof *send, s));
    memset(out, 7, sizeof out); /* copied */
    TRY(hr_stream_synchronize(s));
    const int32_t *got = recv;
    for (int r = 0; r < n; r++)
        for (int64_t i = 0; i < in[r]; i++)
            CHECK(*got++ == element(r, me, i));
    CHECK(*got == -1);
    return HR_OK;
}

static void run_matrix(matrix count)
{
    succeeds_everywhere(exchange, &count);
}

static void pain_4_all_counts_may_be_zero(void **state)
{
    run_matrix(all_zero);
}

static void equal_parts(void **state)
{
    run_matrix(equal);
}

static void pain_4_a_rank_may_send_nothing(void **state)
{
    run_matrix(zero_row);
}

static void pain_4_a_rank_may_get_nothing(void **state)
{
    run_matrix(zero_column);
}

static void pain_4_a_single_pair_may_talk(void **state)
{
    run_matrix(one_pair);
}

static void pain_4_only_own_parts(void **state)
{
    run_matrix(own_part);
}

static void pain_4_random_parts(void **state)
{
    run_matrix(random_counts);
}

static hr_status no_buffers(hr_group *g, void *arg)
{
    int64_t none[RANKS] = {0};
    TRY(hr_all_to_all_v(g, NULL, none, NULL, none, 4, hr_stream_current()));
    return hr_stream_synchronize(hr_stream_current());
}

static void nothing_needs_no_buffer(void **state)
{
    succeeds_everywhere(no_buffers, NULL);
}

static hr_status disagree(hr_group *g, void *arg)
{
    int me = hr_group_rank(g), n = hr_group_size(g);
    int64_t out[RANKS], in[RANKS];
    char send[64], recv[64];
    for (int r = 0; r < n; r++)
        out[r] = in[r] = 3;
    if (me == 1)
        out[2] = 4; /* rank 2 expects 3 */
    TRY(hr_all_to_all_v(g, send, out, recv, in, 1, hr_stream_current()));
    while (hr_group_status(g) == HR_OK)
        sched_yield(); /* a rank whose own counts fit may be through */
    hr_status st = hr_stream_synchronize(hr_stream_current());
    EXPECT(st, HR_ERR_MISMATCH, "rank 1 sends 4 elements to rank 2, which expects 3");
    EXPECT(hr_group_status(g), HR_ERR_MISMATCH, "all_to_all");
    return HR_OK;
}

static void pain_4_a_disagreeing_pair_is_named_with_both_counts(void **state)
{
    fails(4, NULL, disagree, NULL, HR_ERR_MISMATCH,
          WORDS("rank ", "rank 1 sends 4 elements to rank 2, which expects 3",
                "ranks 0,1,2,3"));
}

static hr_status refuse(hr_group *g, void *arg)
{
    int64_t c[RANKS] = {1}, bad[RANKS] = {-2}, huge[RANKS] = {INT64_MAX, INT64_MAX};
    char x[8], y[8];
    hr_stream *s = hr_stream_current();
    EXPECT(hr_all_to_all_v(g, x, NULL, y, c, 1, s), HR_ERR_INVALID, "no send counts");
    EXPECT(hr_all_to_all_v(g, x, c, y, bad, 1, s), HR_ERR_INVALID, "-2");
    EXPECT(hr_all_to_all_v(g, x, huge, y, c, 8, s), HR_ERR_INVALID, "");
    EXPECT(hr_all_to_all_v(g, x, c, y, c, 0, s), HR_ERR_INVALID, "0 bytes");
    EXPECT(hr_all_to_all_v(g, NULL, c, y, c, 1, s), HR_ERR_INVALID, "NULL");
    EXPECT(hr_all_to_all_v(g, x, c, x, c, 1, s), HR_ERR_INVALID, "overlap");
    return HR_OK;
}

static void bad_counts_are_refused_at_once(void **state)
{
    succeeds_everywhere(refuse, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pain_4_all_counts_may_be_zero),
        cmocka_unit_test(equal_parts),
        cmocka_unit_test(pain_4_a_rank_may_send_nothing),
        cmocka_unit_test(pain_4_a_rank_may_get_nothing),
        cmocka_unit_test(pain_4_a_single_pair_may_talk),
        cmocka_unit_test(pain_4_only_own_parts),
        cmocka_unit_test(pain_4_random_parts),
        cmocka_unit_test(nothing_needs_no_buffer),
        cmocka_unit_test(pain_4_a_disagreeing_pair_is_named_with_both_counts),
        cmocka_unit_test(bad_counts_are_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
