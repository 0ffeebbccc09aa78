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

static void cut(stage_rig *r, int s)
{
    rig_side *side = &r->side[s];
    bool last = s == RIG_STAGES - 1;
    *side = (rig_side){.rig = r, .chunk = r->m->chunk, .fail_at = -1};
    side->chunk.layers = &r->m->desc[s ? RIG_CUT : 0];
    side->chunk.n_layers = last ? TOY_LAYERS - RIG_CUT : RIG_CUT;
    if (!last)
        side->chunk.final_norm = NULL;
}

hr_status stage_rig_open(stage_rig *r, toy_model *m, const hr_plan_stage_opts *how)
{
    memset(r, 0, sizeof *r);
    r->m = m;
    for (int s = 0; s < RIG_STAGES; s++) {
        hr_plan_stage_opts opts = {HR_INIT(hr_plan_stage_opts),
                                   .stage = s,
                                   .ctx = &r->side[s],
                                   .plan = make_plan,
                                   .loss = make_loss,
                                   .vp_stage = HR_NO_STAGE,
                                   .delay_wgrad = how->delay_wgrad,
                                   .serial = how->serial,
                                   .recompute = how->recompute};
        cut(r, s);
        HR_TRY(hr_plan_stage_create(&opts, &r->side[s].stage));
        r->side[s].fns = hr_plan_stage_fns(r->side[s].stage);
    }
    return HR_OK;
}

void stage_rig_close(stage_rig *r)
{
    for (int s = 0; s < RIG_STAGES; s++)
        hr_plan_stage_destroy(r->side[s].stage);
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
