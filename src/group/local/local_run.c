/* hr_local_run(): a thread a rank. */
#include "base/try.h"
#include "group/local/local_channel.h"
#include <stdlib.h>

struct rank_thread {
    hr__rank *rank;
    hr_rank_fn fn;
    void *arg;
    pthread_t thread;
};

/* The streams are empty before the rank counts as gone: peers may still need its last sends. */
static void *run_rank(void *ctx)
{
    struct rank_thread *t = ctx;
    hr__rank *r = t->rank;
    hr__cores_bind(&r->job->cores, r->rank);
    hr_set_thread_rank(r->rank);
    hr_device_set_current(r->dev);
    hr_group *world = hr__channel_join(r->world, r->rank);
    world->world = true;
    hr_status st = t->fn(world, t->arg);
    if (st < 0)
        hr__job_fail(r->job, r->rank, st);
    st = hr_device_synchronize(r->dev);
    if (st < 0)
        hr__job_fail(r->job, r->rank, st);
    hr__job_leave(r->job, r->rank);
    hr_device_set_current(NULL);
    return NULL;
}

static hr_status make_world(hr__job *job)
{
    hr__channel *world;
    int *all = calloc((size_t)job->n, sizeof *all);
    if (!all)
        return hr_fail(HR_ERR_NOMEM, NULL, "a job of %d ranks", job->n);
    for (int i = 0; i < job->n; i++)
        all[i] = i;
    hr_status st = hr__channel_create(job, job->seed, all, job->n, &world);
    free(all);
    for (int i = 0; st == HR_OK && i < job->n; i++)
        job->ranks[i].world = world;
    return st;
}

/* A rank that could not be started fails the job and is gone, so that the others come back. */
static void run_threads(hr__job *job, struct rank_thread *t)
{
    int started = 0;
    for (; started < job->n; started++)
        if (pthread_create(&t[started].thread, NULL, run_rank, &t[started]) != 0)
            break;
    if (started < job->n) {
        hr__job_fail(job, started,
                     hr_fail(HR_ERR_NOMEM, "no_thread", "cannot start its thread"));
        for (int i = started; i < job->n; i++)
            hr__job_leave(job, i);
    }
    for (int i = 0; i < started; i++)
        pthread_join(t[i].thread, NULL);
}

static hr_status check(int n, const hr_local_opts *o, hr_rank_fn fn)
{
    HR_CHECK_OPTS(o, hr_local_opts);
    if (n < 1 || n > HR__MEET_MAX)
        return hr_fail(HR_ERR_INVALID, "rank_count", "hr_local_run: %d ranks", n);
    if (!fn)
        return hr_fail(HR_ERR_INVALID, NULL, "hr_local_run: no function");
    if (!o)
        return HR_OK;
    if (o->device.size && o->device.size != sizeof o->device)
        return hr_fail(HR_ERR_INVALID, "opts_size",
                       "hr_local_opts: device.size is %zu, not %zu; use HR_INIT",
                       o->device.size, sizeof o->device);
    /* Written so that NaN fails. */
    if (!(o->timeout_s >= 0 && o->timeout_s < 1e9) || o->cores < 0)
        return hr_fail(HR_ERR_INVALID, NULL, "hr_local_run: time limit %g s, %d cores",
                       o->timeout_s, o->cores);
    if (!(o->delay_us >= 0 && o->delay_us < 1e9))
        return hr_fail(HR_ERR_INVALID, NULL, "hr_local_run: delays of %g us",
                       o->delay_us);
    bool limited = o->link_gbps != 0; /* below, times are too long for a clock */
    if ((limited && !(o->link_gbps >= 1e-6 && o->link_gbps < 1e9)) ||
        !(o->link_us >= 0 && o->link_us < 1e9))
        return hr_fail(HR_ERR_INVALID, NULL, "hr_local_run: link of %g Gbit/s, %g us",
                       o->link_gbps, o->link_us);
    return HR_OK;
}

hr_status hr_local_run(int n, const hr_local_opts *opts, hr_rank_fn fn, void *arg)
{
    hr__job *job = NULL;
    struct rank_thread *t = NULL;
    HR_TRY(check(n, opts, fn));
    HR_TRY(hr__job_create(n, opts, &job));
    hr_status st = make_world(job);
    if (st == HR_OK) {
        t = calloc((size_t)n, sizeof *t);
        if (!t)
            st = hr_fail(HR_ERR_NOMEM, NULL, "a job of %d ranks", n);
    }
    if (st == HR_OK) {
        for (int i = 0; i < n; i++)
            t[i] = (struct rank_thread){.rank = &job->ranks[i], .fn = fn, .arg = arg};
        run_threads(job, t);
        st = hr__job_status(job);
    }
    free(t);
    hr__job_destroy(job);
    return st;
}
