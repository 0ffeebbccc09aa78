/* train_rank.c: what one rank owns, and its loop over the steps. */
#include "interrupt.h"
#include "train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t hr_app_train_tokens(const train_options *o)
{
    return (int64_t)o->global_batch_size * o->model.seq;
}

/* ---- setting up ------------------------------------------------------------------------- */

static hr_status open_streams(train_rank *r)
{
    hr_device *dev = hr_device_current();
    r->compute = hr_device_default_stream(dev);
    int least, greatest;
    hr_device_priority_range(dev, &least, &greatest);
    APP_TRY(hr_stream_create(dev,
                             &(hr_stream_opts){HR_INIT(hr_stream_opts),
                                               .name = "communication",
                                               .priority = greatest},
                             &r->comm));
    APP_TRY(hr_stream_create(dev,
                             &(hr_stream_opts){HR_INIT(hr_stream_opts),
                                               .name = "counts", .priority = greatest},
                             &r->counts_stream));
    APP_TRY(hr_set_streams(r->comm, true));
    if (!r->job->opts->overlap) /* serial: the same work, all issued to one stream */
        r->comm = r->compute;
    return hr_event_create(dev, &r->fence);
}

static hr_status open_groups(train_rank *r)
{
    APP_TRY(hr_group_create(r->world, NULL, 0, &r->tokens));
    APP_TRY(hr_group_create(r->world, NULL, 0, &r->counts));
    return hr_group_create(r->world, NULL, 0, &r->grads);
}

/* Weights of a token and of a sequence in the loss (DESIGN: scale of loss and gradients). */
static void loss_weights(const train_options *o, float *token, float *sequence)
{
    double sequences = o->loss_scale == LOSS_SUM ? 1 : (double)o->global_batch_size;
    double tokens = o->loss_scale == LOSS_SUM ? 1 : sequences * o->model.seq;
    *token = (float)(1 / tokens);
    *sequence = (float)(1 / sequences);
}

static hr_status open_model(train_rank *r)
{
    const train_options *o = r->job->opts;
    float token, sequence;
    loss_weights(o, &token, &sequence);
    hr_app_model_opts m = {HR_INIT(hr_app_model_opts),
                           .shape = &o->model,
                           .seed = (uint64_t)o->seed,
                           .train = true,
                           .tokens = r->tokens,
                           .counts = r->counts,
                           .counts_stream = r->counts_stream,
                           .loss_scale = token,
                           .aux_scale = sequence * (float)o->aux_coef,
                           .mtp_coef = (float)o->mtp_coef,
                           .dispatcher = (hr_moe_kind)o->dispatcher,
                           .tokens_per_microbatch =
                               (int64_t)o->micro_batch_size * o->model.seq,
                           .capacity_factor = o->capacity_factor};
    return hr_app_model_create(&m, &r->model);
}

static hr_status open_batches(train_rank *r)
{
    const train_options *o = r->job->opts;
    int64_t n = (int64_t)o->micro_batch_size * o->model.seq;
    int b = o->microbatches > o->eval_batches ? o->microbatches : o->eval_batches;
    r->tokens_per_microbatch = n;
    r->batch = calloc((size_t)b * 2 * (size_t)n, sizeof *r->batch);
    if (!r->batch)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d microbatches", b);
    APP_TRY(hr_tensor_zeros(HR_F32, 1, (int64_t[]){TALLIES}, &r->tally));
    int64_t norms = REGIONS + hr_group_size(r->world);
    return hr_tensor_zeros(HR_I64, 1, &norms, &r->norms);
}

static void close_rank(train_rank *r)
{
    if (hr_device_synchronize(hr_device_current()) < 0)
        hr_log(HR_LOG_DEBUG, "closing after a failure: %s", hr_last_error());
    free(r->batch);
    hr_tensor_release(r->loss);
    hr_tensor_release(r->tally);
    hr_tensor_release(r->norms);
    hr_app_model_destroy(r->model);
    hr_group_release(r->tokens);
    hr_group_release(r->counts);
    hr_group_release(r->grads);
    hr_event_destroy(r->fence); /* streams go with the device */
}

/* ---- the loop --------------------------------------------------------------------------- */

static double hidden_share(const train_rank *r)
{
    hr_overlap v;
    if (r->comm == r->compute)
        return 0;
    if (hr_timeline_overlap(r->job->timeline, hr_device_rank(hr_device_current()), &v) <
        0)
        return NAN;
    return v.comm_ns > 0 ? (double)v.hidden_ns / (double)v.comm_ns : NAN;
}

static bool every(int n, int64_t step)
{
    return n > 0 && step % n == 0;
}

/* Rows that found no room end the run: what was computed without them is not what was asked for. */
static hr_status check_capacity(train_rank *r)
{
    hr_overflow worst;
    hr_status st = hr_dispatcher_check(r->model->dispatcher, &worst);
    if (st >= 0 || worst.needed == 0)
        return st;
    return hr_fail(st, hr_last_reason(), "%s (--capacity-factor)", hr_last_error());
}

/* What follows a step: validation, report, checkpoint. */
static hr_status after_step(train_rank *r, int64_t step, train_result *res)
{
    train_job *job = r->job;
    const train_options *o = job->opts;
    bool last = res->stop || step == o->steps;
    res->hidden = hidden_share(r);
    res->val_loss = NAN;
    hr_mem_get_stats(hr_device_current(), &res->memory);
    if (last || every(o->eval_every, step)) {
        APP_TRY(hr_app_rank_evaluate(r, &res->val_loss));
        APP_TRY(check_capacity(r));
    }
    if (hr_group_rank(r->world) == 0) {
        job->steps_done = step;
        job->last = *res;
        APP_TRY(hr_app_report_step(job->report, step, res));
    }
    if (last || every(o->checkpoint_every, step))
        APP_TRY(hr_app_rank_save(r, step));
    return HR_OK;
}

static hr_status loop(train_rank *r)
{
    train_job *job = r->job;
    hr_device *dev = hr_device_current();
    train_result res = {0};
    for (int64_t step = job->first_step; step < job->opts->steps && !res.stop; step++) {
        hr_timeline_clear(job->timeline, hr_device_rank(dev));
        hr_mem_reset_peak(dev);
        int64_t begin = hr_now_ns();
        APP_TRY(hr_app_rank_step(r, step, &res));
        APP_TRY(hr_device_synchronize(dev));
        APP_TRY(check_capacity(r));
        res.seconds = (double)(hr_now_ns() - begin) * 1e-9;
        if (step + 1 == job->opts->steps ||
            res.stop) /* its spans are what the pictures show */
            APP_TRY(hr_device_set_timeline(dev, NULL));
        APP_TRY(after_step(r, step + 1, &res));
    }
    return HR_OK;
}

static hr_status run(train_rank *r)
{
    APP_TRY(open_streams(r));
    APP_TRY(open_groups(r));
    APP_TRY(open_model(r));
    APP_TRY(open_batches(r));
    if (r->job->resumed)
        APP_TRY(hr_app_rank_resume(r));
    APP_TRY(hr_device_set_timeline(hr_device_current(), r->job->timeline));
    return loop(r);
}

hr_status hr_app_rank_main(hr_group *world, void *train_job_)
{
    train_rank r = {.job = train_job_, .world = world};
    hr_status st = run(&r);
    char said[512];
    snprintf(said, sizeof said, "%s", hr_last_error());
    if (st < 0) /* peers must not wait for this rank while it closes */
        hr_group_abort(world, st);
    close_rank(&r);
    return st < 0 ? hr_fail(st, NULL, "%s", said) : HR_OK;
}
