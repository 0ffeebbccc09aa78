/* See stage_rig.h. */
#include "stage_rig.h"

#include <string.h>

#include "base/try.h"

static hr_status make_plan(void *ctx, const hr_exec_at *at, hr_tensor *in,
                           const hr_build_plan_opts *opts, hr_schedule_plan **out)
{
    rig_side *side = ctx;
    hr_tensor *x = in;
    if (side->fail_at-- == 0)
        return hr_fail(HR_ERR_CALLBACK, "told", "told to fail");
    if (at->first)
        HR_TRY(toy_input(side->rig->m, at->microbatch, &x));
    hr_status st = hr_build_schedule_plan(&side->chunk, &x, 1, opts, out);
    if (at->first)
        hr_tensor_release(x);
    return st;
}

static hr_status make_loss(void *ctx, const hr_exec_at *at, hr_tensor *output,
                           hr_tensor **loss)
{
    rig_side *side = ctx;
    hr_tensor **kept = &side->rig->loss[at->microbatch];
    HR_TRY(toy_loss(output, loss));
    hr_tensor_release(*kept);
    *kept = NULL;
    return hr_tensor_detach(*loss, kept);
}

static void cut(rig_side *side, const toy_model *m, int stage, int of)
{
    int begin = stage * TOY_LAYERS / of, end = (stage + 1) * TOY_LAYERS / of;
    side->chunk = m->chunk;
    side->chunk.layers = &m->desc[begin];
    side->chunk.n_layers = end - begin;
    if (stage + 1 < of)
        side->chunk.final_norm = NULL;
}

static hr_status add(stage_rig *r, rig_side *side, const hr_plan_stage_opts *how,
                     int stage, int of)
{
    hr_plan_stage_opts opts = {HR_INIT(hr_plan_stage_opts),
                               .stage = stage,
                               .ctx = side,
                               .plan = make_plan,
                               .loss = make_loss,
                               .vp_stage = HR_NO_STAGE,
                               .delay_wgrad = how->delay_wgrad,
                               .serial = how->serial,
                               .recompute = how->recompute};
    *side = (rig_side){.rig = r, .fail_at = -1};
    cut(side, r->m, stage, of);
    HR_TRY(hr_plan_stage_create(&opts, &side->stage));
    side->fns = hr_plan_stage_fns(side->stage);
    return HR_OK;
}

hr_status stage_rig_open(stage_rig *r, toy_model *m, const hr_plan_stage_opts *how,
                         const int *stages, int n, int of)
{
    memset(r, 0, sizeof *r);
    r->m = m;
    r->n = n;
    for (int i = 0; i < n; i++)
        HR_TRY(add(r, &r->side[i], how, stages[i], of));
    return HR_OK;
}

void stage_rig_close(stage_rig *r)
{
    for (int i = 0; i < r->n; i++)
        hr_plan_stage_destroy(r->side[i].stage);
    for (int m = 0; m < TOY_MICROBATCHES; m++)
        hr_tensor_release(r->loss[m]);
}

hr_status stage_rig_begin(stage_rig *r)
{
    for (int i = 0; i < TOY_WEIGHTS; i++)
        HR_TRY(hr_tensor_set_grad(r->m->weight[i], NULL));
    return HR_OK;
}

hr_status stage_rig_read(stage_rig *r, toy_result *out)
{
    memset(out, 0, sizeof *out);
    HR_TRY(hr_device_synchronize(hr_device_current()));
    for (int i = 0; i < TOY_MICROBATCHES; i++)
        if (r->loss[i])
            HR_TRY(hr_tensor_read(r->loss[i], &out->loss[i], sizeof(float)));
    for (int i = 0; i < TOY_WEIGHTS; i++)
        if (hr_tensor_grad(r->m->weight[i]))
            HR_TRY(hr_tensor_read(hr_tensor_grad(r->m->weight[i]),
                                  &out->grad[(size_t)i * TOY_WIDTH],
                                  TOY_WIDTH * sizeof(float)));
    return HR_OK;
}
