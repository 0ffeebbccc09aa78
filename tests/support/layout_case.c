/* layout_case.c: see layout_case.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/layout_case.h"
#include "support/run_outcome.h"
#include <string.h>

static void must(const char *options, hr_status st)
{
    if (st < 0)
        fail_msg("%s: %s", options, hr_last_error());
}

static void expect_near(const char *options, const run_outcome *got,
                        const run_outcome *want, layout_agrees agrees)
{
    double d = 0;
    bool same = run_outcome_same(got, want);
    hr_status st = run_outcome_near(got, want, &d);
    print_message("%-70s %s %.1e\n", options, same ? "same bits" : "distance", d);
    must(options, st);
    if (agrees == SAME_BITS && !same)
        fail_msg("%s: other bits", options);
}

void layout_case_check(const layout_case *c)
{
    train_options o;
    run_outcome r;
    must(c->options, run_outcome_options(&o, c->options));
    const run_outcome *want = run_outcome_on_one_rank(&o);
    if (!want)
        fail_msg("on one rank: %s", hr_last_error());
    must(c->options, run_outcome_steps(&o, &r));
    train_case_fini(&o);
    expect_near(c->options, &r, want, c->agrees);
    run_outcome_fini(&r);
}

void layout_case_forget(void)
{
    run_outcome_forget();
}

/* No cosine that knows the number of steps. */
static void fresh_steps(train_options *o, const char *line, int64_t steps)
{
    must(line, run_outcome_options(o, line));
    o->steps = steps;
    o->min_lr = o->lr;
}

void layout_case_resume(const char *first, const char *then, layout_agrees agrees)
{
    train_options whole, part, rest;
    run_outcome want, got;
    char what[256];
    snprintf(what, sizeof what, "%s, then %s", first, then);
    fresh_steps(&whole, first, 3);
    must(first, run_outcome_steps(&whole, &want));
    fresh_steps(&part, first, 2);
    must(first, hr_app_train_steps(&part));
    fresh_steps(&rest, then, 3);
    train_case_fini(&rest);
    memcpy(rest.out, part.out, sizeof rest.out);
    rest.resume = 1;
    must(then, run_outcome_steps(&rest, &got));
    expect_near(what, &got, &want, agrees);
    train_case_fini(&whole);
    train_case_fini(&part);
    run_outcome_fini(&want);
    run_outcome_fini(&got);
}
