/* Weight gradients that are stored by backward and run by a later call: three chunks of a rank, whose
 * slots count what is done for each of their weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "support/holds.h"
#include "toy_model.h"

enum { CHUNKS = 3, MICROBATCHES = 3, STAGE = 5 };

typedef struct rig {
    toy_model m;
    hr_chunk_desc chunk[CHUNKS];
    hr_wgrad_store *store;
    hr_schedule_plan *plan[CHUNKS];
    hr_tensor *x[CHUNKS]; /* inputs, leaves */
} rig;

/* What ran: "L2.mlp L2.pre ..." a batch; and how often the work of each weight was called done. */
static char told[512];
static int done[TOY_LAYERS][HR_SLOTS];
static int fail_at; /* the n-th call fails */

static hr_status wgrad_done(void *layer, hr_layer_ctx *ctx, hr_slot slot)
{
    toy_layer *l = layer;
    int i = (int)(l - l->model->layer);
    size_t at = strlen(told);
    snprintf(told + at, sizeof told - at, "L%d.%s@%d ", i,
             slot == HR_SLOT_PRE ? "pre" : "mlp", hr_layer_ctx_microbatch(ctx));
    done[i][slot]++;
    if (fail_at-- == 0)
        return hr_fail(HR_ERR_CALLBACK, "told", "told to fail");
    return hr_layer_ctx_state(ctx) ? HR_ERR_STATE : HR_OK; /* it is gone */
}

static hr_status open_rig(rig *r, hr_group *world)
{
    memset(r, 0, sizeof *r);
    memset(done, 0, sizeof done);
    told[0] = '\0';
    fail_at = -1;
    HR_TRY(toy_model_init(&r->m, world, false));
    for (int i = 0; i < TOY_LAYERS; i++)
        r->m.desc[i].wgrad_done = wgrad_done;
    for (int c = 0; c < CHUNKS; c++) {
        r->chunk[c] = r->m.chunk;
        r->chunk[c].vp_stage = c;
    }
    HR_TRY(hr_set_streams(NULL, false));
    return hr_wgrad_store_create(STAGE, &r->store);
}

static void drop_plans(rig *r)
{
    for (int c = 0; c < CHUNKS; c++) {
        hr_schedule_plan_destroy(r->plan[c]);
        hr_tensor_release(r->x[c]);
        r->plan[c] = NULL;
        r->x[c] = NULL;
    }
}

static hr_status close_rig(rig *r)
{
    drop_plans(r);
    hr_wgrad_store_destroy(r->store);
    toy_model_fini(&r->m);
    return hr_device_synchronize(hr_device_current());
}

/* Forward of chunk c: its output is the next one's input. */
static hr_status forward(rig *r, int c, int mb)
{
    hr_tensor *y;
    hr_build_plan_opts opts = {HR_INIT(hr_build_plan_opts), .microbatch = mb,
                               .wgrad_store = r->store};
    if (c == 0)
        HR_TRY(toy_input(&r->m, mb, &r->x[0]));
    HR_TRY(hr_build_schedule_plan(&r->chunk[c], &r->x[c], 1, &opts, &r->plan[c]));
    HR_TRY(hr_schedule_plan_run(r->plan[c], NULL, NULL, NULL, &y));
    hr_status st = HR_OK;
    if (c + 1 < CHUNKS) {
        st = hr_tensor_detach(y, &r->x[c + 1]);
        if (st >= 0)
            st = hr_tensor_set_requires_grad(r->x[c + 1], true);
    }
    hr_tensor_release(y);
    return st;
}

/* The gradient that enters the last chunk is its input: any will do. */
static hr_status backward(rig *r, int c)
{
    hr_tensor *none;
    hr_tensor *g = c + 1 < CHUNKS ? hr_tensor_grad(r->x[c + 1]) : r->x[c];
    return hr_schedule_plan_run(NULL, r->plan[c], g, NULL, &none);
}

static hr_status split_backward(rig *r, int mb)
{
    for (int c = 0; c < CHUNKS; c++)
        HR_TRY(forward(r, c, mb));
    for (int c = CHUNKS - 1; c >= 0; c--)
        HR_TRY(backward(r, c));
    drop_plans(r);
    return HR_OK;
}

static void on_one_rank(hr_rank_fn fn)
{
    hr_status st = hr_local_run(1, NULL, fn, NULL);
    if (st < 0)
        fail_msg("%s", hr_last_error());
}

/* ---- the tests --------------------------------------------------------------------------- */
static hr_status each_item_once(hr_group *world, void *arg)
{
    rig r;
    HR_TRY(open_rig(&r, world));
    for (int mb = 0; mb < MICROBATCHES; mb++)
        HR_TRY(split_backward(&r, mb));
    HOLDS(told[0] == '\0'); /* nothing ran yet */
    HOLDS(hr_wgrad_store_pending(r.store) == CHUNKS * MICROBATCHES);
    HR_TRY(hr_wgrad_store_run(r.store, 1, 2));
    HOLDS(strcmp(told, "L2.mlp@2 L2.pre@2 L1.mlp@2 L1.pre@2 L0.mlp@2 L0.pre@2 ") == 0);
    for (int c = 0; c < CHUNKS; c++)
        for (int mb = 0; mb < MICROBATCHES; mb++)
            if (c != 1 || mb != 2)
                HR_TRY(hr_wgrad_store_run(r.store, c, mb));
    for (int i = 0; i < TOY_LAYERS; i++) {
        HOLDS(done[i][HR_SLOT_PRE] == CHUNKS * MICROBATCHES);
        HOLDS(done[i][HR_SLOT_MLP] == CHUNKS * MICROBATCHES);
    }
    HR_TRY(hr_wgrad_store_end_step(r.store));
    return close_rig(&r);
}

static void pain_10_each_stored_item_runs_once_in_the_order_of_the_plan(void **state)
{
    on_one_rank(each_item_once);
}

static hr_status one_too_many(hr_group *world, void *arg)
{
    rig r;
    HR_TRY(open_rig(&r, world));
    HR_TRY(split_backward(&r, 7));
    HR_TRY(hr_wgrad_store_run(r.store, 2, 7));
    HOLDS(hr_wgrad_store_run(r.store, 2, 7) == HR_ERR_STATE);
    HOLDS(strcmp(hr_last_reason(), "wgrad_empty") == 0);
    HOLDS(strstr(hr_last_error(), "stage 5, chunk 2, microbatch 7") != NULL);
    HOLDS(hr_wgrad_store_pending(r.store) == 2); /* the others wait on */
    HOLDS(hr_wgrad_store_run(NULL, 0, 0) == HR_ERR_INVALID);
    return close_rig(&r);
}

static void pain_10_weight_slot_too_many_names_stage_chunk_and_microbatch(void **state)
{
    on_one_rank(one_too_many);
}

static hr_status one_too_few(hr_group *world, void *arg)
{
    rig r;
    HR_TRY(open_rig(&r, world));
    HR_TRY(split_backward(&r, 0));
    HR_TRY(hr_wgrad_store_run(r.store, 2, 0));
    HOLDS(hr_wgrad_store_end_step(r.store) == HR_ERR_STATE);
    HOLDS(strcmp(hr_last_reason(), "wgrad_left") == 0);
    HOLDS(strstr(hr_last_error(), "stage 5") && strstr(hr_last_error(), "chunk 1"));
    HR_TRY(hr_wgrad_store_end_step(r.store)); /* it is empty now */
    return close_rig(&r);
}

static void pain_10_work_left_at_the_step_end_is_an_error(void **state)
{
    on_one_rank(one_too_few);
}

static hr_status backward_again(hr_group *world, void *arg)
{
    rig r;
    HR_TRY(open_rig(&r, world));
    HR_TRY(split_backward(&r, 0));
    HOLDS(split_backward(&r, 0) == HR_ERR_STATE);
    HOLDS(strcmp(hr_last_reason(), "wgrad_stored_twice") == 0);
    return close_rig(&r);
}

static void backward_again_without_the_weight_slot_is_refused(void **state)
{
    on_one_rank(backward_again);
}

/* Fails in the weight work, and in a backward: the next step finds an empty store. */
static hr_status failed_step(hr_group *world, void *arg)
{
    rig r;
    hr_mem_stats before, after;
    hr_tensor *none;
    HR_TRY(open_rig(&r, world));
    HR_TRY(split_backward(&r, 0));
    for (int c = 0; c < CHUNKS; c++)
        HR_TRY(
            hr_wgrad_store_run(r.store, c, 0)); /* weights have their gradients now */
    hr_mem_get_stats(hr_device_current(), &before);
    HR_TRY(split_backward(&r, 0));
    fail_at = 3;
    HOLDS(hr_wgrad_store_run(r.store, 1, 0) == HR_ERR_CALLBACK);
    HOLDS(strstr(hr_last_error(), "chunk 1, microbatch 0, layer 1") != NULL);
    HOLDS(hr_wgrad_store_pending(r.store) == 0);
    for (int c = 0; c < CHUNKS; c++)
        HR_TRY(forward(&r, c, 1));
    HR_TRY(backward(&r, 2));
    HOLDS(hr_wgrad_store_pending(r.store) == 1);
    HOLDS(hr_schedule_plan_run(NULL, r.plan[1], NULL, NULL, &none) <
          0); /* no gradient */
    HOLDS(hr_wgrad_store_pending(r.store) == 0);
    drop_plans(&r);
    hr_mem_get_stats(hr_device_current(), &after);
    HOLDS(after.live_bytes == before.live_bytes); /* a batch keeps activations */
    HOLDS(split_backward(&r, 1) == HR_OK);
    for (int c = 0; c < CHUNKS; c++)
        HR_TRY(hr_wgrad_store_run(r.store, c, 1));
    HR_TRY(hr_wgrad_store_end_step(r.store));
    return close_rig(&r);
}

static void pain_10_failed_step_leaves_no_item_for_the_next(void **state)
{
    on_one_rank(failed_step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pain_10_each_stored_item_runs_once_in_the_order_of_the_plan),
        cmocka_unit_test(pain_10_weight_slot_too_many_names_stage_chunk_and_microbatch),
        cmocka_unit_test(pain_10_work_left_at_the_step_end_is_an_error),
        cmocka_unit_test(backward_again_without_the_weight_slot_is_refused),
        cmocka_unit_test(pain_10_failed_step_leaves_no_item_for_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
