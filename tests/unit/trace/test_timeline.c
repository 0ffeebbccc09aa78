/* Lanes and their spans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/trace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static hr_timeline *make(size_t spans)
{
    hr_timeline *t;
    assert_int_equal(hr_timeline_create(spans, &t), HR_OK);
    return t;
}

static hr_lane *lane_of(hr_timeline *t, int rank, const char *role)
{
    hr_lane *lane;
    assert_int_equal(hr_timeline_lane(t, rank, role, &lane), HR_OK);
    return lane;
}

static void add(hr_lane *lane, int64_t begin, int64_t end, const char *name)
{
    hr_lane_add(lane, &(hr_span){.begin_ns = begin, .end_ns = end, .name = name});
}

static void lanes_keep_rank_role_and_order(void **state)
{
    hr_timeline *t = make(4);
    char role[] = "compute";
    lane_of(t, 0, role);
    strcpy(role, "xxxxxxx"); /* copied, so this must not show */
    for (int i = 1; i < 20; i++)
        lane_of(t, i, "communication");
    assert_int_equal(hr_timeline_lanes(t), 20);
    assert_string_equal(hr_lane_role(hr_timeline_lane_at(t, 0)), "compute");
    assert_int_equal(hr_lane_rank(hr_timeline_lane_at(t, 19)), 19);
    assert_null(hr_timeline_lane_at(t, 20));
    assert_null(hr_timeline_lane_at(t, -1));
    hr_timeline_destroy(t);
}

static void spans_stand_in_order_of_end(void **state)
{
    hr_timeline *t = make(8);
    hr_lane *lane = lane_of(t, 0, "compute");
    add(lane, 0, 10, "a");
    add(lane, 20, 30, "c");
    add(lane, 5, 20, "b");
    add(lane, 25, 30, "d"); /* equal ends stay as they came */
    size_t n;
    const hr_span *spans = hr_lane_spans(lane, &n);
    assert_int_equal(n, 4);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(spans[i].name[0], 'a' + (int)i);
    hr_timeline_destroy(t);
}

static void what_does_not_fit_is_counted(void **state)
{
    hr_timeline *t = make(2);
    hr_lane *lane = lane_of(t, 0, "compute");
    for (int i = 0; i < 5; i++)
        add(lane, i, i + 1, "x");
    size_t n;
    hr_lane_spans(lane, &n);
    assert_int_equal(n, 2);
    assert_int_equal(hr_timeline_dropped(t), 3);
    hr_timeline_destroy(t);
}

static void clear_keeps_the_lanes(void **state)
{
    hr_timeline *t = make(1);
    hr_lane *lane = lane_of(t, 0, "compute");
    add(lane, 0, 1, "x");
    add(lane, 1, 2, "y");
    hr_timeline_clear(t, -1);
    size_t n;
    hr_lane_spans(lane, &n);
    assert_int_equal(n, 0);
    assert_int_equal(hr_timeline_dropped(t), 0);
    assert_int_equal(hr_timeline_lanes(t), 1);
    add(lane, 0, 1, "z");
    assert_string_equal(hr_lane_spans(lane, &n)[0].name, "z");
    hr_timeline_destroy(t);
}

static void nothing_is_recorded_without_a_lane(void **state)
{
    add(NULL, 0, 1, "x");
    assert_int_equal(hr_timeline_lanes(NULL), 0);
    hr_timeline_destroy(NULL);
}

static void sizes_that_make_no_sense_are_refused(void **state)
{
    hr_timeline *t = (hr_timeline *)state;
    assert_int_equal(hr_timeline_create(0, &t), HR_ERR_INVALID);
    assert_null(t);
    assert_int_equal(hr_timeline_create(SIZE_MAX, &t), HR_ERR_INVALID);
    hr_lane *lane;
    assert_int_equal(hr_timeline_lane(NULL, 0, "compute", &lane), HR_ERR_INVALID);
}

static void nowhere_to_put_it_is_refused(void **state)
{
    hr_timeline *t;
    assert_int_equal(hr_timeline_create(1, NULL), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "no_out");
    assert_int_equal(hr_timeline_create(1, &t), HR_OK);
    hr_error_clear();
    assert_int_equal(hr_timeline_lane(t, 0, "compute", NULL), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "no_out");
    assert_int_equal(hr_timeline_lanes(t), 0);
    hr_error_clear();
    assert_int_equal(hr_timeline_overlap(t, 0, NULL), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "no_out");
    hr_timeline_destroy(t);
}

struct writer {
    hr_timeline *t;
    int rank;
    hr_status st;
};

static void *write_lane(void *arg)
{
    struct writer *w = arg;
    hr_lane *lane;
    w->st = hr_timeline_lane(w->t, w->rank, "compute", &lane);
    for (int i = 0; w->st == HR_OK && i < 5000; i++)
        add(lane, i, i + 1, "x");
    return NULL;
}

static void many_lanes_keep_their_places(void **state)
{
    enum { LANES = 100 };
    hr_timeline *t = make(1);
    hr_lane *lane[LANES];
    for (int i = 0; i < LANES; i++) {
        assert_int_equal(hr_timeline_lane(t, i, "compute", &lane[i]), HR_OK);
        assert_int_equal(hr_timeline_lanes(t), i + 1);
    }
    for (int i = 0; i < LANES; i++) {
        assert_ptr_equal(hr_timeline_lane_at(t, i), lane[i]);
        assert_int_equal(hr_lane_rank(lane[i]), i);
    }
    assert_null(hr_timeline_lane_at(t, LANES));
    assert_null(hr_timeline_lane_at(t, -1));
    hr_timeline_destroy(t);
}

static void *clear_own_lanes(void *arg)
{
    struct writer *w = arg;
    for (int i = 0; i < 200; i++) {
        hr_lane *lane;
        if (w->st == HR_OK)
            w->st = hr_timeline_lane(w->t, w->rank, "compute", &lane);
        hr_timeline_clear(w->t, w->rank);
    }
    return NULL;
}

static void a_rank_goes_through_its_lanes_while_another_adds(void **state)
{
    hr_timeline *t = make(1);
    pthread_t threads[2];
    struct writer writers[2];
    for (int i = 0; i < 2; i++) {
        writers[i] = (struct writer){.t = t, .rank = i};
        assert_int_equal(
            pthread_create(&threads[i], NULL, clear_own_lanes, &writers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(writers[i].st, HR_OK);
    }
    assert_int_equal(hr_timeline_lanes(t), 400);
    hr_timeline_destroy(t);
}

static void threads_write_lanes_of_their_own(void **state)
{
    hr_timeline *t = make(5000);
    pthread_t threads[4];
    struct writer writers[4];
    for (int i = 0; i < 4; i++) {
        writers[i] = (struct writer){.t = t, .rank = i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_lane, &writers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(writers[i].st, HR_OK);
    }
    assert_int_equal(hr_timeline_lanes(t), 4);
    for (int i = 0; i < 4; i++) {
        size_t n;
        hr_lane_spans(hr_timeline_lane_at(t, i), &n);
        assert_int_equal(n, 5000);
    }
    assert_int_equal(hr_timeline_dropped(t), 0);
    hr_timeline_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_keep_rank_role_and_order),
        cmocka_unit_test(spans_stand_in_order_of_end),
        cmocka_unit_test(what_does_not_fit_is_counted),
        cmocka_unit_test(clear_keeps_the_lanes),
        cmocka_unit_test(nothing_is_recorded_without_a_lane),
        cmocka_unit_test(sizes_that_make_no_sense_are_refused),
        cmocka_unit_test(nowhere_to_put_it_is_refused),
        cmocka_unit_test(many_lanes_keep_their_places),
        cmocka_unit_test(a_rank_goes_through_its_lanes_while_another_adds),
        cmocka_unit_test(threads_write_lanes_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
