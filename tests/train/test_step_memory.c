/* Device memory of training steps: nothing is left behind after a step, and the most that a step holds
 * does not depend on how many microbatches it has (users' troubles: "memory grows with the number of
 * microbatches"). Figures are those of metrics.jsonl. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/train_case.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* With sanitizers, which look at the same steps for other things, fewer of them will do. */
#ifdef HR_TEST_FEW
enum { LONG = 60, SHORT = 20, MANY = 24 };
#else
enum { LONG = 1000, SHORT = 200, MANY = 64 };
#endif
enum { FEW = 8 }; /* microbatches, as MANY */

/* Value `key` of each line, `n` at most; returns how many lines there are. */
static int metrics(const train_options *o, const char *key, long long *out, int n)
{
    size_t bytes;
    char *text = train_case_read(o, "metrics.jsonl", &bytes), *rest = NULL;
    assert_non_null(text);
    int lines = 0;
    for (char *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *j = json_loads(line, 0, NULL);
        assert_non_null(j);
        if (lines < n)
            out[lines] = json_integer_value(json_object_get(j, key));
        lines++;
        json_decref(j);
    }
    free(text);
    return lines;
}

static void train(const train_options *o)
{
    if (hr_app_train_steps(o) < 0)
        fail_msg("%s", hr_last_error());
}

static void live_bytes_stay_the_same(int mtp, int steps)
{
    static long long live[LONG];
    train_options o;
    train_case_init(&o, 2, 2, steps);
    o.model.mtp = mtp;
    train(&o);
    assert_int_equal(metrics(&o, "live_bytes", live, LONG), steps);
    for (int i = 0; i < steps; i++)
        assert_int_equal(live[i], live[0]);
    train_case_fini(&o);
}

static void pain_12_live_bytes_stay_the_same_over_1000_steps(void **state)
{
    live_bytes_stay_the_same(0, LONG);
}

static void live_bytes_stay_the_same_with_multi_token_prediction(void **state)
{
    live_bytes_stay_the_same(1, SHORT);
}

static void live_bytes_of_a_pipeline_stay_the_same(void **state)
{
    static long long live[SHORT];
    train_options o;
    train_case_init(&o, 1, 4, SHORT);
    o.pp = 2;
    o.model.tie_embeddings = 1;
    train(&o);
    assert_int_equal(metrics(&o, "live_bytes", live, SHORT), SHORT);
    for (int i = 0; i < SHORT; i++)
        assert_int_equal(live[i], live[0]);
    train_case_fini(&o);
}

/* Every token visits every expert here, so that what a rank receives does not depend on data. */
static long long peak_of(int pp, int mtp, int microbatches, int overlap, int delay)
{
    train_options o;
    long long peak[3];
    train_case_init(&o, 2, microbatches, 3);
    o.pp = pp;
    o.model.top_k = o.model.experts;
    o.model.mtp = mtp;
    o.overlap = overlap;
    o.delay_wgrad = delay;
    train(&o);
    assert_int_equal(metrics(&o, "peak_bytes", peak, 3), 3);
    train_case_fini(&o);
    return peak[2];
}

static void peak_bytes_are_the_same(int pp, int mtp, int overlap, int delay)
{
    long long few = peak_of(pp, mtp, FEW, overlap, delay),
              many = peak_of(pp, mtp, MANY, overlap, delay);
    print_message("%d stages, overlap %d delay %d: %lld bytes\n", pp, overlap, delay,
                  few);
    assert_int_equal(few, many);
}

static void pain_12_peak_bytes_are_the_same_for_8_and_64_microbatches(void **state)
{
    for (int overlap = 0; overlap < 2; overlap++)
        for (int delay = 0; delay < 2; delay++)
            peak_bytes_are_the_same(1, 0, overlap, delay);
}

static void peak_bytes_are_the_same_with_multi_token_prediction(void **state)
{
    peak_bytes_are_the_same(1, 1, 1, 1);
}

/* Of rank 0, which holds the most activations. */
static void pain_12_peak_bytes_of_a_pipeline_are_the_same(void **state)
{
    for (int overlap = 0; overlap < 2; overlap++)
        peak_bytes_are_the_same(2, 0, overlap, 1);
    peak_bytes_are_the_same(3, 0, 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pain_12_live_bytes_stay_the_same_over_1000_steps),
        cmocka_unit_test(live_bytes_stay_the_same_with_multi_token_prediction),
        cmocka_unit_test(pain_12_peak_bytes_are_the_same_for_8_and_64_microbatches),
        cmocka_unit_test(peak_bytes_are_the_same_with_multi_token_prediction),
        cmocka_unit_test(live_bytes_of_a_pipeline_stay_the_same),
        cmocka_unit_test(pain_12_peak_bytes_of_a_pipeline_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
