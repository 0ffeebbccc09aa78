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
    expect_full_start("v-half", 8, 32, 10, 210);
    expect_full_start("1f1b-v", 4, 16, 6, 111);
    expect_full_start("1f1b-v", 8, 32, 12, 226);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v_schedules_start_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
