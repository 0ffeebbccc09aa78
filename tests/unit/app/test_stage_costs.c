/* What slots of a recorded timeline cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stage_costs.h"

enum { RANK = 3, STAGES = 2 };

static hr_timeline *timeline;
static hr_lane *compute;
static stage_windows *windows;

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(hr_timeline_create(64, &timeline), HR_OK);
    assert_int_equal(hr_timeline_lane(timeline, RANK, "compute", &compute), HR_OK);
    assert_int_equal(hr_app_windows_create(STAGES, 8, &windows), HR_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hr_app_windows_destroy(windows);
    hr_timeline_destroy(timeline);
    return 0;
}

static void record(hr_lane *lane, hr_span_kind kind, hr_span_dir dir, int64_t begin,
                   int64_t end)
{
    hr_span s = {.begin_ns = begin,
                 .end_ns = end,
                 .name = "node",
                 .kind = (uint8_t)kind,
                 .dir = (uint8_t)dir};
    hr_lane_add(lane, &s);
}

static void node(hr_span_dir dir, int64_t begin, int64_t end)
{
    record(compute, HR_SPAN_NODE, dir, begin, end);
}

static void window(int forward, int backward, int64_t begin, int64_t end)
{
    stage_window *v = hr_app_windows_add(windows, forward, backward);
    assert_non_null(v);
    v->begin_ns = begin;
    v->end_ns = end;
}

static void assert_times(int stage, double forward, double input, double weight)
{
    stage_times t;
    hr_app_windows_divide(windows, timeline, RANK);
    assert_int_equal(hr_app_windows_times(windows, stage, &t), HR_OK);
    assert_float_equal(t.forward_ns, forward, 1e-6);
    assert_float_equal(t.input_grad_ns, input, 1e-6);
    assert_float_equal(t.weight_grad_ns, weight, 1e-6);
}

static void a_backward_is_divided_as_its_nodes_are(void **state)
{
    (void)state;
    node(HR_DIR_FORWARD, 0, 90); /* of no window */
    node(HR_DIR_BACKWARD, 105, 135);
    node(HR_DIR_WGRAD, 140, 150);
    window(-1, 0, 100, 160);
    assert_times(0, 0, 45, 15);
}

static void a_slot_without_nodes_is_all_its_own(void **state)
{
    (void)state;
    window(1, -1, 100, 110);
    window(-1, 1, 110, 130);
    assert_times(1, 10, 20, 0);
}

static void costs_are_medians_of_their_stage(void **state)
{
    (void)state;
    window(0, -1, 0, 10);
    window(1, -1, 10, 110);
    window(0, -1, 110, 122);
    window(0, -1, 122, 999);
    assert_times(0, 12, 0, 0);
}

static void slots_of_its_own_count_before_pairs(void **state)
{
    (void)state;
    node(HR_DIR_FORWARD, 100, 130);
    node(HR_DIR_BACKWARD, 130, 190);
    window(0, -1, 0, 50);
    window(0, 1, 100, 190);
    assert_times(0, 50, 0, 0);
    assert_times(1, 0, 60, 0);
}

static void a_pair_saves_what_its_halves_would_take_longer(void **state)
{
    (void)state;
    int percent;
    stage_times t[STAGES] = {{.forward_ns = 40},
                             {.input_grad_ns = 50, .weight_grad_ns = 10}};
    window(0, 1, 0, 75);
    window(0, 1, 100, 175);
    hr_app_windows_divide(windows, timeline, RANK);
    assert_int_equal(hr_app_windows_discount(windows, t, &percent), HR_OK);
    assert_int_equal(percent, 25);
}

static void a_pair_that_takes_longer_saves_nothing(void **state)
{
    (void)state;
    int percent;
    stage_times t[STAGES] = {{.forward_ns = 40}, {.input_grad_ns = 40}};
    window(0, 1, 0, 200);
    hr_app_windows_divide(windows, timeline, RANK);
    assert_int_equal(hr_app_windows_discount(windows, t, &percent), HR_OK);
    assert_int_equal(percent, 0);
}

static void windows_end_where_there_is_no_room(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        window(0, -1, 0, 1);
    assert_null(hr_app_windows_add(windows, 0, -1));
    hr_app_windows_clear(windows);
    assert_non_null(hr_app_windows_add(windows, 0, -1));
}

static void a_transfer_is_timed_where_both_sides_are_there(void **state)
{
    (void)state;
    double ns;
    hr_lane *send, *other;
    assert_int_equal(hr_timeline_lane(timeline, RANK, "send", &send), HR_OK);
    assert_int_equal(hr_timeline_lane(timeline, RANK + 1, "send", &other), HR_OK);
    assert_int_equal(hr_app_transfer_time(timeline, RANK, &ns), HR_OK);
    assert_float_equal(ns, 0, 0);
    record(send, HR_SPAN_PEERS, HR_DIR_FORWARD, 0, 500);
    record(send, HR_SPAN_TRANSFER, HR_DIR_FORWARD, 500, 520);
    record(send, HR_SPAN_TRANSFER, HR_DIR_FORWARD, 600, 630);
    record(other, HR_SPAN_TRANSFER, HR_DIR_FORWARD, 0, 9);
    assert_int_equal(hr_app_transfer_time(timeline, RANK, &ns), HR_OK);
    assert_float_equal(ns, 25, 1e-6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_backward_is_divided_as_its_nodes_are),
        TEST(a_slot_without_nodes_is_all_its_own),
        TEST(costs_are_medians_of_their_stage),
        TEST(slots_of_its_own_count_before_pairs),
        TEST(a_pair_saves_what_its_halves_would_take_longer),
        TEST(a_pair_that_takes_longer_saves_nothing),
        TEST(windows_end_where_there_is_no_room),
        TEST(a_transfer_is_timed_where_both_sides_are_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
