/* train_stage.c: what a stage does with a microbatch: its plan, its loss; and the executor that runs all
 * stages of this rank in the order of a schedule. */
#include "interrupt.h"
#include "train.h"
#include <stdlib.h>

/* A copy of `host` in device memory, in the order of the compute stream. */
static hr_status upload(train_rank *r, const int32_t *host, hr_tensor **out)
{
    APP_TRY(hr_tensor_create(HR_I32, 1, &r->tokens_per_microbatch, out));
    hr_status st =
        hr_copy(r->compute, hr_tensor_data(*out), host, hr_tensor_bytes(*out));
    if (st < 0) {
        hr_tensor_release(*out);
        *out = NULL;
    }
    return st;
}

/* Not when it is done again: what is done again was done without a graph before. */
static bool counts(const train_rank *r, const hr_exec_at *at)
{
    return !(r->job->opts->recompute && at->backward && hr_grad_mode());
}

/* The one place where losses are weighed: all that is divided by is in these. */
static void begin(const train_rank *r, const hr_exec_at *at)
{
    const train_options *o = r->job->opts;
    double sequence =
        hr_sequence_loss_scale(at->step, o->micro_batch_size, o->model.seq);
    hr_app_model_begin(r->model,
                       &(hr_app_pass){.loss_scale = (float)at->scale,
                                      .aux_scale = (float)(sequence * o->aux_coef),
                                      .training = at->backward,
                                      .counts = counts(r, at)});
}

static hr_status make_plan(void *ctx, const hr_exec_at *at, hr_tensor *in,
                           const hr_build_plan_opts *opts, hr_schedule_plan **out)
{
    const train_stage *s = ctx;
    train_rank *r = s->rank;
    if (hr_app_interrupted())
        return hr_fail(HR_ERR_ABORTED, "interrupted", "interrupted");
    const int32_t *host = r->batch + 2 * (at->microbatch * r->tokens_per_microbatch);
    hr_app_feed feed = {.in = in};
    hr_status st = HR_OK;
    begin(r, at);
    if (hr_app_stage_wants_ids(s->stage))
        st = upload(r, host, &feed.ids);
    if (st >= 0 && hr_app_stage_wants_targets(s->stage))
        st = upload(r, host + r->tokens_per_microbatch, &feed.targets);
    if (st >= 0)
        st = hr_app_stage_plan(s->stage, &feed, opts, out);
    hr_tensor_release(feed.ids);
    hr_tensor_release(feed.targets);
    return st;
}

/* The plan puts out the loss itself; it only has to be added up for the report. */
static hr_status take_loss(void *ctx, const hr_exec_at *at, hr_tensor *output,
                           hr_tensor **loss)
{
    train_rank *r = ((train_stage *)ctx)->rank;
    *loss = NULL;
    if (r->model->pass.counts)
        APP_TRY(hr_app_count_in(&r->loss, output));
    *loss = hr_tensor_retain(output);
    return HR_OK;
}

static hr_status reduce(void *ctx, int stage)
{
    return hr_grads_reduce(((train_stage *)ctx)->rank->grads.over_ranks, stage);
}

static hr_status count_tokens(void *ctx, int microbatch, int64_t *tokens)
{
    *tokens = ((train_stage *)ctx)->rank->tokens_per_microbatch;
    return HR_OK;
}

/* ---- the executor -------------------------------------------------------------------------- */

static hr_status make_stage(train_stage *s, bool serial, bool recompute,
                            hr_plan_stage **out)
{
    const train_options *o = s->rank->job->opts;
    return hr_plan_stage_create(
        &(hr_plan_stage_opts){
            HR_INIT(hr_plan_stage_opts), .stage = s->stage->stage, .ctx = s,
            .plan = make_plan, .loss = take_loss, .reduce = reduce,
            .tokens = count_tokens, .vp_stage = s->stage->vp_stage,
            .delay_wgrad = o->delay_wgrad, .serial = serial, .recompute = recompute,
            .ncclep_zero_copy = o->dispatcher == HR_MOE_SYMMETRIC},
        out);
}

static hr_status open_stage(train_rank *r, int i)
{
    const train_options *o = r->job->opts;
    train_stage *s = &r->stages[i];
    *s = (train_stage){.rank = r, .stage = &r->model->stages[i]};
    return make_stage(s, !o->overlap, o->recompute, &s->fns);
}

hr_status hr_app_stage_open_serial(train_rank *r, int i, hr_plan_stage **out)
{
    return make_stage(&r->stages[i], true, false, out);
}

static hr_exec_shape boundary(const train_rank *r, int stage)
{
    hr_exec_shape t = {.dtype = r->model->type, .ndim = 2};
    hr_app_stage_in_shape(&r->model->shape, &r->job->pipeline->parts[stage],
                          r->tokens_per_microbatch, t.dim);
    return t;
}

/* Of what must be alike on all ranks and shows in no schedule. */
static uint64_t fingerprint(const train_rank *r)
{
    const pipeline *p = r->job->pipeline;
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (int s = 0; s < p->stages; s++) {
        const hr_layout_part *q = &p->parts[s];
        int word[] = {q->embedding, q->loss,      q->first_layer,
                      q->layers,    q->first_mtp, q->mtp};
        for (size_t i = 0; i < sizeof word / sizeof *word; i++)
            h = (h ^ (uint64_t)word[i]) * 1099511628211u;
    }
    h = (h ^ (uint64_t)r->model->type) * 1099511628211u;
    return h ^ (uint64_t)r->tokens_per_microbatch;
}

static hr_status open_exec(train_rank *r, hr_exec_stage *fns, hr_exec_shape *shapes)
{
    const pipeline *p = r->job->pipeline;
    for (int i = 0; i < r->model->n_stages; i++) {
        APP_TRY(open_stage(r, i));
        fns[i] = *hr_plan_stage_fns(r->stages[i].fns);
    }
    if (hr_app_trial_wanted(r->job))
        APP_TRY(hr_app_trial_open(r, fns));
    for (int s = 0; s < p->stages; s++)
        shapes[s] = boundary(r, s);
    APP_TRY(hr_exec_create(
        &(hr_exec_opts){HR_INIT(hr_exec_opts), .pp = r->groups.pp,
                        .world = r->groups.world, .dp = r->job->opts->dp, .stages = fns,
                        .n_stages = r->model->n_stages, .shapes = shapes,
                        .n_shapes = p->stages, .fingerprint = fingerprint(r)},
        &r->exec));
    APP_TRY(hr_exec_load(r->exec, p->training, &r->training));
    return hr_exec_load(r->exec, p->evaluation, &r->evaluation);
}

hr_status hr_app_stages_open(train_rank *r)
{
    int n = r->model->n_stages;
    hr_exec_stage *fns = calloc((size_t)n + 1, sizeof *fns);
    hr_exec_shape *shapes = calloc((size_t)r->job->pipeline->stages, sizeof *shapes);
    r->stages = calloc((size_t)n + 1, sizeof *r->stages);
    hr_status st = fns && shapes && r->stages
                       ? open_exec(r, fns, shapes)
                       : hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d stages", n);
    free(fns);
    free(shapes);
    return st;
}

void hr_app_stages_close(train_rank *r)
{
    hr_program_destroy(r->training);
    hr_program_destroy(r->evaluation);
    hr_exec_destroy(r->exec);
    for (int i = 0; r->stages && i < r->model->n_stages; i++)
        hr_plan_stage_destroy(r->stages[i].fns);
    hr_app_trial_close(r);
    free(r->stages);
}

hr_status hr_app_rank_pass(train_rank *r, const hr_program *program, hr_loss_mode mode,
                           hr_step_counts *counts)
{
    hr_tensor_release(r->loss);
    APP_TRY(hr_tensor_zeros(HR_F32, 1, (int64_t[]){1}, &r->loss));
    APP_TRY(hr_fill(r->compute, hr_tensor_data(r->model->aux_sum), 0, sizeof(float)));
    if (r->model->mtp.sum)
        APP_TRY(
            hr_fill(r->compute, hr_tensor_data(r->model->mtp.sum), 0, sizeof(float)));
    return hr_exec_step(r->exec, program,
                        &(hr_exec_step_opts){HR_INIT(hr_exec_step_opts), .mode = mode},
                        counts);
}
