/* The imitated link: how long a transfer lasts, that it uses no core, and what the timeline
 * says of it. Times are only bounded from below, which the clock guarantees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/try.h"
#include "headrace/group.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 125000, RANKS = 3 };
static hr_status take_note(hr_group *world, void *arg)
{
    if (hr_group_rank(world) == 0)
        snprintf(arg, 96, "%s", hr_group_link_note(world));
    return HR_OK;
}

static void reports_can_say_that_the_link_is_imitated(void **state)
{
    char note[96] = "?";
    hr_local_opts o = {HR_INIT(hr_local_opts)};
    assert_int_equal(hr_local_run(2, &o, take_note, note), HR_OK);
    assert_string_equal(note, "");
    o.link_gbps = 8;
    o.link_us = 20;
    assert_int_equal(hr_local_run(2, &o, take_note, note), HR_OK);
    assert_string_equal(note, "imitated link, 8 Gbit/s and 20 us");
    o.link_gbps = 0;
    assert_int_equal(hr_local_run(2, &o, take_note, note), HR_OK);
    assert_string_equal(note, "imitated link, 20 us");
}

/* One operation of each kind, under a timeline; rank 0 sends more than it gets. */
static hr_status one_of_each(hr_group *g, void *arg)
{
    static char big[RANKS][2 * BYTES], other[RANKS][2 * BYTES];
    int me = hr_group_rank(g);
    hr_stream *s = hr_stream_current();
    int64_t out[RANKS] = {0}, in[RANKS] = {0};
    hr_p2p ops[] = {{true, (me + 1) % RANKS, big[me], BYTES},
                    {false, (me + 2) % RANKS, other[me], BYTES},
                    {true, me, big[me], BYTES},
                    {false, me, other[me] + BYTES, BYTES}};
    if (me == 0)
        out[0] = out[1] = BYTES, in[0] = BYTES;
    if (me == 1)
        in[0] = BYTES;
    HR_TRY(hr_device_set_timeline(hr_group_device(g), arg));
    HR_TRY(hr_barrier(g, s));
    HR_TRY(hr_all_to_all_v(g, big[me], out, other[me], in, 1, s));
    HR_TRY(hr_broadcast(g, big[me], BYTES, 1, s));
    HR_TRY(hr_group_batch(g, ops, 4, s));
    HR_TRY(hr_stream_synchronize(s));
    return hr_device_set_timeline(hr_group_device(g), NULL);
}

static int64_t longest(hr_timeline *t, int rank, const char *name, hr_span_kind kind,
                       int *found)
{
    int64_t most = -1;
    for (int l = 0; l < hr_timeline_lanes(t); l++) {
        size_t n;
        hr_lane *lane = hr_timeline_lane_at(t, l);
        const hr_span *span = hr_lane_spans(lane, &n);
        for (size_t i = 0; hr_lane_rank(lane) == rank && i < n; i++)
            if (span[i].kind == kind && strcmp(span[i].name, name) == 0) {
                ++*found;
                assert_true(span[i].end_ns >= span[i].begin_ns);
                if (span[i].end_ns - span[i].begin_ns > most)
                    most = span[i].end_ns - span[i].begin_ns;
            }
    }
    return most;
}

/* 125,000 bytes at 1 Gbit/s are 1 ms, after 2 ms of latency. */
static void a_transfer_lasts_latency_and_bytes(void **state)
{
    static const struct {
        const char *name;
        int64_t ns[RANKS];
    } want[] = {{"barrier", {2000000, 2000000, 2000000}},
                {"all_to_all", {3000000, 3000000, 2000000}}, /* own parts are free */
                {"broadcast", {3000000, 3000000, 3000000}},
                {"send_recv", {3000000, 3000000, 3000000}}};
    hr_timeline *t;
    hr_local_opts o = {HR_INIT(hr_local_opts), .link_gbps = 1, .link_us = 2000};
    assert_int_equal(hr_timeline_create(1000, &t), HR_OK);
    assert_int_equal(hr_local_run(RANKS, &o, one_of_each, t), HR_OK);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        for (int r = 0; r < RANKS; r++) {
            int found = 0;
            assert_true(longest(t, r, want[i].name, HR_SPAN_TRANSFER, &found) >=
                        want[i].ns[r]);
            assert_int_equal(found, 1);
        }
    hr_timeline_destroy(t);
}

static hr_status meet_once(hr_group *g, void *arg)
{
    hr_stream *s = hr_stream_current();
    HR_TRY(hr_device_set_timeline(hr_group_device(g), arg));
    HR_TRY(hr_broadcast(g, NULL, 0, 0, s));
    HR_TRY(hr_stream_synchronize(s));
    return hr_device_set_timeline(hr_group_device(g), NULL);
}

/* All but the last wait, until the instant at which everybody's transfer begins. */
static void waiting_for_peers_is_a_span_of_its_own(void **state)
{
    hr_timeline *t;
    int peers = 0, transfers = 0;
    int64_t begin = 0;
    assert_int_equal(hr_timeline_create(1000, &t), HR_OK);
    assert_int_equal(hr_local_run(RANKS, NULL, meet_once, t), HR_OK);
    for (int l = 0; l < hr_timeline_lanes(t); l++) {
        size_t n;
        const hr_span *span = hr_lane_spans(hr_timeline_lane_at(t, l), &n);
        for (size_t i = 0; i < n; i++) {
            bool peer = span[i].kind == HR_SPAN_PEERS;
            if (!peer && span[i].kind != HR_SPAN_TRANSFER)
                continue;
            int64_t at = peer ? span[i].end_ns : span[i].begin_ns;
            assert_true(begin == 0 || at == begin);
            assert_true(span[i].end_ns >= span[i].begin_ns);
            begin = at;
            *(peer ? &peers : &transfers) += 1;
        }
    }
    assert_true(peers >= 1 && peers < RANKS); /* two may arrive at once */
    assert_int_equal(transfers, RANKS);
    hr_timeline_destroy(t);
}

static double cpu_seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static hr_status long_transfers(hr_group *g, void *arg)
{
    HR_TRY(hr_barrier(g, hr_stream_current()));
    HR_TRY(hr_barrier(g, hr_stream_current()));
    return hr_stream_synchronize(hr_stream_current());
}

/* Four ranks sleep for 0.4 s: 1.6 s of cores if they spun. */
static void a_transfer_uses_no_core(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .link_us = 200000};
    double before = cpu_seconds();
    assert_int_equal(hr_local_run(4, &o, long_transfers, NULL), HR_OK);
    assert_true(cpu_seconds() - before < 0.2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_can_say_that_the_link_is_imitated),
        cmocka_unit_test(a_transfer_lasts_latency_and_bytes),
        cmocka_unit_test(waiting_for_peers_is_a_span_of_its_own),
        cmocka_unit_test(a_transfer_uses_no_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
