/* Merging neighbours into overlapped pairs: what comes out is the same work in the same order, still runs,
 * and no further neighbours could be merged alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/schedule.h"

#include <stdlib.h>
#include <string.h>

static hr_schedule *made(const char *name, int p, int v, int m)
{
    hr_schedule *s = NULL;
    hr_generate_opts o = {HR_INIT(hr_generate_opts), .ranks = p, .chunks = v,
                          .microbatches = m};
    return hr_schedule_generate(name, &o, &s) < 0 ? NULL : s;
}

static hr_schedule *merged(const hr_schedule *s, int *pairs)
{
    hr_schedule *out = NULL;
    if (hr_schedule_merge_pairs(s, &out, pairs) < 0 ||
        hr_schedule_check(out, NULL, NULL) < 0)
        fail_msg("%s", hr_last_error());
    return out;
}

static bool same(const hr_action *a, const hr_action *b)
{
    return a->kind == b->kind && a->stage == b->stage && a->microbatch == b->microbatch;
}

static bool mergeable(const hr_action *a, const hr_action *b)
{
    const hr_action *f = a->kind == HR_ACTION_F ? a : b;
    const hr_action *g = f == a ? b : a;
    return f->kind == HR_ACTION_F &&
           (g->kind == HR_ACTION_B || g->kind == HR_ACTION_I) &&
           f->microbatch != g->microbatch;
}

/* The order of `rank` is the same but for pairs, whose halves may have changed places. Returns the
 * number of pairs. */
static int compare_rank(const hr_schedule *s, const hr_schedule *out, int rank)
{
    size_t n;
    size_t n_out;
    const hr_action *a = hr_schedule_order(s, rank, &n);
    const hr_action *b = hr_schedule_order(out, rank, &n_out);
    int pairs = 0;
    assert_int_equal(n, n_out);
    for (size_t i = 0; i < n;) {
        if (b[i].pair == 0) {
            assert_true(same(&a[i], &b[i]));
            i++;
            continue;
        }
        assert_true(b[i].pair == 2 && mergeable(&b[i], &b[i + 1]));
        assert_int_equal(b[i].kind, HR_ACTION_F);
        assert_true((same(&a[i], &b[i]) && same(&a[i + 1], &b[i + 1])) ||
                    (same(&a[i], &b[i + 1]) && same(&a[i + 1], &b[i])));
        pairs++;
        i += 2;
    }
    return pairs;
}

/* `s` with the slots at `at` of `rank` as one pair: does it run? */
static bool runs_with(const hr_schedule *s, int rank, size_t at)
{
    hr_schedule_shape shape;
    hr_schedule *more = NULL;
    hr_schedule_get_shape(s, &shape);
    assert_int_equal(hr_schedule_create(&shape, &more), HR_OK);
    for (int r = 0; r < shape.ranks; r++) {
        size_t n;
        const hr_action *a = hr_schedule_order(s, r, &n);
        for (size_t i = 0; i < n;) {
            int slot = r == rank && i == at ? 2 : a[i].pair ? a[i].pair : 1;
            assert_int_equal(hr_schedule_append(more, r, &a[i], slot), HR_OK);
            i += (size_t)slot;
        }
    }
    bool runs = hr_schedule_check(more, NULL, NULL) == HR_OK;
    hr_schedule_destroy(more);
    return runs;
}

static void no_more_can_be_merged(const char *name, const hr_schedule *s)
{
    hr_schedule_shape shape;
    hr_schedule_get_shape(s, &shape);
    for (int r = 0; r < shape.ranks; r++) {
        size_t n;
        const hr_action *a = hr_schedule_order(s, r, &n);
        for (size_t i = 0; i + 1 < n; i++)
            if (a[i].pair == 0 && a[i + 1].pair == 0 && mergeable(&a[i], &a[i + 1]) &&
                runs_with(s, r, i))
                fail_msg("%s p %d stages %d m %d: rank %d could merge at %zu", name,
                         shape.ranks, shape.stages, shape.microbatches, r, i);
    }
}

static void try_sizes(const char *name, int p, int v, int m)
{
    hr_schedule *s = made(name, p, v, m);
    int pairs = -1;
    int again = -1;
    int counted = 0;
    if (s == NULL)
        return;
    hr_schedule *out = merged(s, &pairs);
    hr_schedule *second = merged(out, &again);
    if (!hr_schedule_equal(s, out)) {
        for (int r = 0; r < p; r++)
            counted += compare_rank(s, out, r);
        assert_int_equal(pairs, counted);
        no_more_can_be_merged(name, out);
    }
    if (pairs > 0) /* what has pairs is left as it is */
        assert_true(hr_schedule_equal(out, second));
    assert_int_equal(again, pairs);
    hr_schedule_destroy(second);
    hr_schedule_destroy(out);
    hr_schedule_destroy(s);
}

static void merged_schedules_run_and_hold_the_same_work(void **state)
{
    const char *name;
    for (int i = 0; (name = hr_schedule_name(i)) != NULL; i++)
        for (int p = 1; p <= 5; p++)
            for (int v = 1; v <= 3; v++)
                for (int m = 1; m <= 10; m += 3)
                    try_sizes(name, p, v, m);
}

/* Each rank has a backward in front of each forward after its first p - r. */
static void every_backward_of_1f1b_takes_the_forward_behind_it(void **state)
{
    int pairs;
    hr_schedule *s = made("1f1b", 8, 1, 64);
    hr_schedule *out = merged(s, &pairs);
    int sum = 0;
    for (int r = 0; r < 8; r++)
        sum += 64 - (8 - r);
    assert_int_equal(pairs, sum);
    hr_schedule_destroy(out);
    hr_schedule_destroy(s);
    s = made("1f1b", 2, 1, 3);
    out = merged(s, &pairs);
    char *text = NULL;
    assert_int_equal(hr_schedule_print_csv(out, &text), HR_OK);
    assert_string_equal(text, "0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\r\n"
                              "1F0,(1F1;1B0)OVERLAP_F_B,(1F2;1B1)OVERLAP_F_B,1B2\r\n");
    free(text);
    hr_schedule_destroy(out);
    hr_schedule_destroy(s);
}

/* Which rank of a circle has the lower number says nothing about which has to give its pair up. */
static void a_forward_goes_ahead_whichever_rank_has_it(void **state)
{
    static const char text[] =
        "headrace schedule 1\nranks 2\nstages 2\nmicrobatches 3\nplacement map 1 0\n"
        "rank 0 1F0 1B0 1F1 1B1 1F2 1B2\nrank 1 0F0 0F1 0B0 0F2 0B1 0B2\n";
    hr_schedule *s = NULL;
    int pairs;
    assert_int_equal(hr_schedule_parse(text, strlen(text), &s), HR_OK);
    hr_schedule_destroy(merged(s, &pairs));
    assert_int_equal(pairs, 3);
    hr_schedule_destroy(s);
}

static int64_t makespan(const hr_schedule *s)
{
    hr_figures *f = NULL;
    if (hr_schedule_simulate(s, NULL, &f) < 0)
        fail_msg("%s", hr_last_error());
    int64_t ticks = f->makespan;
    hr_figures_destroy(f);
    return ticks;
}

/* Both halves of a pair are there at its end: that costs time, unless overlap gains some. */
static void a_merged_schedule_simulates_and_lowers(void **state)
{
    int pairs;
    hr_schedule *lowered = NULL;
    hr_schedule *s = made("1f1b", 4, 1, 16);
    assert_int_equal(hr_schedule_set_comm(s, 0, 50), HR_OK);
    hr_schedule *out = merged(s, &pairs);
    assert_int_equal(makespan(s), (3 * 16 + 3 * 3) * HR_TICKS);
    assert_true(makespan(out) < makespan(s));
    assert_int_equal(hr_schedule_lower(out, NULL, &lowered), HR_OK);
    assert_int_equal(hr_schedule_check(lowered, NULL, NULL), HR_OK);
    hr_schedule *refused = out;
    assert_int_equal(hr_schedule_merge_pairs(lowered, &refused, &pairs),
                     HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "lowered");
    assert_null(refused);
    hr_schedule_destroy(lowered);
    hr_schedule_destroy(out);
    hr_schedule_destroy(s);
}

/* Nothing is made of what does not run. */
static void an_unsound_schedule_is_refused(void **state)
{
    hr_schedule *s = NULL;
    hr_schedule *out = NULL;
    int pairs;
    static const char text[] =
        "headrace schedule 1\nranks 2\nstages 2\nmicrobatches 2\nplacement loop\n"
        "rank 0 0F0 0B0 0F1 0B1\nrank 1 1F1 1F0 1B1 1B0\n";
    assert_int_equal(hr_schedule_parse(text, strlen(text), &s), HR_OK);
    assert_int_equal(hr_schedule_merge_pairs(s, &out, &pairs), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "deadlock");
    assert_null(out);
    hr_schedule_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_schedules_run_and_hold_the_same_work),
        cmocka_unit_test(every_backward_of_1f1b_takes_the_forward_behind_it),
        cmocka_unit_test(a_forward_goes_ahead_whichever_rank_has_it),
        cmocka_unit_test(a_merged_schedule_simulates_and_lowers),
        cmocka_unit_test(an_unsound_schedule_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
