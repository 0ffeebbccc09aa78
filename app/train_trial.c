/* train_trial.c: the first steps of --schedule auto: each slot of a stage is timed on the compute stream, and all
 * ranks learn what the stages cost. */
#include "stage_costs.h"
#include "train.h"
#include <stdlib.h>

struct train_trial {
    stage_windows *windows;
    hr_exec_stage *inner; /* of this rank's stages */
    hr_stream *compute;
    int64_t done; /* steps */
};

/* Of the calling rank, which is a thread, for the functions that stand before its stages'. */
static _Thread_local train_trial *timing;

/* ---- windows --------------------------------------------------------------------------------- */

static hr_status note_time(const void *args, hr_team *team)
{
    **(int64_t *const *)args = hr_now_ns();
    return HR_OK;
}

static hr_status note(int64_t *at)
{
    return hr_launch(timing->compute, "note_time", note_time, &at, sizeof at, NULL, 0);
}

/* Of a pass with backward: validation is not timed. */
static hr_status enter(const hr_exec_at *forward, const hr_exec_at *backward,
                       stage_window **out)
{
    bool wanted = timing->done < TRIALS && (!forward || forward->backward);
    *out = wanted ? hr_app_windows_add(timing->windows, forward ? forward->chunk : -1,
                                       backward ? backward->chunk : -1)
                  : NULL;
    return *out ? note(&(*out)->begin_ns) : HR_OK;
}

static hr_status leave(stage_window *v, hr_status st)
{
    return st >= 0 && v ? note(&v->end_ns) : st;
}

static hr_status forward(void *ctx, const hr_exec_at *at, hr_tensor *in,
                         hr_tensor **out)
{
    stage_window *v;
    APP_TRY(enter(at, NULL, &v));
    return leave(v, timing->inner[at->chunk].forward(ctx, at, in, out));
}

static hr_status backward(void *ctx, const hr_exec_at *at, hr_tensor *grad,
                          hr_tensor **grad_in)
{
    stage_window *v;
    APP_TRY(enter(NULL, at, &v));
    return leave(v, timing->inner[at->chunk].backward(ctx, at, grad, grad_in));
}

static hr_status pair(const hr_exec_half *f, const hr_exec_half *b,
                      const hr_plan_hooks *hooks)
{
    stage_window *v;
    APP_TRY(enter(f->at, b->at, &v));
    return leave(v, timing->inner[f->at->chunk].pair(f, b, hooks));
}

bool hr_app_trial_wanted(const train_job *job)
{
    return job->pipeline->start[0] && !job->choice.text &&
           job->first_step + TRIALS < job->opts->steps;
}

hr_status hr_app_trial_open(train_rank *r, hr_exec_stage *fns)
{
    int n = r->model->n_stages;
    train_trial *t = timing = r->trial = calloc(1, sizeof *t);
    if (t)
        t->inner = calloc((size_t)n + 1, sizeof *t->inner);
    if (!t || !t->inner)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to measure %d stages", n);
    t->compute = r->compute;
    for (int i = 0; i < n; i++) {
        t->inner[i] = fns[i];
        fns[i].forward = forward;
        fns[i].backward = backward;
        fns[i].pair = fns[i].pair ? pair : NULL;
    }
    return hr_app_windows_create(n, 2 * n * TRIALS * r->job->opts->microbatches,
                                 &t->windows);
}

void hr_app_trial_close(train_rank *r)
{
    if (r->trial) {
        hr_app_windows_destroy(r->trial->windows);
        free(r->trial->inner);
    }
    free(r->trial);
    r->trial = timing = NULL;
}

bool hr_app_trial_runs(const train_rank *r)
{
    return r->trial && r->trial->done < TRIALS;
}

bool hr_app_trial_step(train_rank *r)
{
    train_trial *t = r->trial;
    hr_app_windows_divide(t->windows, r->job->timeline,
                          hr_device_rank(hr_device_current()));
    if (++t->done == 1) /* memory was new */
        hr_app_windows_clear(t->windows);
    return t->done == TRIALS;
}

/* ---- costs ----------------------------------------------------------------------------------- */

static hr_status reduce(train_rank *r, float *host, int64_t n, hr_reduce op)
{
    hr_tensor *t;
    APP_TRY(hr_tensor_create(HR_F32, 1, &n, &t));
    float *at = hr_tensor_f32(t);
    hr_storage_record_stream(hr_tensor_storage(t), r->comm);
    hr_status st = hr_tensor_write(t, host, hr_tensor_bytes(t));
    if (st >= 0)
        st = hr_app_rank_fence(r, r->compute, r->comm);
    if (st >= 0)
        st = hr_all_reduce(r->groups.control, at, at, n, HR_F32, op, r->comm);
    if (st >= 0)
        st = hr_app_rank_fence(r, r->comm, r->compute);
    if (st >= 0)
        st = hr_tensor_read(t, host, hr_tensor_bytes(t));
    hr_tensor_release(t);
    return st;
}

static hr_status my_costs(train_rank *r, stage_times *times, trial_costs *c)
{
    const pipeline *p = r->job->pipeline;
    int rank = hr_device_rank(hr_device_current());
    double transfer_ns;
    int discount;
    for (int i = 0; i < r->model->n_stages; i++) {
        APP_TRY(hr_app_windows_times(r->trial->windows, i, &times[i]));
        c->stage[r->model->stages[i].stage] =
            (cost_sum){.forward = (float)(times[i].forward_ns / 1e3),
                       .input_grad = (float)(times[i].input_grad_ns / 1e3),
                       .weight_grad = (float)(times[i].weight_grad_ns / 1e3),
                       .ranks = 1};
    }
    APP_TRY(hr_app_windows_discount(r->trial->windows, times, &discount));
    c->discount = (float)discount;
    APP_TRY(hr_app_transfer_time(r->job->timeline, rank, &transfer_ns));
    if (transfer_ns > 0)
        c->stage[p->stages] =
            (cost_sum){.forward = (float)(transfer_ns / 1e3), .ranks = 1};
    return HR_OK;
}

/* Alike on all ranks. */
hr_status hr_app_trial_costs(train_rank *r, trial_costs *c)
{
    int stages = r->job->pipeline->stages;
    stage_times *times = calloc((size_t)r->model->n_stages + 1, sizeof *times);
    c->stage = calloc((size_t)stages + 1, sizeof *c->stage);
    hr_status st = times && c->stage ? HR_OK
                                     : hr_fail(HR_ERR_NOMEM, NULL,
                                               "no memory for the costs of %d "
                                               "stages",
                                               stages);
    if (st >= 0)
        st = my_costs(r, times, c);
    if (st >= 0)
        st = reduce(r, &c->stage[0].forward,
                    (int64_t)(sizeof(cost_sum) / sizeof(float)) * (stages + 1), HR_SUM);
    if (st >= 0)
        st = reduce(r, &c->discount, 1, HR_MAX);
    free(times);
    return st;
}
