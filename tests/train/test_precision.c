/* --precision bf16: weights and activations of bf16, all that is summed up over steps in f32. Gradients are near
 * those of a run in f32, checkpoints hold the masters, and what changes no bit in f32 changes none here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/layout_case.h"
#include "support/run_outcome.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void must(const char *line, hr_status st)
{
    if (st < 0)
        fail_msg("%s: %s", line, hr_last_error());
}

static void run(const char *line, int precision, run_outcome *out)
{
    train_options o;
    must(line, run_outcome_options(&o, line));
    o.precision = precision;
    must(line, run_outcome_steps(&o, out));
    train_case_fini(&o);
}

/* ---- near f32 -------------------------------------------------------------------------------- */

/* A token visits all: of some its rounding may choose others. */
#define ALL_EXPERTS "--experts 2 --top-k 2 "

/* First moments after one step are gradients. */
static void expect_near_f32(const char *line)
{
    run_outcome f32, bf16;
    double worst = 0;
    run(line, PRECISION_F32, &f32);
    run(line, PRECISION_BF16, &bf16);
    assert_int_equal(f32.state.n, bf16.state.n);
    for (int i = 0; i < f32.state.n; i++) {
        const whole_tensor *a = &bf16.state.list[i], *b = &f32.state.list[i];
        double d = train_case_distance(a->data, b->data, a->count);
        if (strstr(a->name, ".adam_m") && d > worst)
            worst = d;
    }
    double loss = fabs(bf16.loss - f32.loss) / f32.loss,
           norm = fabs(bf16.grad_norm - f32.grad_norm) / f32.grad_norm;
    print_message("%-50s gradients %.2g, loss %.2g, norm %.2g\n", line, worst, loss,
                  norm);
    assert_true(worst > 1e-4 && worst < 0.05); /* it is another run, and near */
    assert_true(loss < 1e-3 && norm < 1e-2);
    run_outcome_fini(&f32);
    run_outcome_fini(&bf16);
}

static void gradients_are_near_those_of_f32(void **state)
{
    expect_near_f32(ALL_EXPERTS "--dp 1");
    expect_near_f32(ALL_EXPERTS "--ep 2 --dp 2 --overlap on --shared-width 8");
    expect_near_f32(ALL_EXPERTS "--pp 2 --vp 2 --mtp on --tie-embeddings on");
    expect_near_f32(ALL_EXPERTS "--pp 2 --ep 2 --dp 2 --schedule dualpipe --mtp on");
    expect_near_f32(ALL_EXPERTS "--recompute --overlap off");
}

/* ---- the same bits --------------------------------------------------------------------------- */

static void expect_same(const char *one, const char *other)
{
    run_outcome a, b;
    run(one, PRECISION_BF16, &a);
    run(other, PRECISION_BF16, &b);
    if (!run_outcome_same(&a, &b))
        fail_msg("%s and %s: other bits", one, other);
    run_outcome_fini(&a);
    run_outcome_fini(&b);
}

static void neither_the_dispatcher_nor_sharding_changes_a_bit(void **state)
{
    static const char plain[] = "--ep 2 --dp 4 --overlap on";
    expect_same(plain, "--ep 2 --dp 4 --overlap on --dispatcher symmetric");
    expect_same(plain, "--ep 2 --dp 4 --overlap on --shard-optimizer on");
    expect_same(plain, "--ep 2 --dp 4 --overlap on --delay-wgrad off");
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static bool all_are_bf16(const whole_tensor *t)
{
    for (int64_t i = 0; i < t->count; i++) {
        uint32_t bits;
        memcpy(&bits, &t->data[i], sizeof bits);
        if (bits & 0xffff)
            return false;
    }
    return true;
}

static void a_checkpoint_holds_masters(void **state)
{
    run_outcome r;
    run("--dp 1", PRECISION_BF16, &r);
    for (int i = 0; i < r.state.n; i++)
        if (r.state.list[i].count > 4)
            assert_false(all_are_bf16(&r.state.list[i]));
    run_outcome_fini(&r);
}

static void a_run_goes_on_with_the_same_bits(void **state)
{
    layout_case_resume("--ep 2 --dp 2 --precision bf16",
                       "--ep 2 --dp 2 --precision bf16", SAME_BITS);
}

/* ---- what the planner is told ------------------------------------------------------------------ */

typedef struct sizes {
    int64_t params, boundaries; /* boundaries but for the first, which is of bytes */
} sizes;

static sizes profile_of(int precision)
{
    train_options o;
    char path[OPTION_PATH];
    sizes s = {0};
    size_t i;
    json_t *row;
    must("profile", run_outcome_options(&o, ""));
    o.precision = precision;
    assert_true(snprintf(path, sizeof path, "%s/p.json", o.out) < (int)sizeof path);
    memcpy(o.profile, path, sizeof path);
    must("profile", hr_app_train_steps(&o));
    json_t *j = json_load_file(path, 0, NULL);
    assert_non_null(j);
    json_array_foreach(json_object_get(j, "row"), i, row)
    {
        s.params += json_integer_value(json_object_get(row, "param_bytes"));
        if (i > 0)
            s.boundaries += json_integer_value(json_object_get(row, "boundary_bytes"));
    }
    json_decref(j);
    train_case_fini(&o);
    return s;
}

/* Of each parameter 16 bytes, and 2 more for it in bf16; boundaries are half as large. */
static void a_profile_counts_bytes_of_bf16(void **state)
{
    sizes f32 = profile_of(PRECISION_F32), bf16 = profile_of(PRECISION_BF16);
    assert_int_equal(bf16.params * 16, f32.params * 18);
    assert_int_equal(bf16.boundaries * 2, f32.boundaries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_near_those_of_f32),
        cmocka_unit_test(neither_the_dispatcher_nor_sharding_changes_a_bit),
        cmocka_unit_test(a_checkpoint_holds_masters),
        cmocka_unit_test(a_run_goes_on_with_the_same_bits),
        cmocka_unit_test(a_profile_counts_bytes_of_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
