/* Overlap, on spans made by hand so that the right answer can be drawn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/trace.h"

static hr_lane *lane_of(hr_timeline *t, int rank, const char *role)
{
    hr_lane *lane;
    assert_int_equal(hr_timeline_lane(t, rank, role, &lane), HR_OK);
    return lane;
}

static int make(void **state)
{
    return hr_timeline_create(16, (hr_timeline **)state) == HR_OK ? 0 : -1;
}

static int destroy(void **state)
{
    hr_timeline_destroy(*state);
    return 0;
}

static void add(hr_lane *lane, hr_span_kind kind, int64_t begin, int64_t end)
{
    hr_lane_add(lane, &(hr_span){.begin_ns = begin,
                                 .end_ns = end,
                                 .name = "x",
                                 .kind = (uint8_t)kind});
}

static void expect(const hr_timeline *t, int rank, hr_overlap want)
{
    hr_overlap got;
    assert_int_equal(hr_timeline_overlap(t, rank, &got), HR_OK);
    assert_int_equal(got.comm_ns, want.comm_ns);
    assert_int_equal(got.hidden_ns, want.hidden_ns);
    assert_int_equal(got.compute_ns, want.compute_ns);
    assert_int_equal(got.peers_ns, want.peers_ns);
    assert_int_equal(got.span_ns, want.span_ns);
}

/*  compute        [10==30]   [40====60]
 *  communication      [20------50]   hidden: 20..30 and 40..50 */
static void hidden_is_what_compute_covers(void **state)
{
    hr_timeline *t = *state;
    hr_lane *comp = lane_of(t, 0, "compute"), *comm = lane_of(t, 0, "communication");
    add(comp, HR_SPAN_BUSY, 10, 30);
    add(comp, HR_SPAN_BUSY, 40, 60);
    add(comm, HR_SPAN_TRANSFER, 20, 50);
    expect(
        t, 0,
        (hr_overlap){.comm_ns = 30, .hidden_ns = 20, .compute_ns = 40, .span_ns = 50});
}

/* Two transfers at once on two lanes are communication once; so is compute of two lanes. */
static void time_shared_by_lanes_counts_once(void **state)
{
    hr_timeline *t = *state;
    hr_lane *a = lane_of(t, 0, "communication"), *b = lane_of(t, 0, "communication");
    hr_lane *c = lane_of(t, 0, "compute"), *d = lane_of(t, 0, "compute");
    add(a, HR_SPAN_TRANSFER, 0, 20);
    add(b, HR_SPAN_TRANSFER, 10, 30);
    add(b, HR_SPAN_TRANSFER, 30, 35); /* touches the one before */
    add(c, HR_SPAN_BUSY, 5, 15);
    add(d, HR_SPAN_BUSY, 8, 12); /* inside another */
    expect(
        t, 0,
        (hr_overlap){.comm_ns = 35, .hidden_ns = 10, .compute_ns = 10, .span_ns = 35});
}

static void waiting_for_peers_is_not_communication(void **state)
{
    hr_timeline *t = *state;
    hr_lane *comp = lane_of(t, 0, "compute"), *comm = lane_of(t, 0, "communication");
    add(comm, HR_SPAN_PEERS, 0, 50);
    add(comm, HR_SPAN_TRANSFER, 50, 60);
    add(comm, HR_SPAN_BUSY, 0, 60);
    add(comp, HR_SPAN_BUSY, 0, 50);
    expect(
        t, 0,
        (hr_overlap){.comm_ns = 10, .compute_ns = 50, .peers_ns = 50, .span_ns = 60});
}

static void nodes_and_other_lanes_do_not_count(void **state)
{
    hr_timeline *t = *state;
    add(lane_of(t, 0, "compute"), HR_SPAN_NODE, 0, 100);
    add(lane_of(t, 0, "counts"), HR_SPAN_TRANSFER, 100, 140);
    add(lane_of(t, 0, "counts"), HR_SPAN_BUSY, 0, 140);
    expect(t, 0, (hr_overlap){.span_ns = 140});
}

static void ranks_are_measured_apart(void **state)
{
    hr_timeline *t = *state;
    add(lane_of(t, 0, "compute"), HR_SPAN_BUSY, 0, 100);
    add(lane_of(t, 1, "communication"), HR_SPAN_TRANSFER, 0, 100);
    expect(t, 0, (hr_overlap){.compute_ns = 100, .span_ns = 100});
    expect(t, 1, (hr_overlap){.comm_ns = 100, .span_ns = 100});
}

static void a_lane_without_spans_gives_zeros(void **state)
{
    lane_of(*state, 0, "compute");
    expect(*state, 0, (hr_overlap){0});
}

static void a_rank_without_lanes_is_refused(void **state)
{
    hr_overlap got;
    assert_int_equal(hr_timeline_overlap(*state, 7, &got), HR_ERR_INVALID);
    assert_string_equal(hr_last_error(), "the timeline has no lane of rank 7");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hidden_is_what_compute_covers),
        TEST(time_shared_by_lanes_counts_once),
        TEST(waiting_for_peers_is_not_communication),
        TEST(nodes_and_other_lanes_do_not_count),
        TEST(ranks_are_measured_apart),
        TEST(a_lane_without_spans_gives_zeros),
        TEST(a_rank_without_lanes_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
