/* A rank's lanes as bytes and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/trace.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 4 };

static hr_timeline *make(void)
{
    hr_timeline *t;
    assert_int_equal(hr_timeline_create(ROOM, &t), HR_OK);
    return t;
}

static hr_lane *lane_of(hr_timeline *t, int rank, const char *role)
{
    hr_lane *lane;
    assert_int_equal(hr_timeline_lane(t, rank, role, &lane), HR_OK);
    return lane;
}

/* Of rank 1: a lane with two spans, one that is empty, one with more than its room. Of rank 0: one. */
static hr_timeline *make_full(void)
{
    hr_timeline *t = make();
    hr_lane *a = lane_of(t, 1, "compute");
    hr_lane_add(lane_of(t, 0, "compute"),
                &(hr_span){.begin_ns = 1, .end_ns = 2, .name = "other rank"});
    hr_lane_add(a, &(hr_span){.begin_ns = 10,
                              .end_ns = 20,
                              .name = "mlp",
                              .layer = 3,
                              .microbatch = 7,
                              .kind = HR_SPAN_NODE,
                              .dir = HR_DIR_WGRAD});
    hr_lane_add(a, &(hr_span){.begin_ns = 21,
                              .end_ns = 30,
                              .layer = -1,
                              .microbatch = -1,
                              .kind = HR_SPAN_BUSY});
    lane_of(t, 1, "counts");
    a = lane_of(t, 1, "communication");
    for (int i = 0; i < ROOM + 2; i++)
        hr_lane_add(a, &(hr_span){.begin_ns = i, .end_ns = i + 1, .name = "mlp"});
    return t;
}

static void what_was_packed_comes_back_shifted(void **state)
{
    hr_timeline *t = make_full(), *u = make();
    void *bytes;
    size_t size, n;
    assert_int_equal(hr_timeline_pack(t, 1, &bytes, &size), HR_OK);
    hr_timeline_destroy(t);
    assert_int_equal(hr_timeline_unpack(u, bytes, size, 1000), HR_OK);
    free(bytes);
    assert_int_equal(hr_timeline_lanes(u), 3);
    const hr_lane *lane = hr_timeline_lane_at(u, 0);
    assert_int_equal(hr_lane_rank(lane), 1);
    assert_string_equal(hr_lane_role(lane), "compute");
    const hr_span *s = hr_lane_spans(lane, &n);
    assert_int_equal(n, 2);
    assert_int_equal(s[0].begin_ns, 1010);
    assert_int_equal(s[0].end_ns, 1020);
    assert_ptr_equal(s[0].name, hr_intern("mlp"));
    assert_int_equal(s[0].layer, 3);
    assert_int_equal(s[0].microbatch, 7);
    assert_int_equal(s[0].kind, HR_SPAN_NODE);
    assert_int_equal(s[0].dir, HR_DIR_WGRAD);
    assert_null(s[1].name);
    assert_int_equal(s[1].layer, -1);
    hr_lane_spans(hr_timeline_lane_at(u, 1), &n);
    assert_int_equal(n, 0);
    hr_lane_spans(hr_timeline_lane_at(u, 2), &n);
    assert_int_equal(n, ROOM);
    assert_int_equal(hr_timeline_dropped(u), 2);
    hr_timeline_destroy(u);
}

static void a_rank_without_lanes_packs_to_none(void **state)
{
    hr_timeline *t = make_full(), *u = make();
    void *bytes;
    size_t size;
    assert_int_equal(hr_timeline_pack(t, 5, &bytes, &size), HR_OK);
    assert_int_equal(hr_timeline_unpack(u, bytes, size, 0), HR_OK);
    assert_int_equal(hr_timeline_lanes(u), 0);
    free(bytes);
    hr_timeline_destroy(t);
    hr_timeline_destroy(u);
}

/* Each in memory of its own size, so that a read past its end is seen. */
static void bytes_that_were_cut_are_refused(void **state)
{
    hr_timeline *t = make_full(), *u = make();
    void *bytes;
    size_t size;
    assert_int_equal(hr_timeline_pack(t, 1, &bytes, &size), HR_OK);
    for (size_t n = 0; n <= size + 1; n++) {
        char *part = calloc(1, n + 1);
        memcpy(part, bytes, n < size ? n : size);
        assert_int_equal(hr_timeline_unpack(u, part, n, 0),
                         n == size ? HR_OK : HR_ERR_PARSE);
        free(part);
    }
    free(bytes);
    hr_timeline_destroy(t);
    hr_timeline_destroy(u);
}

static void bytes_with_any_word_changed_do_no_harm(void **state)
{
    static const int32_t odd[] = {-1, 0, 1, INT32_MAX, INT32_MIN};
    hr_timeline *t = make_full();
    void *bytes;
    size_t size;
    assert_int_equal(hr_timeline_pack(t, 1, &bytes, &size), HR_OK);
    for (size_t at = 0; at + 4 <= size; at += 4)
        for (size_t k = 0; k < sizeof odd / sizeof odd[0]; k++) {
            hr_timeline *u = make();
            char *copy = malloc(size);
            memcpy(copy, bytes, size);
            memcpy(copy + at, &odd[k], sizeof odd[k]);
            hr_status st = hr_timeline_unpack(u, copy, size, 0);
            assert_true(st == HR_OK || st == HR_ERR_PARSE);
            free(copy);
            hr_timeline_destroy(u);
        }
    free(bytes);
    hr_timeline_destroy(t);
}

static void without_a_place_for_it_nothing_is_packed(void **state)
{
    hr_timeline *t = make();
    void *bytes;
    size_t n;
    assert_int_equal(hr_timeline_pack(t, 0, NULL, &n), HR_ERR_INVALID);
    assert_int_equal(hr_timeline_pack(t, 0, &bytes, NULL), HR_ERR_INVALID);
    assert_null(bytes);
    assert_int_equal(hr_timeline_pack(NULL, 0, &bytes, &n), HR_ERR_INVALID);
    assert_int_equal(hr_timeline_unpack(NULL, "", 0, 0), HR_ERR_INVALID);
    assert_int_equal(hr_timeline_unpack(t, NULL, 0, 0), HR_ERR_INVALID);
    hr_timeline_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_packed_comes_back_shifted),
        cmocka_unit_test(a_rank_without_lanes_packs_to_none),
        cmocka_unit_test(bytes_that_were_cut_are_refused),
        cmocka_unit_test(bytes_with_any_word_changed_do_no_harm),
        cmocka_unit_test(without_a_place_for_it_nothing_is_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
