/* A short training run with all that can run at once: ranks, streams, an imitated link, a validation and
 * a checkpoint within it. Built and run under ThreadSanitizer, too, which is what it is for; and
 * under the stream checker, which finds what no event orders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/train_case.h"
#include <stdlib.h>

static void run_by(hr_status (*train)(const train_options *), train_options *o)
{
    o->link_us = 50;
    o->eval_every = o->checkpoint_every = 2;
    if (train(o) < 0)
        fail_msg("ep %d overlap %d delay %d: %s", o->ep, o->overlap, o->delay_wgrad,
                 hr_last_error());
}

static void run(train_options *o)
{
    run_by(hr_app_train_steps, o);
}

/* With pictures and a sample at its end. */
static void run_and_show(train_options *o)
{
    run_by(hr_app_train, o);
}

static void nothing_races_in_a_run_with_overlap(void **state)
{
    for (int delay = 0; delay < 2; delay++) {
        train_options o;
        train_case_init(&o, 2, 3, 3);
        o.delay_wgrad = delay;
        o.model.mtp = delay;
        run(&o);
        train_case_fini(&o);
    }
}

static void nothing_races_in_a_run_on_one_stream(void **state)
{
    train_options o;
    train_case_init(&o, 2, 2, 2);
    o.overlap = 0;
    run(&o);
    train_case_fini(&o);
}

static void over_stages(train_options *o, const char *schedule, int mtp)
{
    train_case_init(o, 2, 4, 2);
    o->pp = 2;
    o->model.mtp = o->model.tie_embeddings = mtp;
    snprintf(o->schedule, sizeof o->schedule, "%s", schedule);
}

static void nothing_races_between_stages(void **state)
{
    static const char *const schedules[] = {"combined", "zbv", "dualpipe"};
    for (int i = 0; i < 3; i++) {
        train_options o;
        over_stages(&o, schedules[i], i % 2);
        o.model.layers = 4;
        run(&o);
        train_case_fini(&o);
    }
}

static void nothing_races_when_a_run_is_resumed_and_sampled(void **state)
{
    train_options o;
    train_case_init(&o, 2, 2, 2);
    run(&o);
    o.resume = 1;
    o.steps = 3;
    run_and_show(&o);
    train_case_fini(&o);
}

/* The text of a file stands where its folder is wanted. */
static void nothing_races_when_a_rank_fails(void **state)
{
    train_options o;
    size_t n;
    train_case_init(&o, 2, 2, 4);
    o.checkpoint_every = 2;
    char path[OPTION_PATH + 16];
    snprintf(path, sizeof path, "%s/checkpoint", o.out);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(hr_app_train(&o), HR_ERR_IO);
    char *metrics = train_case_read(&o, "metrics.jsonl", &n);
    assert_non_null(metrics); /* it had begun */
    free(metrics);
    train_case_fini(&o);
}

static void every_access_of_a_run_is_ordered_by_events(void **state)
{
    assert_int_equal(setenv("HEADRACE_CHECK", "streams", 1), 0);
    for (int mtp = 0; mtp < 2; mtp++) {
        train_options o;
        train_case_init(&o, 2, 3, 2);
        o.model.mtp = mtp;
        run_and_show(&o);
        train_case_fini(&o);
    }
    unsetenv("HEADRACE_CHECK");
}

static void every_access_of_a_pipeline_is_ordered_by_events(void **state)
{
    static const char *const schedules[] = {"1f1b", "interleaved", "dualpipev"};
    assert_int_equal(setenv("HEADRACE_CHECK", "streams", 1), 0);
    for (int i = 0; i < 3; i++) {
        train_options o;
        over_stages(&o, schedules[i], i % 2);
        o.overlap = i > 0;
        o.model.layers = 4;
        run(&o);
        train_case_fini(&o);
    }
    unsetenv("HEADRACE_CHECK");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_races_in_a_run_with_overlap),
        cmocka_unit_test(nothing_races_in_a_run_on_one_stream),
        cmocka_unit_test(nothing_races_between_stages),
        cmocka_unit_test(nothing_races_when_a_run_is_resumed_and_sampled),
        cmocka_unit_test(nothing_races_when_a_rank_fails),
        cmocka_unit_test(every_access_of_a_run_is_ordered_by_events),
        cmocka_unit_test(every_access_of_a_pipeline_is_ordered_by_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
