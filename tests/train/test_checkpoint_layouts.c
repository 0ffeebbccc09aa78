/* Checkpoints of four unlike layouts of ranks, each taken up by each: the first step after loading is
 * that of the run which never stopped, to the bit in the same layout, and within 1e-5 in another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/run_outcome.h"
#include <string.h>

/* A matrix with several holders and a layer that is on one stage alone are in all of them. */
#define MODEL "--layers 8 --tie-embeddings on --mtp on "
static const char *const layouts[] = {
    MODEL "--ep 4", MODEL "--pp 2 --vp 2 --ep 2",
    MODEL "--pp 2 --ep 2 --dp 4 --shard-optimizer on",          /* experts twice */
    MODEL "--pp 4 --schedule dualpipe --layout Et|ttt|tttt|mL", /* stages twice */
};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0], AT = 2 };
#ifdef HR_TEST_FEW
static const bool FEW = true; /* with sanitizers: each once */
#else
static const bool FEW = false;
#endif

static train_options left[LAYOUTS]; /* where each has a checkpoint after two steps */
static run_outcome want[LAYOUTS];   /* and what it comes to after three */

static void must(int i, hr_status st)
{
    if (st < 0)
        fail_msg("%s: %s", layouts[i], hr_last_error());
}

/* No cosine that knows the number of steps. */
static void fresh(train_options *o, int i, int64_t steps)
{
    must(i, run_outcome_options(o, layouts[i]));
    o->steps = steps;
    o->min_lr = o->lr;
    o->keep = 2;
}

static int run_all(void **state)
{
    for (int i = 0; i < LAYOUTS; i++) {
        train_options whole;
        fresh(&whole, i, AT + 1);
        must(i, run_outcome_steps(&whole, &want[i]));
        train_case_fini(&whole);
        fresh(&left[i], i, AT);
        must(i, hr_app_train_steps(&left[i]));
    }
    return 0;
}

static int remove_all(void **state)
{
    for (int i = 0; i < LAYOUTS; i++) {
        train_case_fini(&left[i]);
        run_outcome_fini(&want[i]);
    }
    return 0;
}

/* The third step of layout `to` from the checkpoint of `from`, which stays as it was. */
static void third_step(int from, int to, run_outcome *got)
{
    train_options o;
    fresh(&o, to, AT + 1);
    train_case_fini(&o);
    snprintf(o.out, sizeof o.out, "%s", left[from].out);
    o.resume = 1;
    must(to, run_outcome_steps(&o, got));
    assert_int_equal(got->state.info.step, AT + 1);
    assert_int_equal(got->state.info.updates, AT + 1);
    int n = snprintf(o.out, sizeof o.out, "%s/checkpoint/step-%08d", left[from].out,
                     AT + 1);
    assert_true(n < (int)sizeof o.out);
    train_case_fini(&o);
}

static void the_same_layout_goes_on_to_the_bit(void **state)
{
    for (int i = 0; i < LAYOUTS; i++) {
        run_outcome got;
        third_step(i, i, &got);
        if (!run_outcome_same(&got, &want[i]))
            fail_msg("%s: other bits", layouts[i]);
        run_outcome_fini(&got);
    }
}

static void each_goes_on_from_each_of_the_others(void **state)
{
    for (int i = 0; i < LAYOUTS * LAYOUTS; i++) {
        run_outcome got;
        double worst;
        int from = i / LAYOUTS, to = i % LAYOUTS;
        if (from == to || (FEW && to != (from + 1) % LAYOUTS))
            continue;
        third_step(from, to, &got);
        hr_status st = run_outcome_near(&got, &want[from], &worst);
        print_message("%d to %d: distance %.1e\n", from, to, worst);
        must(to, st);
        run_outcome_fini(&got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_layout_goes_on_to_the_bit),
        cmocka_unit_test(each_goes_on_from_each_of_the_others),
    };
    return cmocka_run_group_tests(tests, run_all, remove_all);
}
