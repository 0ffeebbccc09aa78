/* What schedules and layouts refuse is said in the words of the options; evaluation goes over the same
 * stages as training. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run_pipeline.h"
#include "support/train_case.h"
#include <string.h>

static train_options o;

static int open_case(void **state)
{
    train_case_init(&o, 1, 8, 1);
    o.pp = 2;
    o.model.layers = 8;
    return 0;
}

static int close_case(void **state)
{
    train_case_fini(&o);
    return 0;
}

static void refused(const char *named, const char *also)
{
    pipeline p;
    assert_true(hr_app_pipeline_make(&o, &p) < 0);
    if (!strstr(hr_last_error(), named) || !strstr(hr_last_error(), also))
        fail_msg("\"%s\", without '%s' or '%s'", hr_last_error(), named, also);
}

static void what_a_schedule_cannot_do_is_refused(void **state)
{
    strcpy(o.schedule, "dualpip");
    refused("--schedule", "dualpipe");
    strcpy(o.schedule, "seq-1f1b");
    refused("--schedule seq-1f1b", "planning only");
    strcpy(o.schedule, "forward-only");
    refused("--schedule forward-only", "no backward");
    strcpy(o.schedule, "zbv");
    o.vp = 1;
    refused("--schedule: zbv", "2 chunks");
    o.vp = 0;
    strcpy(o.schedule, "dualpipe");
    o.eval_batches = 3;
    refused("--eval-batches 3", "is 4");
}

static void overlap_without_any_pair_is_refused_where_it_was_asked_for(void **state)
{
    pipeline p;
    o.microbatches = 1;
    o.pp = 1;
    assert_int_equal(hr_app_pipeline_make(&o, &p), HR_OK);
    assert_int_equal(p.pairs, 0);
    hr_app_pipeline_fini(&p);
    o.overlap_asked = 1;
    refused("--overlap on", "--microbatches 1");
}

static void a_layout_of_another_size_is_refused(void **state)
{
    strcpy(o.layout, "Et*4|t*3L");
    refused("--layout Et*4|t*3L", "8");
    strcpy(o.layout, "Et*4|x");
    refused("--layout", "position");
    o.layout[0] = '\0';
    o.pp = 16;
    refused("--layers 8", "16");
}

static void a_file_for_other_sizes_is_refused(void **state)
{
    snprintf(o.schedule, sizeof o.schedule, "%.256s/s.csv", o.out);
    refused("s.csv", "cannot");
    FILE *f = fopen(o.schedule, "w");
    assert_non_null(f);
    fputs("0F0,0B0\n1F0,1B0\n", f);
    fclose(f);
    refused("1 microbatches", "--microbatches 8");
    o.microbatches = 1;
    pipeline p;
    assert_int_equal(hr_app_pipeline_make(&o, &p), HR_OK);
    assert_string_equal(p.name, "s.csv");
    hr_app_pipeline_fini(&p);
}

/* Each forward once, and on the rank that has the stage in training. */
static void evaluation_lies_where_training_lies(void **state)
{
    static const char *const names[] = {"1f1b", "interleaved", "zbv", "dualpipe"};
    for (int i = 0; i < 4; i++)
        for (o.eval_batches = 2; o.eval_batches < 9; o.eval_batches += 2) {
            pipeline p;
            hr_schedule_shape h = {HR_INIT(hr_schedule_shape)};
            strcpy(o.schedule, names[i]);
            o.vp = i == 1 ? 2 : 0;
            if (hr_app_pipeline_make(&o, &p) < 0)
                fail_msg("%s: %s", names[i], hr_last_error());
            assert_int_equal(hr_schedule_check(p.evaluation, NULL, NULL), HR_OK);
            hr_schedule_get_shape(p.evaluation, &h);
            assert_int_equal(h.microbatches, o.eval_batches);
            for (int s = 0; s < p.stages; s++)
                for (int m = 0; m < h.microbatches; m++)
                    assert_true(hr_app_pipeline_on(
                        &p, s, hr_schedule_rank_of(p.evaluation, s, m)));
            hr_app_pipeline_fini(&p);
        }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_case, close_case)
    const struct CMUnitTest tests[] = {
        CASE(what_a_schedule_cannot_do_is_refused),
        CASE(overlap_without_any_pair_is_refused_where_it_was_asked_for),
        CASE(a_layout_of_another_size_is_refused),
        CASE(a_file_for_other_sizes_is_refused),
        CASE(evaluation_lies_where_training_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
