/* A step with overlap against the same step issued to one stream, over two ranks with a real
 * all-to-all: equal to the bit, whatever is delayed; and right, against finite differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "toy_model.h"

enum { RANKS = 2, RUNS = 8 };

static const toy_step_opts runs[RUNS] = {
    {.overlap = false},
    {.overlap = true},
    {.overlap = true, .delay_wgrad = true},
    {.overlap = true, .early = true},
    {.overlap = true, .delay_wgrad = true, .early = true},
    {.overlap = false, .delay_wgrad = true},
    {.overlap = true, .stored = true},
    {.overlap = false, .stored = true, .early = true},
};

typedef struct seen {
    toy_result run[RUNS];
    size_t live_before, live_after;
    int states;
} seen;

static seen got[RANKS];

static hr_status all_runs(hr_group *world, void *arg)
{
    toy_model m;
    seen *s = &got[hr_group_rank(world)];
    hr_device *dev = hr_group_device(world);
    hr_mem_stats stats;
    HR_TRY(toy_model_init(&m, world, true));
    for (int i = 0; i < RUNS; i++) {
        HR_TRY(toy_step(&m, &runs[i], &s->run[i]));
        hr_mem_get_stats(dev, &stats);
        if (i == 0)
            s->live_before = stats.live_bytes; /* weights and their gradients */
    }
    s->live_after = stats.live_bytes;
    s->states = m.states;
    toy_model_fini(&m);
    return HR_OK;
}

static int run_all(void **state)
{
    memset(got, 0, sizeof got);
    return hr_local_run(RANKS, NULL, all_runs, NULL) < 0;
}

static void overlap_equals_one_stream_to_the_bit(void **state)
{
    for (int r = 0; r < RANKS; r++)
        for (int i = 1; i < RUNS; i++)
            assert_memory_equal(&got[r].run[i], &got[r].run[0], sizeof(toy_result));
}

static void ranks_exchange_tokens(void **state)
{
    assert_memory_not_equal(&got[0].run[0], &got[1].run[0], sizeof(toy_result));
    for (int i = 0; i < TOY_WEIGHTS * TOY_WIDTH; i++)
        assert_true(got[0].run[0].grad[i] != 0);
}

static void nothing_stays_behind_after_a_step(void **state)
{
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(got[r].live_after, got[r].live_before);
        assert_int_equal(got[r].states, 0);
    }
}

/* The original loses the final norm where the last layer is dense. */
static toy_result dense[RUNS], no_norm;

static hr_status dense_runs(hr_group *world, void *arg)
{
    toy_model m;
    HR_TRY(toy_model_init(&m, world, true));
    toy_model_make_dense(&m);
    for (int i = 0; i < RUNS; i++)
        HR_TRY(toy_step(&m, &runs[i], &dense[i]));
    m.chunk.final_norm = NULL;
    HR_TRY(toy_step(&m, &runs[0], &no_norm));
    toy_model_fini(&m);
    return HR_OK;
}

static void dense_last_layer_keeps_its_norm_with_overlap_and_without(void **state)
{
    assert_int_equal(hr_local_run(1, NULL, dense_runs, NULL), HR_OK);
    for (int i = 1; i < RUNS; i++)
        assert_memory_equal(&dense[i], &dense[0], sizeof(toy_result));
    assert_true(dense[0].loss[0] != no_norm.loss[0]);
    for (int k = 0; k < TOY_WIDTH; k++)
        assert_true(dense[0].grad[(TOY_WEIGHTS - 1) * TOY_WIDTH + k] != 0);
}

/* ---- a step that fails ---------------------------------------------------------------------- */
static hr_status no_plan(void *ctx, int m, bool overlap, hr_schedule_plan **plan)
{
    return hr_fail(HR_ERR_CALLBACK, "no_data", "no data");
}

static hr_status no_loss(void *ctx, int m, hr_tensor *output, hr_loss *out)
{
    return HR_OK;
}

static hr_status note_sync(void *ctx, bool on)
{
    strcat(ctx, on ? "+" : "-");
    return HR_OK;
}

static hr_status failing_step(hr_group *world, void *calls)
{
    return hr_forward_backward_no_pipelining(&(hr_no_pipelining_opts){
        HR_INIT(hr_no_pipelining_opts), .microbatches = 3, .ctx = calls,
        .plan = no_plan, .loss = no_loss, .no_sync = note_sync});
}

static void a_failure_turns_reduction_on_again(void **state)
{
    char calls[8] = "";
    assert_int_equal(hr_local_run(1, NULL, failing_step, calls), HR_ERR_CALLBACK);
    assert_string_equal(hr_last_reason(), "no_data");
    assert_string_equal(calls, "+-");
}

/* ---- against finite differences, on one rank ------------------------------------------------ */
static double worst; /* of what rounding and curvature allow */

static hr_status sum_of_losses(toy_model *m, double *out)
{
    toy_result r;
    *out = 0;
    HR_TRY(toy_step(m, &runs[1], &r));
    for (int i = 0; i < TOY_MICROBATCHES; i++)
        *out += r.loss[i];
    return HR_OK;
}

static hr_status nudged(toy_model *m, int weight, int column, float by, double *loss)
{
    float w[TOY_WIDTH], old;
    HR_TRY(hr_tensor_read(m->weight[weight], w, sizeof w));
    old = w[column];
    w[column] += by;
    HR_TRY(hr_tensor_write(m->weight[weight], w, sizeof w));
    HR_TRY(sum_of_losses(m, loss));
    w[column] = old;
    return hr_tensor_write(m->weight[weight], w, sizeof w);
}

static hr_status differences(hr_group *world, void *arg)
{
    toy_model m;
    toy_result r;
    const float eps = 1.0F / 256;
    HR_TRY(toy_model_init(&m, world, true));
    HR_TRY(toy_step(&m, &runs[2], &r));
    worst = 0;
    for (int w = 0; w < TOY_WEIGHTS; w++) {
        double up, down;
        int column = w % TOY_WIDTH;
        HR_TRY(nudged(&m, w, column, eps, &up));
        HR_TRY(nudged(&m, w, column, -eps, &down));
        double slope = (up - down) / (2 * eps), grad = r.grad[w * TOY_WIDTH + column];
        double rounding = 1e-6 * up / eps; /* of the two losses, in f32 */
        worst = fmax(worst, fabs(slope - grad) / (2e-3 * fabs(grad) + rounding));
    }
    toy_model_fini(&m);
    return HR_OK;
}

static void gradients_agree_with_finite_differences(void **state)
{
    assert_int_equal(hr_local_run(1, NULL, differences, NULL), HR_OK);
    assert_true(worst < 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlap_equals_one_stream_to_the_bit),
        cmocka_unit_test(ranks_exchange_tokens),
        cmocka_unit_test(nothing_stays_behind_after_a_step),
        cmocka_unit_test(dense_last_layer_keeps_its_norm_with_overlap_and_without),
        cmocka_unit_test(a_failure_turns_reduction_on_again),
        cmocka_unit_test(gradients_agree_with_finite_differences),
    };
    return cmocka_run_group_tests(tests, run_all, NULL);
}
