/* See nccl_job.h. */
#include "base/try.h"
#include "group/nccl/nccl_symmetric.h"
#include <stdlib.h>
#include <string.h>

static const double default_timeout_s = 300.0;

static hr_status open_library(hr__nccl_job *job, hr_device *dev)
{
    if (strcmp(hr_device_backend(dev), "cuda") != 0)
        return hr_fail(HR_ERR_UNSUPPORTED, "no_nccl",
                       "groups over NCCL: off, because the device is a '%s' one, not a "
                       "GPU of CUDA's",
                       hr_device_backend(dev));
    job->dev = (hr__gpu_device *)dev;
    return hr__nccl_load_for(job->dev->rt, &job->lib);
}

hr_status hr__nccl_job_create(hr_group *base, double timeout_s, hr__nccl_job **out)
{
    hr__nccl_job *job = calloc(1, sizeof *job);
    *out = NULL;
    if (job == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "a job over NCCL");
    hr_status st = open_library(job, base->dev);
    if (st < 0) {
        free(job);
        return st;
    }
    job->base = base;
    job->rank = base->global[base->rank];
    job->limit_ns = (int64_t)((timeout_s > 0 ? timeout_s : default_timeout_s) * 1e9);
    job->watch = (hr__cuda_watch){.look = hr__nccl_look, .ctx = job};
    pthread_mutex_init(&job->mu, NULL);
    hr__cuda_watch_add(&job->dev->base, &job->watch);
    *out = job;
    return HR_OK;
}

void hr__nccl_job_destroy(hr__nccl_job *job)
{
    if (job == NULL)
        return;
    hr_status st = hr_device_synchronize(&job->dev->base);
    (void)st; /* memory goes once no stream uses it; a failure is the base's to tell */
    hr__cuda_watch_remove(&job->dev->base, &job->watch);
    hr__nccl_windows_free(job, true);
    hr__nccl_pieces_free(job);
    pthread_mutex_destroy(&job->mu);
    free(job);
}

/* ---- failure ---- */
static void abort_all(hr__nccl_job *job)
{
    for (hr__nccl_member *m = job->members; m; m = m->next)
        hr__nccl_comm_abort(m);
}

void hr__nccl_fail(hr__nccl_job *job, hr_status st)
{
    job->base->ops->abort(job->base, st);
    abort_all(job);
}

/* The device fails first: who waits for a stream that the abort sets free must not find all well. */
hr_status hr__nccl_look_status(hr__nccl_job *job)
{
    hr_status st = job->base->ops->status(job->base);
    if (st < 0) {
        hr_device_fail(&job->dev->base, st);
        abort_all(job);
    }
    return st;
}

/* ---- watching ---- */
static hr_status check(hr__nccl_member *m)
{
    hr_status st = hr__nccl_async(m);
    return st < 0 ? hr__nccl_name_failed(m, st) : hr__nccl_check_late(m);
}

void hr__nccl_look(void *job_)
{
    hr__nccl_job *job = job_;
    if (hr__nccl_look_status(job) < 0)
        return;
    for (hr__nccl_member *m = job->members; m; m = m->next) {
        hr_status st = check(m);
        if (st < 0) {
            hr__nccl_fail(job, st);
            return;
        }
    }
}

int hr__nccl_under_way(hr__nccl_job *job, char *buf, size_t cap)
{
    int n = 0;
    pthread_mutex_lock(&job->mu);
    for (hr__nccl_member *m = job->members; m; m = m->next) {
        hr__nccl_flights *f = &m->flights;
        hr__nccl_flights_refresh(f, job->dev->rt);
        if (f->first && f->first->begun_ns > 0) {
            hr__doing_write(buf, cap, m->global, m->base.size, &f->doing, job->rank);
            n++;
        }
    }
    pthread_mutex_unlock(&job->mu);
    return n;
}
