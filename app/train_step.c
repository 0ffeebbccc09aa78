/* train_step.c: one step of one rank: its microbatches, the sum of gradients over ranks, the global
 * norm, the update. Everything is issued; the host waits once, for the norm. */
#include "interrupt.h"
#include "train.h"
#include <math.h>
#include <stdlib.h>

hr_status hr_app_rank_fence(train_rank *r, hr_stream *from, hr_stream *to)
{
    APP_TRY(hr_event_record(r->fence, from));
    return hr_event_wait(r->fence, to);
}

/* ---- data --------------------------------------------------------------------------------- */

void hr_app_rank_load(train_rank *r, int microbatches,
                      void (*fill)(const train_rank *r, int64_t at, int64_t sequence,
                                   int32_t *ids, int32_t *targets),
                      int64_t at)
{
    const train_options *o = r->job->opts;
    int64_t n = r->tokens_per_microbatch, seq = o->model.seq;
    int rank = hr_group_rank(r->world), ranks = hr_group_size(r->world);
    for (int m = 0; m < microbatches; m++)
        for (int s = 0; s < o->micro_batch_size; s++) {
            /* Which sequences a step holds depends on none of ranks and microbatches, only on
             * their product. */
            int64_t sequence = ((int64_t)m * ranks + rank) * o->micro_batch_size + s;
            int32_t *ids = r->batch + 2 * (m * n) + s * seq;
            fill(r, at, sequence, ids, ids + n);
        }
}

static void training_sequence(const train_rank *r, int64_t step, int64_t sequence,
                              int32_t *ids, int32_t *targets)
{
    const train_options *o = r->job->opts;
    hr_app_data_batch(r->job->data, o->seed, step, sequence, o->model.seq, ids,
                      targets);
}

/* ---- forward and backward ------------------------------------------------------------------- */

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

static hr_status microbatch_plan(void *ctx, int m, bool overlap,
                                 hr_schedule_plan **plan)
{
    train_rank *r = ctx;
    if (hr_app_interrupted())
        return hr_fail(HR_ERR_ABORTED, "interrupted", "interrupted");
    const int32_t *host = r->batch + 2 * (m * r->tokens_per_microbatch);
    hr_tensor *ids = NULL, *targets = NULL;
    hr_build_plan_opts opts = {
        HR_INIT(hr_build_plan_opts), .microbatch = m,
        .delay_wgrad = r->job->opts->delay_wgrad, .serial = !overlap,
        .ncclep_zero_copy = r->job->opts->dispatcher == HR_MOE_SYMMETRIC};
    hr_status st = upload(r, host, &ids);
    if (st >= 0)
        st = upload(r, host + r->tokens_per_microbatch, &targets);
    if (st >= 0)
        st = hr_app_model_plan(r->model, ids, targets, &opts, plan);
    hr_tensor_release(ids);
    hr_tensor_release(targets);
    return st;
}

/* The plan puts out the loss itself; it only has to be added up for the report. */
static hr_status microbatch_loss(void *ctx, int m, hr_tensor *output, hr_loss *out)
{
    train_rank *r = ctx;
    hr_tensor *sum;
    bool was = hr_grad_mode_set(false);
    hr_status st = hr_op_add(r->loss, output, &sum);
    hr_grad_mode_set(was);
    APP_TRY(st);
    hr_tensor_release(r->loss);
    r->loss = sum;
    *out =
        (hr_loss){.loss = hr_tensor_retain(output), .tokens = r->tokens_per_microbatch};
    return HR_OK;
}

hr_status hr_app_rank_pass(train_rank *r, int microbatches, bool forward_only)
{
    hr_no_pipelining_opts opts = {HR_INIT(hr_no_pipelining_opts),
                                  .microbatches = microbatches,
                                  .overlap = r->job->opts->overlap,
                                  .forward_only = forward_only,
                                  .loss_mode =
                                      HR_LOSS_SUM, /* the weight is in the loss */
                                  .ctx = r,
                                  .plan = microbatch_plan,
                                  .loss = microbatch_loss};
    hr_tensor_release(r->loss);
    APP_TRY(hr_tensor_zeros(HR_F32, 1, (int64_t[]){1}, &r->loss));
    APP_TRY(hr_fill(r->compute, hr_tensor_data(r->model->aux_sum), 0, sizeof(float)));
    if (r->model->mtp.sum)
        APP_TRY(
            hr_fill(r->compute, hr_tensor_data(r->model->mtp.sum), 0, sizeof(float)));
    bool was = hr_grad_mode_set(!forward_only);
    hr_status st = hr_forward_backward_no_pipelining(&opts);
    hr_grad_mode_set(was);
    return st;
}

/* ---- gradients over ranks ------------------------------------------------------------------- */

static hr_status reduce(train_rank *r)
{
    hr_app_params *p = &r->model->params;
    APP_TRY(hr_app_rank_fence(r, r->compute, r->comm));
    for (int k = DECAYED; k <= PLAIN; k++) {
        void *g = hr_tensor_data(p->g[k]);
        APP_TRY(hr_all_reduce(r->grads, g, g, p->count[k], HR_F32, HR_SUM, r->comm));
    }
    return hr_app_rank_fence(r, r->comm, r->compute);
}

hr_status hr_app_rank_tally(train_rank *r, float host[TALLIES])
{
    float *t = hr_tensor_f32(r->tally);
    APP_TRY(hr_copy(r->compute, &t[TALLY_LOSS], hr_tensor_data(r->loss), sizeof *t));
    APP_TRY(hr_copy(r->compute, &t[TALLY_AUX], hr_tensor_data(r->model->aux_sum),
                    sizeof *t));
    if (r->model->mtp.sum)
        APP_TRY(hr_copy(r->compute, &t[TALLY_MTP], hr_tensor_data(r->model->mtp.sum),
                        sizeof *t));
    APP_TRY(hr_app_rank_fence(r, r->compute, r->comm));
    APP_TRY(hr_all_reduce(r->grads, t, t, TALLIES, HR_F32, HR_SUM, r->comm));
    APP_TRY(hr_app_rank_fence(r, r->comm, r->compute));
    return hr_tensor_read(r->tally, host, hr_tensor_bytes(r->tally));
}

/* The norm over all parameters: what every rank has counts once, experts are added in order of
 * rank. Blocks. */
static hr_status global_norm(train_rank *r, double *out)
{
    hr_app_params *p = &r->model->params;
    double *sum = hr_tensor_data(r->norms), host[REGIONS + OPTION_RANKS];
    int ranks = hr_group_size(r->world);
    size_t bytes = hr_tensor_bytes(r->norms);
    APP_TRY(hr_fill(r->compute, sum, 0, bytes));
    for (int k = 0; k < REGIONS; k++)
        if (p->count[k])
            APP_TRY(hr_op_sum_squares(p->g[k], &sum[k]));
    APP_TRY(hr_app_rank_fence(r, r->compute, r->comm));
    APP_TRY(hr_all_gather(r->grads, &sum[EXPERT], &sum[REGIONS], 1, HR_I64, r->comm));
    APP_TRY(hr_app_rank_fence(r, r->comm, r->compute));
    APP_TRY(hr_tensor_read(r->norms, host, bytes));
    double total = host[DECAYED] + host[PLAIN];
    for (int i = 0; i < ranks; i++)
        total += host[REGIONS + i];
    *out = sqrt(total);
    return HR_OK;
}

/* Linear warm-up, then a cosine down to min_lr. */
static double learning_rate(const train_options *o, int64_t step)
{
    if (step < o->warmup)
        return o->lr * (double)(step + 1) / o->warmup;
    double done = (double)(step - o->warmup) / (double)(o->steps - o->warmup);
    return o->min_lr + 0.5 * (o->lr - o->min_lr) * (1 + cos(M_PI * done));
}

static hr_status update(train_rank *r, const train_result *res)
{
    const train_options *o = r->job->opts;
    hr_app_params *p = &r->model->params;
    hr_adamw_opts a = {
        HR_INIT(hr_adamw_opts), .lr = (float)res->lr, .beta1 = 0.9f,  .beta2 = 0.95f,
        .eps = 1e-8f,           .step = ++r->updates, .grad_scale = 1};
    if (o->clip > 0 && res->grad_norm > o->clip)
        a.grad_scale = (float)(o->clip / res->grad_norm);
    for (int k = 0; k < REGIONS; k++) {
        a.weight_decay = k == PLAIN ? 0 : (float)o->weight_decay;
        if (p->count[k])
            APP_TRY(hr_op_adamw(p->w[k], p->g[k], p->m[k], p->v[k], &a));
    }
    return HR_OK;
}

/* ---- the step --------------------------------------------------------------------------------- */

static bool time_is_up(const train_job *job)
{
    double limit = job->opts->time_limit_s;
    return limit > 0 && (double)(hr_now_ns() - job->begin_ns) * 1e-9 > limit;
}

/* What `sum` of weighed losses is by position, of which a sequence has one less than tokens. */
static double mtp_loss(const train_rank *r, float sum)
{
    const train_options *o = r->job->opts;
    double weight = (double)r->model->loss_scale * r->model->mtp.coef;
    double positions = (double)o->global_batch_size * (o->model.seq - 1);
    return o->model.mtp ? sum / (weight * positions) : NAN;
}

static hr_status read_tally(train_rank *r, train_result *out)
{
    float host[TALLIES];
    APP_TRY(hr_app_rank_tally(r, host));
    out->loss = host[TALLY_LOSS];
    if (r->job->opts->loss_scale == LOSS_SUM)
        out->loss /= (double)hr_app_train_tokens(r->job->opts);
    out->aux_loss = host[TALLY_AUX];
    out->mtp_loss = mtp_loss(r, host[TALLY_MTP]);
    out->stop = host[TALLY_STOP] > 0;
    return HR_OK;
}

static hr_status start_step(train_rank *r, int64_t step)
{
    hr_app_rank_load(r, r->job->opts->microbatches, training_sequence, step);
    float *stop = hr_tensor_f32(r->tally) + TALLY_STOP;
    /* Any rank's wish stops all, after the same step. */
    APP_TRY(hr_fill(r->compute, stop, time_is_up(r->job) ? 0x3f : 0, sizeof *stop));
    return hr_app_params_zero_grad(&r->model->params);
}

hr_status hr_app_rank_step(train_rank *r, int64_t step, train_result *out)
{
    *out = (train_result){.lr = learning_rate(r->job->opts, step)};
    APP_TRY(start_step(r, step));
    APP_TRY(hr_app_rank_pass(r, r->job->opts->microbatches, false));
    APP_TRY(reduce(r));
    APP_TRY(global_norm(r, &out->grad_norm));
    APP_TRY(read_tally(r, out));
    out->skipped = !isfinite(out->grad_norm); /* on all ranks alike */
    return out->skipped ? HR_OK : update(r, out);
}
