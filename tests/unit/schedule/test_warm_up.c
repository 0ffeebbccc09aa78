/* V schedules start full: within their limit no rank waits for a backward where it could still do a
 * forward, and what is gained at the start shows in the makespan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/schedule.h"

static hr_schedule *made(const char *name, int p, int m)
{
    hr_schedule *s = NULL;
    hr_generate_opts o = {HR_INIT(hr_generate_opts), .ranks = p, .chunks = 2,
                          .microbatches = m};
    if (hr_schedule_generate(name, &o, &s) < 0)
        fail_msg("%s", hr_last_error());
    return s;
}

static int forwards_ahead(const hr_schedule *s, int rank)
{
    size_t n;
    const hr_action *a = hr_schedule_order(s, rank, &n);
    size_t k = 0;
    while (k < n && a[k].kind == HR_ACTION_F)
        k++;
    return (int)k;
}

static void expect_full_start(const char *name, int p, int m, int limit, int units)
{
    hr_schedule *s = made(name, p, m);
    hr_figures *f = NULL;
    assert_int_equal(hr_schedule_check(s, NULL, NULL), HR_OK);
    assert_int_equal(hr_schedule_simulate(s, NULL, &f), HR_OK);
    assert_true(f->makespan <= units * HR_TICKS);
    for (int r = 0; r < p; r++)
        assert_true(f->rank[r].peak_act <= limit);
    assert_int_equal(forwards_ahead(s, 0), limit);
    assert_int_equal(forwards_ahead(s, p - 1), limit);
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

static void v_schedules_start_full(void **state)
{
    expect_full_start("v-half", 4, 16, 6, 101);
    expect_full_start("v-half", 8, 32, 10, 209);
    expect_full_start("1f1b-v", 4, 16, 6, 111);
    expect_full_start("1f1b-v", 8, 32, 12, 225);
}

static int64_t makespan(const char *name, int p, int m, int *held)
{
    hr_schedule *s = made(name, p, m);
    hr_figures *f = NULL;
    assert_int_equal(hr_schedule_check(s, NULL, NULL), HR_OK);
    assert_int_equal(hr_schedule_simulate(s, NULL, &f), HR_OK);
    int64_t units = f->makespan / HR_TICKS;
    *held = f->rank[0].peak_act;
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
    return units;
}

/* Where weight gradients come late, less of the limit is taken at the start. */
static void v_min_leaves_room_for_late_weight_gradients(void **state)
{
    int held;
    assert_int_equal(makespan("v-min", 8, 32, &held), 219);
    assert_int_equal(held, 7);
    assert_int_equal(makespan("v-min", 2, 5, &held), 33);
    assert_true(held <= 3);
}

/* A microbatch more costs a period of six, no more: the rhythm is kept from the start to the end. */
static void v_schedules_keep_their_rhythm(void **state)
{
    static const char *const names[] = {"v-half", "v-min", "1f1b-v"};
    for (int k = 0; k < 3; k++)
        for (int p = 2; p <= 9; p++) {
            int held;
            int64_t first = makespan(names[k], p, 3 * p, &held);
            assert_true(makespan(names[k], p, 4 * p, &held) <= first + INT64_C(6) * p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v_schedules_start_full),
        cmocka_unit_test(v_min_leaves_room_for_late_weight_gradients),
        cmocka_unit_test(v_schedules_keep_their_rhythm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
