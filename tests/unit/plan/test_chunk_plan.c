/* Chunk plans beyond the recorded traces: who owns what, the input's gradient, misuse, and steps
 * that fail in the middle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/recycling.h"
#include "base/try.h"
#include "support/holds.h"
#include "toy_model.h"

/* Each test is a function on one rank that returns the first thing that is wrong; asserts belong to
 * the main thread. */
static void on_one_rank(hr_rank_fn fn)
{
    hr_status st = hr_local_run(1, NULL, fn, NULL);
    if (st < 0)
        fail_msg("%s", hr_last_error());
}

static hr_status build(toy_model *m, hr_tensor *x, hr_schedule_plan **plan)
{
    return hr_build_schedule_plan(
        &m->chunk, &x, x ? 1 : 0,
        &(hr_build_plan_opts){HR_INIT(hr_build_plan_opts), .delay_wgrad = true}, plan);
}

static hr_status input_gets_its_gradient_(hr_group *world, void *arg)
{
    toy_model m;
    hr_tensor *x, *y, *none;
    hr_schedule_plan *plan;
    HR_TRY(toy_model_init(&m, world, false));
    HR_TRY(hr_set_streams(NULL, false));
    HR_TRY(toy_input(&m, 0, &x));
    HR_TRY(build(&m, x, &plan));
    HR_TRY(hr_schedule_plan_run(plan, NULL, NULL, NULL, &y));
    HOLDS(hr_chunk_plan_layers_left(plan) == TOY_LAYERS);
    HR_TRY(hr_schedule_plan_run(NULL, plan, y, NULL, &none));
    HOLDS(none == NULL);
    HOLDS(hr_chunk_plan_layers_left(plan) == 0 && m.states == 0);
    HOLDS(hr_tensor_grad(x) != NULL);
    hr_schedule_plan_destroy(plan);
    hr_tensor_release(y); /* the caller's, outlives the plan */
    hr_tensor_release(x);
    toy_model_fini(&m);
    return hr_device_synchronize(hr_device_current());
}

static void input_gets_its_gradient(void **state)
{
    on_one_rank(input_gets_its_gradient_);
}

static hr_status plan_runs_backward_once_(hr_group *world, void *arg)
{
    toy_model m;
    hr_tensor *x, *y, *none;
    hr_schedule_plan *plan;
    HR_TRY(toy_model_init(&m, world, false));
    HR_TRY(hr_set_streams(NULL, false));
    HR_TRY(toy_input(&m, 0, &x));
    HR_TRY(build(&m, x, &plan));
    HR_TRY(hr_schedule_plan_run(plan, NULL, NULL, NULL, &y));
    HR_TRY(hr_schedule_plan_run(NULL, plan, y, NULL, &none));
    HOLDS(hr_schedule_plan_run(NULL, plan, y, NULL, &none) == HR_ERR_STATE);
    HOLDS(strcmp(hr_last_reason(), "spent") == 0);
    HOLDS(hr_schedule_plan_run(plan, NULL, NULL, NULL, &none) == HR_ERR_STATE);
    HOLDS(hr_schedule_plan_run(NULL, NULL, NULL, NULL, &none) == HR_ERR_INVALID);
    hr_schedule_plan_destroy(plan);
    hr_tensor_release(y);
    hr_tensor_release(x);
    toy_model_fini(&m);
    return HR_OK;
}

static void plan_runs_backward_once(void **state)
{
    on_one_rank(plan_runs_backward_once_);
}

static hr_status backward_before_forward_is_refused_(hr_group *world, void *arg)
{
    toy_model m;
    hr_tensor *x, *none;
    hr_schedule_plan *plan;
    HR_TRY(toy_model_init(&m, world, false));
    HR_TRY(hr_set_streams(NULL, false));
    HR_TRY(toy_input(&m, 0, &x));
    HR_TRY(build(&m, x, &plan));
    HOLDS(hr_schedule_plan_run(NULL, plan, x, NULL, &none) == HR_ERR_STATE);
    HOLDS(strcmp(hr_last_reason(), "no_output") == 0);
    HOLDS(hr_range_depth() == 0);
    hr_schedule_plan_destroy(plan);
    hr_tensor_release(x);
    toy_model_fini(&m);
    return HR_OK;
}

static void backward_before_forward_is_refused(void **state)
{
    on_one_rank(backward_before_forward_is_refused_);
}

static hr_status missing_input_is_named_(hr_group *world, void *arg)
{
    toy_model m;
    hr_tensor *none;
    hr_schedule_plan *plan;
    HR_TRY(toy_model_init(&m, world, false));
    HR_TRY(build(&m, NULL, &plan));
    HOLDS(hr_schedule_plan_run(plan, NULL, NULL, NULL, &none) == HR_ERR_INVALID);
    HOLDS(strcmp(hr_last_reason(), "no_argument") == 0);
    hr_schedule_plan_destroy(plan);
    toy_model_fini(&m);
    return HR_OK;
}

static void missing_input_is_named(void **state)
{
    on_one_rank(missing_input_is_named_);
}

/* ---- a step that fails in the middle ----------------------------------------------------------- */
static int fail_at; /* the n-th call of the slot below fails */

static hr_status fails_sometimes(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in,
                                 int n, hr_tensor **out, int *n_out)
{
    if (fail_at-- == 0)
        return hr_fail(HR_ERR_CALLBACK, "callback", "told to fail");
    out[0] = hr_tensor_retain(in[0]);
    *n_out = 1;
    return HR_OK;
}

static hr_status failed_step_leaves_nothing_(hr_group *world, void *arg)
{
    toy_model m;
    toy_result r;
    hr_mem_stats before, after;
    HR_TRY(toy_model_init(&m, world, false));
    m.desc[1].slot[HR_SLOT_COMBINE] = fails_sometimes;
    fail_at = -1;
    HR_TRY(toy_step(&m, &(toy_step_opts){.overlap = true, .delay_wgrad = true}, &r));
    hr_mem_get_stats(hr_device_current(), &before);
    for (int at = 0; at < TOY_MICROBATCHES; at++) {
        fail_at = at;
        HOLDS(toy_step(&m,
                       &(toy_step_opts){.overlap = at % 2 == 0, .delay_wgrad = true},
                       &r) == HR_ERR_CALLBACK);
        HOLDS(m.states == 0);
        HOLDS(hr_range_depth() == 0);
        HOLDS(hr_stream_current() == hr_device_default_stream(hr_device_current()));
    }
    fail_at = -1;
    HR_TRY(toy_step(&m, &(toy_step_opts){.overlap = true, .delay_wgrad = true}, &r));
    hr_mem_get_stats(hr_device_current(), &after);
    HOLDS(after.live_bytes == before.live_bytes);
    toy_model_fini(&m);
    return HR_OK;
}

static void failed_step_leaves_nothing(void **state)
{
    on_one_rank(failed_step_leaves_nothing_);
}

/* A plan a microbatch costs no heap: its block and its event serve the next one. */
static hr_status next_plan_takes_the_same_memory_(hr_group *world, void *arg)
{
    toy_model m;
    hr_tensor *x;
    hr_schedule_plan *plan;
    HR_TRY(toy_model_init(&m, world, false));
    HR_TRY(toy_input(&m, 0, &x));
    HR_TRY(build(&m, x, &plan));
    const uintptr_t block = (uintptr_t)plan, event = (uintptr_t)plan->event;
    hr_schedule_plan_destroy(plan);
    HR_TRY(build(&m, x, &plan));
    HOLDS(!HR__RECYCLING || (uintptr_t)plan == block);
    HOLDS(!HR__RECYCLING || (uintptr_t)plan->event == event);
    hr_schedule_plan_destroy(plan);
    hr_tensor_release(x);
    toy_model_fini(&m);
    return HR_OK;
}

static void next_plan_takes_the_same_memory(void **state)
{
    on_one_rank(next_plan_takes_the_same_memory_);
}

static hr_status never_a_plan(void *ctx, int m, bool overlap, hr_schedule_plan **plan)
{
    return hr_fail(HR_ERR_CALLBACK, "never", "asked for a plan");
}

static hr_status never_a_loss(void *ctx, int m, hr_tensor *output, hr_loss *out)
{
    return HR_ERR_CALLBACK;
}

static hr_status step_without_sense_is_refused_(hr_group *world, void *arg)
{
    hr_no_pipelining_opts opts = {HR_INIT(hr_no_pipelining_opts), .microbatches = -1};
    HOLDS(hr_forward_backward_no_pipelining(NULL) == HR_ERR_INVALID);
    HOLDS(hr_forward_backward_no_pipelining(&opts) == HR_ERR_INVALID);
    HOLDS(strcmp(hr_last_reason(), "no_argument") == 0);
    opts.plan = never_a_plan;
    opts.loss = never_a_loss;
    HOLDS(hr_forward_backward_no_pipelining(&opts) == HR_ERR_INVALID);
    HOLDS(strcmp(hr_last_reason(), "microbatches") == 0);
    return HR_OK;
}

static void step_without_sense_is_refused(void **state)
{
    on_one_rank(step_without_sense_is_refused_);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(input_gets_its_gradient),
        cmocka_unit_test(plan_runs_backward_once),
        cmocka_unit_test(backward_before_forward_is_refused),
        cmocka_unit_test(missing_input_is_named),
        cmocka_unit_test(failed_step_leaves_nothing),
        cmocka_unit_test(next_plan_takes_the_same_memory),
        cmocka_unit_test(step_without_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
