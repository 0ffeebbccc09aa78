/* train_step.c: one step of one rank: its microbatches, the sum of gradients over ranks, the global
 * norm, the update. Everything is issued; the host waits for the norm. */
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
    int rank = hr_group_rank(r->groups.dp), ranks = hr_group_size(r->groups.dp);
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

/* ---- the update ------------------------------------------------------------------------------ */

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
    hr_adamw_opts a = {
        HR_INIT(hr_adamw_opts), .lr = (float)res->lr, .beta1 = 0.9f,  .beta2 = 0.95f,
        .eps = 1e-8f,           .step = ++r->updates, .grad_scale = 1};
    if (o->clip > 0 && res->grad_norm > o->clip)
        a.grad_scale = (float)(o->clip / res->grad_norm);
    APP_TRY(hr_app_moments_step(&r->moments, &a, (float)o->weight_decay));
    APP_TRY(hr_grads_gather(r->grads.over_ranks)); /* what other ranks have updated */
    return hr_app_params_round(&r->model->params);
}

/* ---- the step --------------------------------------------------------------------------------- */

static bool time_is_up(const train_job *job)
{
    double limit = job->opts->time_limit_s;
    return limit > 0 && (double)(hr_now_ns() - job->begin_ns) * 1e-9 > limit;
}

/* What `sum` of weighed losses is by position, of which a sequence has one less than tokens. */
static double mtp_loss(const train_rank *r, const hr_step_counts *counts, float sum)
{
    const train_options *o = r->job->opts;
    double weight = hr_loss_scale(counts, r->tokens_per_microbatch) * o->mtp_coef;
    double positions = (double)o->global_batch_size * (o->model.seq - 1);
    return o->model.mtp ? sum / (weight * positions) : NAN;
}

static hr_status read_tally(train_rank *r, const hr_step_counts *counts,
                            train_result *out)
{
    float host[TALLIES];
    APP_TRY(hr_app_rank_tally(r, host));
    out->loss = host[TALLY_LOSS];
    if (r->job->opts->loss_scale == LOSS_SUM)
        out->loss /= (double)hr_app_train_tokens(r->job->opts);
    out->aux_loss = host[TALLY_AUX];
    out->mtp_loss = mtp_loss(r, counts, host[TALLY_MTP]);
    out->stop = host[TALLY_STOP] > 0;
    return HR_OK;
}

static hr_status start_step(train_rank *r, int64_t step)
{
    hr_app_rank_load(r, r->job->opts->microbatches, training_sequence, step);
    float *stop = hr_tensor_f32(r->tally) + TALLY_STOP;
    /* Any rank's wish stops all, after the same step. */
    APP_TRY(hr_fill(r->compute, stop, time_is_up(r->job) ? 0x3f : 0, sizeof *stop));
    hr_grads_begin(r->grads.over_ranks);
    return hr_app_params_zero_grad(&r->model->params);
}

_Static_assert((int)LOSS_MEAN_MICROBATCH == (int)HR_LOSS_MEAN_MICROBATCH &&
                   (int)LOSS_MEAN_TOKEN == (int)HR_LOSS_MEAN_TOKEN,
               "the option's words stand for the library's modes");

hr_status hr_app_rank_step(train_rank *r, int64_t step, train_result *out)
{
    hr_step_counts counts;
    hr_loss_mode mode = (hr_loss_mode)r->job->opts->loss_scale;
    *out = (train_result){.lr = learning_rate(r->job->opts, step)};
    APP_TRY(start_step(r, step));
    APP_TRY(hr_app_rank_pass(r, r->training, mode, &counts));
    APP_TRY(hr_grads_finish(r->grads.over_ranks));
    APP_TRY(hr_app_grads_norm(r, &out->grad_norm));
    APP_TRY(read_tally(r, &counts, out));
    out->skipped = !isfinite(out->grad_norm); /* on all ranks alike */
    return out->skipped ? HR_OK : update(r, out);
}
