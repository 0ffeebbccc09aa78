/* Which ranks stand together: layouts, the set-up of a world, and what is refused. The recordings of
 * the original are run by conform_megatron; here is what they do not hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/group.h"
#include <string.h>

#define LAYOUT(...) (&(hr_rank_layout_opts){HR_INIT(hr_rank_layout_opts), __VA_ARGS__})
#define WORLD(...)  (&(hr_world_layout_opts){HR_INIT(hr_world_layout_opts), __VA_ARGS__})

static void expect_groups(const hr_rank_layout *l, const char *axes, const int *want,
                          int n, int size)
{
    hr_rank_groups g;
    assert_int_equal(hr_rank_layout_groups(l, axes, &g), HR_OK);
    assert_int_equal(g.n, n);
    assert_int_equal(g.size, size);
    for (int i = 0; i < n * size; i++)
        assert_int_equal(g.ranks[i], want[i]);
    hr_rank_groups_fini(&g);
    assert_null(g.ranks);
}

static void groups_hold_the_ranks_that_differ_in_their_axes_alone(void **state)
{
    hr_rank_layout l;
    assert_int_equal(hr_rank_layout_init(&l, LAYOUT(.tp = 2, .dp = 2, .pp = 2)), HR_OK);
    assert_int_equal(l.ranks, 8);
    expect_groups(&l, "dp", (int[]){0, 2, 1, 3, 4, 6, 5, 7}, 4, 2);
    expect_groups(&l, "pp", (int[]){0, 4, 1, 5, 2, 6, 3, 7}, 4, 2);
    expect_groups(&l, "tp-pp", (int[]){0, 1, 4, 5, 2, 3, 6, 7}, 2, 4);
    expect_groups(&l, "PP-tp", (int[]){0, 1, 4, 5, 2, 3, 6, 7}, 2, 4);
    expect_groups(&l, "ep", (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8, 1);
}

static void order_and_offset_move_the_ranks(void **state)
{
    hr_rank_layout l;
    assert_int_equal(hr_rank_layout_init(
                         &l, LAYOUT(.dp = 2, .pp = 2, .order = "PP-dp", .offset = 10)),
                     HR_OK);
    assert_int_equal(l.axis[0], HR_AXIS_PP);
    assert_int_equal(l.axis[2], HR_AXIS_TP); /* left out: comes after */
    expect_groups(&l, "pp", (int[]){10, 11, 12, 13}, 2, 2);
    expect_groups(&l, "dp", (int[]){10, 12, 11, 13}, 2, 2);
}

static void a_layout_of_defaults_is_one_rank(void **state)
{
    hr_rank_layout l;
    assert_int_equal(hr_rank_layout_init(&l, NULL), HR_OK);
    assert_int_equal(l.ranks, 1);
    expect_groups(&l, "tp-cp-ep-dp-pp", (int[]){0}, 1, 1);
}

static void expect_no_layout(const hr_rank_layout_opts *o, const char *reason)
{
    hr_rank_layout l;
    assert_int_equal(hr_rank_layout_init(&l, o), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), reason);
    assert_int_equal(l.ranks, 0);
}

static void layouts_that_cannot_be_are_refused_with_the_reason(void **state)
{
    expect_no_layout(LAYOUT(.tp = -1), "layout_size");
    expect_no_layout(LAYOUT(.tp = 1 << 12, .dp = 1 << 12), "layout_size");
    expect_no_layout(LAYOUT(.tp = INT32_MAX, .dp = INT32_MAX, .pp = INT32_MAX),
                     "layout_size");
    expect_no_layout(LAYOUT(.offset = -1), "layout_size");
    expect_no_layout(LAYOUT(.ep = 2, .cp = 2), "layout_ep_cp");
    expect_no_layout(LAYOUT(.order = "tp-xx"), "layout_axis");
    expect_no_layout(LAYOUT(.order = ""), "layout_axis");
    expect_no_layout(LAYOUT(.order = "tp-"), "layout_axis");
    expect_no_layout(LAYOUT(.order = "tp-dp-tp"), "layout_axis");
    expect_no_layout(LAYOUT(.pp = 2, .order = "tp-dp"), "layout_order");
    /* the letters of tp are in it, the axis is not */
    expect_no_layout(LAYOUT(.tp = 2, .order = "gtp_remat-dp-pp"), "layout_order");
    expect_no_layout(&(hr_rank_layout_opts){.size = 3}, "opts_size");
    assert_int_equal(hr_rank_layout_init(NULL, NULL), HR_ERR_INVALID);
}

static void a_long_word_is_quoted_in_part(void **state)
{
    char order[4096];
    memset(order, 'x', sizeof order);
    order[sizeof order - 1] = '\0';
    expect_no_layout(LAYOUT(.order = order), "layout_axis");
}

static void groups_of_what_is_no_axis_are_refused(void **state)
{
    hr_rank_layout l;
    hr_rank_groups g;
    assert_int_equal(hr_rank_layout_init(&l, LAYOUT(.dp = 2)), HR_OK);
    const char *const bad[] = {"", "xx", "dp-", "dp-xx", "-dp", "d"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(hr_rank_layout_groups(&l, bad[i], &g), HR_ERR_INVALID);
        assert_string_equal(hr_last_reason(), "layout_token");
        assert_null(g.ranks);
    }
    assert_int_equal(hr_rank_layout_groups(NULL, "dp", &g), HR_ERR_INVALID);
    assert_int_equal(hr_rank_layout_groups(&l, NULL, &g), HR_ERR_INVALID);
    assert_int_equal(hr_rank_layout_groups(&l, "dp", NULL), HR_ERR_INVALID);
}

static void more_ranks_than_the_axes_have_are_refused(void **state)
{
    hr_rank_groups g;
    const int two[] = {2, 2}, none[] = {2, 0};
    const bool first[] = {true, false};
    assert_int_equal(hr_rank_groups_masked(8, two, first, 2, &g), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "layout_size");
    assert_int_equal(hr_rank_groups_masked(4, none, first, 2, &g), HR_ERR_INVALID);
    assert_int_equal(hr_rank_groups_masked(-4, two, first, 2, &g), HR_ERR_INVALID);
    assert_int_equal(hr_rank_groups_masked(4, two, first, 0, &g), HR_ERR_INVALID);
}

static void an_injected_order_that_does_not_fit_is_refused(void **state)
{
    char out[16];
    assert_int_equal(hr_rank_order_inject("tp-pp", "tp", out, sizeof out), HR_OK);
    assert_string_equal(out, "tp-gtp_remat-pp"); /* fits to the byte */
    assert_int_equal(hr_rank_order_inject("tp-cp-pp", "tp", out, sizeof out),
                     HR_ERR_INVALID);
    assert_string_equal(out, "");
}

static void every_rank_finds_the_groups_it_is_in(void **state)
{
    hr_world_layout *w;
    const int *ranks;
    int n;
    assert_int_equal(hr_world_layout_create(WORLD(.ranks = 8, .pp = 2, .ep = 2), &w),
                     HR_OK);
    for (int rank = 0; rank < 8; rank++) {
        for (int k = 0; k < HR_WORLD_GROUPS; k++) {
            int at = hr_world_layout_find(w, (hr_world_group)k, rank), held = 0;
            if (at < 0)
                continue;
            assert_int_equal(hr_world_layout_at(w, at, &ranks, &n), k);
            for (int i = 0; i < n; i++)
                held += ranks[i] == rank;
            assert_int_equal(held, 1);
        }
    }
    /* experts are replicated over dp / ep */
    (void)hr_world_layout_at(w, hr_world_layout_find(w, HR_WORLD_DP, 0), &ranks, &n);
    assert_int_equal(n, 4);
    (void)hr_world_layout_at(w, hr_world_layout_find(w, HR_WORLD_EXPERT_DP, 0), &ranks,
                             &n);
    assert_int_equal(n, 2);
    /* the last stage has no position embedding */
    assert_true(hr_world_layout_find(w, HR_WORLD_POSITION_EMBEDDING, 0) >= 0);
    assert_int_equal(hr_world_layout_find(w, HR_WORLD_POSITION_EMBEDDING, 4), -1);
    assert_int_equal(hr_world_layout_find(w, HR_WORLD_DP, 8), -1);
    assert_int_equal(hr_world_layout_at(w, hr_world_layout_count(w), &ranks, &n),
                     HR_WORLD_GROUPS);
    assert_null(ranks);
    hr_world_layout_destroy(w);
}

static void expect_no_world(const hr_world_layout_opts *o, const char *reason)
{
    hr_world_layout *w;
    assert_int_equal(hr_world_layout_create(o, &w), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), reason);
    assert_null(w);
}

static void worlds_that_cannot_be_are_refused_with_the_reason(void **state)
{
    expect_no_world(WORLD(.ranks = 6, .tp = 4), "world_size");
    expect_no_world(WORLD(.ranks = 8, .ep = 3), "world_size");
    expect_no_world(WORLD(.ranks = -8), "world_size");
    expect_no_world(WORLD(.ranks = 8, .tp = -2), "world_size");
    expect_no_world(WORLD(.ranks = 8, .tp = INT32_MAX, .cp = INT32_MAX), "world_size");
    expect_no_world(WORLD(.ranks = 1 << 30), "world_size");
    expect_no_world(WORLD(.ranks = 4, .vp = 2), "world_vp");
    expect_no_world(WORLD(.ranks = 4, .vp = -1), "world_vp");
    expect_no_world(WORLD(.ranks = 8, .pp = 2, .ep = 2, .order = "tp-cp-ep-pp-dp"),
                    "world_pp_last");
    expect_no_world(WORLD(.ranks = 8, .tp = 2, .pp = 2, .ep = 2, .expert_tp = 1,
                          .order = "tp-pp-dp-cp-ep"),
                    "world_pp_groups");
    expect_no_world(WORLD(.ranks = 8, .order = "tp-pp-xx"), "layout_axis");
    expect_no_world(&(hr_world_layout_opts){.size = 3}, "opts_size");
    assert_int_equal(hr_world_layout_create(NULL, NULL), HR_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_hold_the_ranks_that_differ_in_their_axes_alone),
        cmocka_unit_test(order_and_offset_move_the_ranks),
        cmocka_unit_test(a_layout_of_defaults_is_one_rank),
        cmocka_unit_test(layouts_that_cannot_be_are_refused_with_the_reason),
        cmocka_unit_test(a_long_word_is_quoted_in_part),
        cmocka_unit_test(groups_of_what_is_no_axis_are_refused),
        cmocka_unit_test(more_ranks_than_the_axes_have_are_refused),
        cmocka_unit_test(an_injected_order_that_does_not_fit_is_refused),
        cmocka_unit_test(every_rank_finds_the_groups_it_is_in),
        cmocka_unit_test(worlds_that_cannot_be_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
