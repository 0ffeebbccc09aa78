/* --shard-optimizer: weights, moments, losses and norms have the bits of the run that keeps all moments everywhere;
 * a rank keeps its share of them, to the byte; and a checkpoint of one kind goes on as the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "catalog.h"
#include "support/layout_case.h"
#include "support/run_outcome.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void must(const char *line, hr_status st)
{
    if (st < 0)
        fail_msg("%s: %s", line, hr_last_error());
}

/* ---- bits ---------------------------------------------------------------------------------------- */

static void run(const char *line, int shard, run_outcome *out)
{
    train_options o;
    must(line, run_outcome_options(&o, line));
    o.steps = 3;
    o.clip = 0.5; /* so that a bit of the norm is one of the weights */
    o.shard_optimizer = shard;
    must(line, run_outcome_steps(&o, out));
    train_case_fini(&o);
}

static void expect_same(const char *line)
{
    run_outcome whole, sharded;
    run(line, 0, &whole);
    run(line, 1, &sharded);
    if (!run_outcome_same(&sharded, &whole))
        fail_msg("%s: other bits", line);
    assert_true(sharded.loss == whole.loss && sharded.grad_norm == whole.grad_norm);
    run_outcome_fini(&whole);
    run_outcome_fini(&sharded);
}

static void no_bit_changes_over_data_parallel_ranks(void **state)
{
    expect_same("--dp 1");
    expect_same("--dp 2");
    expect_same("--dp 3 --global-batch-size 6");
}

static void no_bit_changes_with_experts_over_fewer_of_them(void **state)
{
    expect_same("--ep 2 --dp 2 --overlap on");
    expect_same("--ep 2 --dp 4 --overlap on --mtp on");
}

static void no_bit_changes_with_copies_over_the_pipeline(void **state)
{
    expect_same("--pp 2 --dp 2 --tie-embeddings on");
    expect_same("--pp 2 --dp 2 --schedule dualpipe --tie-embeddings on");
    expect_same(
        "--pp 2 --vp 2 --ep 2 --dp 4 --overlap on --mtp on --tie-embeddings on");
}

/* ---- memory ---------------------------------------------------------------------------------------- */

typedef struct memory {
    long long live, peak;
} memory;

/* Of rank 0 after the first step. */
static memory memory_of(const char *line, int shard)
{
    train_options o;
    size_t n;
    must(line, run_outcome_options(&o, line));
    o.shard_optimizer = shard;
    must(line, hr_app_train_steps(&o));
    char *text = train_case_read(&o, "metrics.jsonl", &n);
    assert_non_null(text);
    json_t *j = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(j);
    memory m = {json_integer_value(json_object_get(j, "live_bytes")),
                json_integer_value(json_object_get(j, "peak_bytes"))};
    json_decref(j);
    free(text);
    train_case_fini(&o);
    return m;
}

static int64_t share(int64_t count, int ranks)
{
    return (count + ranks - 1) / ranks;
}

/* Bytes of one moment on rank 0 of a stage that is the whole model; it has the largest shares. */
static int64_t moment_bytes(const train_options *o, bool sharded)
{
    hr_app_catalog *c;
    int64_t n = 0;
    must("catalog", hr_app_catalog_create(&o->model, &c));
    for (int i = 0; i < c->n; i++) {
        const hr_app_spec *s = &c->list[i].spec;
        bool expert = s->region == EXPERT;
        int64_t parts = expert ? s->shape[0] / o->ep : 1, count = 1;
        for (int d = expert; d < s->ndim; d++)
            count *= s->shape[d];
        n += parts * (sharded ? share(count, expert ? o->dp / o->ep : o->dp) : count);
    }
    hr_app_catalog_destroy(c);
    return n * (int64_t)sizeof(float);
}

static void expect_saving(const char *line)
{
    train_options o;
    must(line, run_outcome_read(&o, line));
    memory whole = memory_of(line, 0), sharded = memory_of(line, 1);
    int64_t all = moment_bytes(&o, false), own = moment_bytes(&o, true);
    print_message("%-30s live %lld, sharded %lld; moments %lld, sharded %lld\n", line,
                  whole.live, sharded.live, (long long)(2 * all), (long long)(2 * own));
    assert_int_equal(whole.live - sharded.live, 2 * (all - own));
    assert_true(sharded.peak < whole.peak);
}

static void a_rank_keeps_its_share_of_the_moments_to_the_byte(void **state)
{
    expect_saving("--dp 4");
    expect_saving("--ep 2 --dp 4 --overlap on");
}

/* The profile says so to the planner: of all elements of the model together. */
static void a_profile_counts_the_share(void **state)
{
    train_options o;
    char path[OPTION_PATH];
    int64_t sum = 0;
    must("profile", run_outcome_options(&o, "--dp 2 --shard-optimizer on"));
    assert_true(snprintf(path, sizeof path, "%s/p.json", o.out) < (int)sizeof path);
    memcpy(o.profile, path, sizeof path);
    must("profile", hr_app_train_steps(&o));
    json_t *j = json_load_file(path, 0, NULL), *row;
    size_t i;
    assert_non_null(j);
    json_array_foreach(json_object_get(j, "row"), i, row)
    {
        sum += json_integer_value(json_object_get(row, "param_bytes"));
    }
    int64_t all = moment_bytes(&o, false), own = moment_bytes(&o, true);
    assert_int_equal(
        sum, 2 * (all + own)); /* weights and gradients are as large as moments */
    json_decref(j);
    train_case_fini(&o);
}

/* ---- checkpoints ------------------------------------------------------------------------------------ */

static void a_run_goes_on_sharded_or_not(void **state)
{
    static const char on[] = "--ep 2 --dp 4 --shard-optimizer on",
                      off[] = "--ep 2 --dp 4";
    layout_case_resume(on, off, SAME_BITS);
    layout_case_resume(off, on, SAME_BITS);
}

static void a_sharded_run_goes_on_over_other_ranks(void **state)
{
    layout_case_resume("--ep 2 --dp 4 --shard-optimizer on",
                       "--pp 2 --dp 2 --shard-optimizer on --tie-embeddings off",
                       CLOSE);
    layout_case_resume("--dp 1", "--ep 2 --dp 4 --shard-optimizer on", CLOSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_bit_changes_over_data_parallel_ranks),
        cmocka_unit_test(no_bit_changes_with_experts_over_fewer_of_them),
        cmocka_unit_test(no_bit_changes_with_copies_over_the_pipeline),
        cmocka_unit_test(a_rank_keeps_its_share_of_the_moments_to_the_byte),
        cmocka_unit_test(a_profile_counts_the_share),
        cmocka_unit_test(a_run_goes_on_sharded_or_not),
        cmocka_unit_test(a_sharded_run_goes_on_over_other_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
