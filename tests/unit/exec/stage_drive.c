/* See stage_drive.h. */
#include "unit/exec/stage_drive.h"
#include "base/try.h"

hr_status drive_open(stage_rig *r, toy_model *m, const hr_plan_stage_opts *how)
{
    static const int both[] = {0, 1};
    return stage_rig_open(r, m, how, both, DRIVE_STAGES, DRIVE_STAGES);
}

static const hr_step_counts counts = {HR_LOSS_SUM, TOY_MICROBATCHES, 0};

hr_exec_at drive_at(const drive *d, int stage, int m, bool paired)
{
    return (hr_exec_at){.stage = stage,
                        .microbatch = m,
                        .first = stage == 0,
                        .last = stage == DRIVE_STAGES - 1,
                        .backward = !d->how->forward_only,
                        .split = d->how->split,
                        .paired = paired,
                        .step = &counts,
                        .scale = stage == DRIVE_STAGES - 1 ? 1 : 0};
}

const hr_exec_stage *drive_fns(const drive *d, int stage)
{
    return d->rig->side[stage].fns;
}

hr_status drive_forward(drive *d, int stage, int m)
{
    hr_exec_at where = drive_at(d, stage, m, false);
    hr_tensor *out;
    HR_TRY(drive_fns(d, stage)->forward(drive_fns(d, stage)->ctx, &where,
                                        stage ? d->mid[m] : NULL, &out));
    if (stage == 0)
        d->mid[m] = out;
    else
        HOLDS(out == NULL);
    return HR_OK;
}

/* The claims of the executor go with the backward. */
static void passed(drive *d, int stage, int m)
{
    hr_tensor **used = stage ? &d->mid[m] : &d->mid_grad[m];
    hr_tensor_release(*used);
    *used = NULL;
}

hr_status drive_backward(drive *d, int stage, int m)
{
    hr_exec_at where = drive_at(d, stage, m, false);
    const hr_exec_stage *f = drive_fns(d, stage);
    hr_tensor *in, *grad = stage ? NULL : d->mid_grad[m];
    HR_TRY((d->how->split ? f->input_grad : f->backward)(f->ctx, &where, grad, &in));
    passed(d, stage, m);
    if (stage)
        d->mid_grad[m] = in;
    else
        HOLDS(in == NULL);
    return HR_OK;
}

static hr_status both(drive *d, int f_stage, int fm, int b_stage, int bm)
{
    hr_exec_at fa = drive_at(d, f_stage, fm, true), ba = drive_at(d, b_stage, bm, true);
    hr_plan_hooks hooks = {0};
    hr_tensor *out, *in;
    hr_exec_half f = {drive_fns(d, f_stage)->ctx, &fa, f_stage ? d->mid[fm] : NULL,
                      &out};
    hr_exec_half b = {drive_fns(d, b_stage)->ctx, &ba, b_stage ? NULL : d->mid_grad[bm],
                      &in};
    HR_TRY(drive_fns(d, f_stage)->pair(&f, &b, &hooks));
    passed(d, b_stage, bm);
    *(f_stage ? &out : &d->mid[fm]) = out;
    *(b_stage ? &d->mid_grad[bm] : &in) = in;
    HOLDS(f_stage == 0 || out == NULL);
    HOLDS(b_stage == 1 || in == NULL);
    return HR_OK;
}

/* Forward of `m` on a stage, backward of the microbatch before on the other. */
static hr_status phase(drive *d, int f_stage, int m)
{
    int b_stage = 1 - f_stage;
    if (m > 0 && m < TOY_MICROBATCHES && d->how->pairs)
        return both(d, f_stage, m, b_stage, m - 1);
    if (m < TOY_MICROBATCHES)
        HR_TRY(drive_forward(d, f_stage, m));
    if (m > 0 && !d->how->forward_only)
        HR_TRY(drive_backward(d, b_stage, m - 1));
    return HR_OK;
}

static hr_status weights(drive *d)
{
    for (int stage = 0; stage < DRIVE_STAGES; stage++)
        for (int m = 0; m < TOY_MICROBATCHES; m++) {
            hr_exec_at where = drive_at(d, stage, m, false);
            HR_TRY(drive_fns(d, stage)->weight_grad(drive_fns(d, stage)->ctx, &where));
        }
    return HR_OK;
}

void drive_drop(drive *d)
{
    for (int m = 0; m < TOY_MICROBATCHES; m++) {
        hr_tensor_release(d->mid[m]);
        hr_tensor_release(d->mid_grad[m]);
    }
}

hr_status drive_step(stage_rig *r, const drive_how *h)
{
    drive d = {.rig = r, .how = h};
    hr_status st = stage_rig_begin(r);
    bool mode = hr_grad_mode_set(!h->forward_only);
    for (int m = 0; m <= TOY_MICROBATCHES && st >= 0; m++) {
        st = phase(&d, 0, m);
        if (st >= 0)
            st = phase(&d, 1, m);
    }
    if (st >= 0 && h->split)
        st = weights(&d);
    hr_grad_mode_set(mode);
    drive_drop(&d);
    return st;
}
