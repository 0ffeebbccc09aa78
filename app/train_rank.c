/* train_rank.c: what one rank owns, and its loop over the steps. */
#include "headrace/group_nccl.h"
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

static hr_status open_stream(const char *name, int priority, hr_stream **out)
{
    return hr_stream_create(
        hr_device_current(),
        &(hr_stream_opts){HR_INIT(hr_stream_opts), .name = name, .priority = priority},
        out);
}

static hr_status open_streams(train_rank *r)
{
    hr_device *dev = hr_device_current();
    int least, greatest;
    r->compute = hr_device_default_stream(dev);
    hr_device_priority_range(dev, &least, &greatest);
    APP_TRY(open_stream("communication", greatest, &r->comm));
    APP_TRY(open_stream("counts", greatest, &r->counts_stream));
    APP_TRY(open_stream("communication", least, &r->grads_stream));
    APP_TRY(hr_set_streams(r->comm, true));
    bool serial = !r->job->opts->overlap;
    if (serial) /* the same work, all issued to one stream */
        r->comm = r->compute;
    if (serial && r->job->opts->ep > 1) /* else off is not asked for */
        r->grads_stream = r->compute;
    return hr_event_create(dev, &r->fence);
}

/* The stages that lie on this rank, into lists with room for all. */
static int my_stages(const train_rank *r, int *stages, hr_layout_part *parts)
{
    const pipeline *p = r->job->pipeline;
    int n = 0, rank = hr_group_rank(r->groups.pp);
    for (int s = 0; s < p->stages; s++)
        if (hr_app_pipeline_on(p, s, rank)) {
            stages[n] = s;
            parts[n++] = p->parts[s];
        }
    return n;
}

static hr_status create_model(train_rank *r, int *stages, hr_layout_part *parts)
{
    const train_options *o = r->job->opts;
    hr_app_model_opts m = {HR_INIT(hr_app_model_opts),
                           .shape = &o->model,
                           .seed = (uint64_t)o->seed,
                           .train = true,
                           .tokens = r->groups.tokens,
                           .counts = r->groups.counts,
                           .counts_stream = r->counts_stream,
                           .mtp_coef = (float)o->mtp_coef,
                           .dispatcher = (hr_moe_kind)o->dispatcher,
                           .tokens_per_microbatch = r->tokens_per_microbatch,
                           .capacity_factor = o->capacity_factor,
                           .type = o->precision == PRECISION_BF16 ? HR_BF16 : HR_F32,
                           .stages = stages,
                           .parts = parts,
                           .n_stages = my_stages(r, stages, parts)};
    return hr_app_model_create(&m, &r->model);
}

static hr_status open_model(train_rank *r)
{
    size_t n = (size_t)r->job->pipeline->stages;
    int *stages = calloc(n, sizeof *stages);
    hr_layout_part *parts = calloc(n, sizeof *parts);
    hr_status st = stages && parts
                       ? create_model(r, stages, parts)
                       : hr_fail(HR_ERR_NOMEM, NULL, "no memory for %zu stages", n);
    free(stages);
    free(parts);
    return st;
}

static hr_status open_batches(train_rank *r)
{
    const train_options *o = r->job->opts;
    int64_t n = r->tokens_per_microbatch;
    int b = o->microbatches > o->eval_batches ? o->microbatches : o->eval_batches;
    r->batch = calloc((size_t)b * 2 * (size_t)n, sizeof *r->batch);
    if (!r->batch)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d microbatches", b);
    return hr_tensor_zeros(HR_F32, 1, (int64_t[]){TALLIES}, &r->tally);
}

static hr_status open_rank(train_rank *r)
{
    train_job *job = r->job;
    const train_options *o = job->opts;
    r->tokens_per_microbatch = (int64_t)o->micro_batch_size * o->model.seq;
    APP_TRY(open_streams(r));
    APP_TRY(hr_app_groups_open(&r->groups, r->groups.world, o));
    APP_TRY(open_model(r));
    APP_TRY(hr_app_groups_open_copies(&r->groups, r->model->catalog, job->pipeline));
    APP_TRY(open_batches(r));
    APP_TRY(hr_app_grads_open(r));
    return hr_app_stages_open(r);
}

static void close_rank(train_rank *r)
{
    if (hr_device_synchronize(hr_device_current()) < 0)
        hr_log(HR_LOG_DEBUG, "closing after a failure: %s", hr_last_error());
    free(r->batch);
    hr_tensor_release(r->loss);
    hr_tensor_release(r->tally);
    hr_app_stages_close(r);
    hr_app_moments_fini(&r->moments);
    hr_app_grads_close(&r->grads);
    hr_app_model_destroy(r->model);
    hr_app_groups_close(&r->groups);
    hr_event_destroy(r->fence); /* streams go with the device */
}

/* ---- the loop --------------------------------------------------------------------------- */

/* Where all-to-alls have no stream of their own, sums of gradients may still have one; with nothing on any,
 * what is sent holds the compute stream up. */
static double hidden_share(const train_rank *r)
{
    hr_overlap v;
    if (hr_timeline_overlap(r->job->timeline, hr_device_rank(hr_device_current()), &v) <
        0)
        return NAN;
    if (v.comm_ns == 0)
        return r->comm == r->compute ? 0 : NAN;
    return (double)v.hidden_ns / (double)v.comm_ns;
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
    if (hr_group_rank(r->groups.world) == 0) {
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
        APP_TRY(hr_app_rank_bubble(r, res.seconds, &res.bubble));
        APP_TRY(hr_app_auto_step(r, res.seconds, &res.chose));
        if (step + 1 == job->opts->steps ||
            res.stop) /* its spans are what the pictures show */
            APP_TRY(hr_device_set_timeline(dev, NULL));
        APP_TRY(after_step(r, step + 1, &res));
    }
    return HR_OK;
}

static hr_status run(train_rank *r)
{
    APP_TRY(open_rank(r));
    if (r->job->resumed)
        APP_TRY(hr_app_rank_resume(r));
    APP_TRY(hr_device_set_timeline(hr_device_current(), r->job->timeline));
    APP_TRY(loop(r));
    return r->job->opts->profile[0] ? hr_app_rank_profile(r) : HR_OK;
}

hr_status hr_app_rank_main(hr_group *base, void *train_job_)
{
    train_rank r = {.job = train_job_};
    train_job *job = r.job;
    hr_status st = hr_app_groups_world(base, job->opts->timeout_s, &r.groups.world);
    hr_group *world = r.groups.world;
    if (st >= 0 && hr_group_rank(world) == 0 && hr_group_nccl_comm(world))
        snprintf(job->transfers, sizeof job->transfers, "%s", hr_nccl_library(NULL));
    if (st >= 0)
        st = run(&r);
    char said[512];
    snprintf(said, sizeof said, "%s", hr_last_error());
    if (st < 0) /* peers must not wait for this rank while it closes */
        hr_group_abort(base, st);
    close_rank(&r);
    hr_group_release(world);
    return st < 0 ? hr_fail(st, NULL, "%s", said) : HR_OK;
}
