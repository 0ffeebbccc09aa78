/* Stages made of plans: bits, memory, hooks, mistakes and failures, without an executor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/try.h"
#include "unit/exec/stage_drive.h"

enum { RANKS = 2 };

/* ---- bits -------------------------------------------------------------------------------------- */
static const drive_how ways[] = {
    {.stage = {.serial = true}},
    {.stage = {.serial = false}},
    {.stage = {.delay_wgrad = true}},
    {.stage = {.serial = true, .recompute = true}},
    {.stage = {.delay_wgrad = true, .recompute = true}},
    {.split = true, .stage = {.serial = true}},
    {.split = true},
    {.split = true, .stage = {.recompute = true}},
    {.pairs = true},
    {.pairs = true, .stage = {.delay_wgrad = true}},
    {.pairs = true, .split = true},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static toy_result plain[RANKS], got[RANKS][WAYS];

static hr_status all_ways(hr_group *world, void *arg)
{
    toy_model m;
    int rank = hr_group_rank(world);
    HR_TRY(toy_model_init(&m, world, true));
    HR_TRY(toy_step(&m, &(toy_step_opts){.overlap = false}, &plain[rank]));
    for (int w = 0; w < WAYS; w++) {
        stage_rig r;
        HR_TRY(drive_open(&r, &m, &ways[w].stage));
        HR_TRY(drive_step(&r, &ways[w]));
        HR_TRY(stage_rig_read(&r, &got[rank][w]));
        stage_rig_close(&r);
    }
    toy_model_fini(&m);
    return HR_OK;
}

static void run_ranks(int n, hr_rank_fn fn)
{
    if (hr_local_run(n, NULL, fn, NULL) < 0)
        fail_msg("%s", hr_last_error());
}

static void every_way_equals_the_model_without_stages_to_the_bit(void **state)
{
    run_ranks(RANKS, all_ways);
    for (int r = 0; r < RANKS; r++)
        for (int w = 0; w < WAYS; w++)
            if (memcmp(&plain[r], &got[r][w], sizeof plain[r]) != 0)
                fail_msg("rank %d: way %d differs", r, w);
}

static hr_status evaluation(hr_group *world, void *arg)
{
    toy_model m;
    stage_rig r;
    hr_mem_stats before, after;
    int rank = hr_group_rank(world);
    drive_how eval = {.forward_only = true};
    HR_TRY(toy_model_init(&m, world, true));
    HR_TRY(toy_step(&m, &(toy_step_opts){.overlap = false}, &plain[rank]));
    HR_TRY(drive_open(&r, &m, &eval.stage));
    HR_TRY(drive_step(&r, &eval));
    hr_mem_get_stats(hr_device_current(), &before);
    HR_TRY(drive_step(&r, &eval));
    hr_mem_get_stats(hr_device_current(), &after);
    HR_TRY(stage_rig_read(&r, &got[rank][0]));
    HOLDS(after.live_bytes == before.live_bytes);
    stage_rig_close(&r);
    toy_model_fini(&m);
    return HR_OK;
}

static void forward_alone_gives_the_losses_and_keeps_nothing(void **state)
{
    static const toy_result none;
    run_ranks(RANKS, evaluation);
    for (int r = 0; r < RANKS; r++) {
        assert_memory_equal(plain[r].loss, got[r][0].loss, sizeof plain[r].loss);
        assert_memory_equal(none.grad, got[r][0].grad, sizeof none.grad);
    }
}

/* ---- memory -------------------------------------------------------------------------------------- */
static hr_status live(int64_t *bytes)
{
    hr_mem_stats stats;
    HR_TRY(hr_device_synchronize(hr_device_current()));
    hr_mem_get_stats(hr_device_current(), &stats);
    *bytes = (int64_t)stats.live_bytes;
    return HR_OK;
}

/* A sent output, and with recompute all but the input of a stage, is given up before its backward. */
static hr_status what_is_held(hr_group *world, void *arg)
{
    const int64_t one = TOY_ROWS * TOY_WIDTH * (int64_t)sizeof(float);
    for (int again = 0; again < 2; again++) {
        toy_model m;
        stage_rig r;
        drive_how h = {.stage = {.recompute = again}};
        drive d = {.rig = &r, .how = &h};
        int64_t base, sent, gone, end;
        HR_TRY(toy_model_init(&m, world, true));
        HR_TRY(drive_open(&r, &m, &h.stage));
        HR_TRY(live(&base));
        HR_TRY(drive_forward(&d, 0, 0));
        HR_TRY(live(&sent));
        hr_tensor *kept = d.mid[0];
        d.mid[0] = NULL;
        hr_tensor_release(kept);
        HR_TRY(live(&gone));
        HOLDS(sent - gone == one);
        HOLDS(again ? gone == base : gone > base);
        drive_fns(&d, 0)->drop(drive_fns(&d, 0)->ctx);
        HR_TRY(live(&end));
        HOLDS(end == base);
        stage_rig_close(&r);
        toy_model_fini(&m);
    }
    return HR_OK;
}

static void an_output_that_was_sent_is_held_by_nobody(void **state)
{
    run_ranks(1, what_is_held);
}

/* ---- hooks --------------------------------------------------------------------------------------- */
typedef struct told {
    char order[64];
    hr_stream *stream;
    hr_tensor *out, *grad;
} told;

static hr_status tell(told *t, const char *word)
{
    strcat(t->order, word);
    return HR_OK;
}

static hr_status pre_f(void *ctx, int vp_stage)
{
    return tell(ctx, "f ");
}

static hr_status pre_b(void *ctx, int vp_stage)
{
    return tell(ctx, "b ");
}

static hr_status post_f(void *ctx, hr_tensor *output, int vp_stage)
{
    told *t = ctx;
    t->stream = hr_stream_current();
    HR_TRY(hr_tensor_alias(output, &t->out));
    return tell(t, "F ");
}

static hr_status post_b(void *ctx, hr_tensor *grad, int vp_stage)
{
    told *t = ctx;
    HR_TRY(hr_tensor_alias(grad, &t->grad));
    return tell(t, "B ");
}

/* In a chunk whose preprocess computes, the hook would see the wrong gradient; whose postprocess does,
 * the wrong output. */
static hr_status twice(void *chunk, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                       hr_tensor **out, int *n_out)
{
    *n_out = 1;
    return toy_add(in[0], in[0], &out[0]);
}

static hr_status told_of_a_pair(hr_group *world, hr_slot_fn postprocess,
                                hr_slot_fn preprocess, told *t)
{
    toy_model m;
    stage_rig r;
    drive_how h = {.pairs = true};
    drive d = {.rig = &r, .how = &h};
    hr_tensor *out, *in;
    HR_TRY(toy_model_init(&m, world, true));
    HR_TRY(drive_open(&r, &m, &h.stage));
    r.side[0].chunk.postprocess = postprocess;
    r.side[1].chunk.preprocess = preprocess;
    HR_TRY(drive_forward(&d, 0, 0));
    HR_TRY(drive_forward(&d, 1, 0));
    hr_exec_at fa = drive_at(&d, 0, 1, true), ba = drive_at(&d, 1, 0, true);
    hr_plan_hooks hooks = {t, pre_f, pre_b, post_f, post_b};
    hr_exec_half f = {drive_fns(&d, 0)->ctx, &fa, NULL, &out};
    hr_exec_half b = {drive_fns(&d, 1)->ctx, &ba, NULL, &in};
    HR_TRY(drive_fns(&d, 0)->pair(&f, &b, &hooks));
    HOLDS(t->out == NULL || t->stream == hr_get_comm_stream());
    HOLDS(t->out == NULL || hr_tensor_data(t->out) == hr_tensor_data(out));
    HOLDS(t->grad == NULL || hr_tensor_data(t->grad) == hr_tensor_data(in));
    HOLDS(out && hr_tensor_count(out) == TOY_ROWS * TOY_WIDTH);
    HOLDS(in && hr_tensor_count(in) == TOY_ROWS * TOY_WIDTH);
    hr_tensor_release(out);
    hr_tensor_release(in);
    hr_tensor_release(t->out);
    hr_tensor_release(t->grad);
    drive_drop(&d);
    stage_rig_close(&r);
    toy_model_fini(&m);
    return HR_OK;
}

static hr_status hooks_of_a_pair(hr_group *world, void *arg)
{
    told t = {.order = ""}, u = {.order = ""}, v = {.order = ""};
    HR_TRY(told_of_a_pair(world, NULL, NULL, &t));
    HOLDS(strcmp(t.order, "f b F B ") == 0);
    HR_TRY(told_of_a_pair(world, NULL, twice, &u));
    HOLDS(strcmp(u.order, "f b F ") == 0);
    HR_TRY(told_of_a_pair(world, twice, NULL, &v));
    HOLDS(strcmp(v.order, "f b B ") == 0);
    return HR_OK;
}

static void a_pair_hands_out_on_its_hooks_what_leaves_the_stages(void **state)
{
    run_ranks(1, hooks_of_a_pair);
}

/* ---- mistakes ------------------------------------------------------------------------------------ */
static hr_status misuse(hr_group *world, void *arg)
{
    toy_model m;
    stage_rig r;
    drive_how h = {.split = false};
    drive d = {.rig = &r, .how = &h};
    HR_TRY(toy_model_init(&m, world, true));
    HR_TRY(drive_open(&r, &m, &h.stage));
    HOLDS(drive_backward(&d, 0, 2) == HR_ERR_STATE);
    HOLDS(strcmp(hr_last_reason(), "no_forward") == 0);
    HOLDS(strstr(hr_last_error(), "stage 0, microbatch 2") != NULL);
    HR_TRY(drive_forward(&d, 0, 2));
    hr_tensor *sent = d.mid[2];
    HOLDS(drive_forward(&d, 0, 2) == HR_ERR_STATE);
    HOLDS(strcmp(hr_last_reason(), "forward_twice") == 0);
    hr_tensor_release(sent);
    d.mid[2] = NULL;
    stage_rig_close(&r);
    toy_model_fini(&m);
    HOLDS(hr_plan_stage_create(NULL, &r.side[0].stage) == HR_ERR_INVALID);
    HOLDS(hr_plan_stage_create(&(hr_plan_stage_opts){HR_INIT(hr_plan_stage_opts)},
                               &r.side[0].stage) == HR_ERR_INVALID);
    hr_plan_stage_destroy(NULL);
    return HR_OK;
}

static void work_out_of_order_is_refused_by_name(void **state)
{
    run_ranks(1, misuse);
}

/* A plan that fails, first in a forward, then with recompute in a backward: drop, and the next step is
 * exact. */
static hr_status failures(hr_group *world, void *arg)
{
    toy_model m;
    HR_TRY(toy_model_init(&m, world, true));
    HR_TRY(toy_step(&m, &(toy_step_opts){.overlap = false}, &plain[0]));
    for (int w = 0; w < WAYS; w++) {
        for (int n = 0; n < 2 * TOY_MICROBATCHES; n += 3) {
            stage_rig r;
            HR_TRY(drive_open(&r, &m, &ways[w].stage));
            r.side[1].fail_at = n;
            hr_status st = drive_step(&r, &ways[w]);
            HOLDS(n >= TOY_MICROBATCHES || st == HR_ERR_CALLBACK);
            r.side[1].fail_at = -1;
            for (int s = 0; s < DRIVE_STAGES; s++)
                r.side[s].fns->drop(r.side[s].fns->ctx);
            HR_TRY(drive_step(&r, &ways[w]));
            HR_TRY(stage_rig_read(&r, &got[0][w]));
            HOLDS(memcmp(&plain[0], &got[0][w], sizeof plain[0]) == 0);
            stage_rig_close(&r);
        }
    }
    toy_model_fini(&m);
    return HR_OK;
}

static void the_step_after_a_failure_is_exact(void **state)
{
    run_ranks(1, failures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_equals_the_model_without_stages_to_the_bit),
        cmocka_unit_test(forward_alone_gives_the_losses_and_keeps_nothing),
        cmocka_unit_test(an_output_that_was_sent_is_held_by_nobody),
        cmocka_unit_test(a_pair_hands_out_on_its_hooks_what_leaves_the_stages),
        cmocka_unit_test(work_out_of_order_is_refused_by_name),
        cmocka_unit_test(the_step_after_a_failure_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
