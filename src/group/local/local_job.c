/* Jobs: life, the one failure, reset; see local_job.h. */
#include "base/try.h"
#include "group/local/local_issues.h"
#include "group/local/local_manner.h"
#include <stdlib.h>
#include <string.h>

static const double default_timeout_s = 300.0;

static void set_link(hr__job *job, const hr_local_opts *o)
{
    job->link_latency_ns = o->link_us * 1e3;
    job->link_ns_per_byte = o->link_gbps > 0 ? 8.0 / o->link_gbps : 0;
    if (o->link_gbps > 0)
        snprintf(job->link_note, sizeof job->link_note,
                 "imitated link, %g Gbit/s and %g us", o->link_gbps, o->link_us);
    else if (o->link_us > 0)
        snprintf(job->link_note, sizeof job->link_note, "imitated link, %g us",
                 o->link_us);
}

static hr_status set_manner(hr__job *job, const hr_local_opts *o)
{
    HR_TRY(hr__manner_find(o->engine, &job->manner));
    job->seed = o->seed;
    job->longest_ns =
        (int64_t)((o->delay_us > 0 ? o->delay_us : job->manner->longest_us) * 1e3);
    return HR_OK;
}

/* Runs on whatever thread fails the device of a rank; its last error is the cause. */
static void device_failed(void *ctx)
{
    hr__rank *r = ctx;
    hr_status st = hr_device_status(r->dev);
    hr__job_fail(r->job, r->rank, st < 0 ? st : HR_ERR_DEVICE);
}

static hr_status open_device(hr__job *job, const hr_local_opts *o, hr__rank *r,
                             int cores)
{
    hr_device_opts d = {HR_INIT(hr_device_opts)};
    if (o->device.size)
        d = o->device;
    d.rank = r->rank;
    d.cores = cores;
    if (job->manner->late && d.poison == 0)
        d.poison = 1; /* what is read late from freed memory shows in any build */
    HR_TRY(hr_device_open(o->backend ? o->backend : "host", &d, &r->dev));
    return hr_device_on_fail(r->dev, device_failed, r);
}

/* Each from a thread that is bound as the rank will be: the device's threads inherit it. */
static hr_status open_devices(hr__job *job, const hr_local_opts *o)
{
    int cores = (o->cores > 0 ? o->cores : job->cores.usable) / job->n;
    hr_status st = HR_OK;
    for (int i = 0; i < job->n && st == HR_OK; i++) {
        job->ranks[i].job = job;
        job->ranks[i].rank = i;
        hr__cores_bind(&job->cores, i);
        st = open_device(job, o, &job->ranks[i], cores > 0 ? cores : 1);
    }
    hr__cores_unbind(&job->cores);
    return st;
}

hr_status hr__job_create(int n, const hr_local_opts *opts, hr__job **out)
{
    hr_local_opts o = opts ? *opts : (hr_local_opts){HR_INIT(hr_local_opts)};
    hr_status st = HR_OK;
    hr__job *job = calloc(1, sizeof *job);
    *out = NULL;
    if (!job)
        return hr_fail(HR_ERR_NOMEM, NULL, "a job of %d ranks", n);
    pthread_mutex_init(&job->mu, NULL);
    job->n = n;
    job->limit_ns =
        (int64_t)((o.timeout_s > 0 ? o.timeout_s : default_timeout_s) * 1e9);
    HR_TRY_GOTO(st, set_manner(job, &o), fail);
    set_link(job, &o);
    hr__cores_read(&job->cores, n, &o);
    job->ranks = calloc((size_t)n, sizeof *job->ranks);
    if (!job->ranks) {
        st = hr_fail(HR_ERR_NOMEM, NULL, "a job of %d ranks", n);
        goto fail;
    }
    HR_TRY_GOTO(st, hr__meet_init(&job->reset, n), fail);
    HR_TRY_GOTO(st, open_devices(job, &o), fail);
    if (hr__order_is_checked(job->ranks[0].dev))
        job->issues = hr__issues_create(n);
    *out = job;
    return HR_OK;
fail:
    hr__job_destroy(job);
    return st;
}

void hr__job_destroy(hr__job *job)
{
    if (!job)
        return;
    while (job->channels) {
        hr__channel *ch = job->channels;
        job->channels = ch->next;
        hr__channel_destroy(ch);
    }
    /* One that fails as it closes must not fail those that are gone. */
    for (int i = 0; job->ranks && i < job->n; i++)
        if (job->ranks[i].dev)
            hr_device_off_fail(job->ranks[i].dev, device_failed, &job->ranks[i]);
    for (int i = 0; job->ranks && i < job->n; i++)
        hr_device_close(job->ranks[i].dev);
    free(job->ranks);
    hr__issues_destroy(job->issues);
    hr__meet_fini(&job->reset);
    pthread_mutex_destroy(&job->mu);
    free(job);
}

static void ring_all(hr__job *job)
{
    pthread_mutex_lock(&job->mu);
    for (hr__channel *ch = job->channels; ch; ch = ch->next)
        hr__channel_ring(ch);
    pthread_mutex_unlock(&job->mu);
    hr__bell_ring(&job->reset.bell);
}

void hr__job_fail(hr__job *job, int rank, hr_status st)
{
    pthread_mutex_lock(&job->mu);
    bool first = atomic_load(&job->cause.failed) == 0;
    if (first)
        hr__cause_write(&job->cause, rank, st, "");
    pthread_mutex_unlock(&job->mu);
    st = hr__job_status(job);
    if (!first)
        return;
    /* Each device copies our last error, and runs our hook, which comes back here and finds
     * that it is not the first. */
    for (int i = 0; i < job->n; i++)
        if (job->ranks[i].dev)
            hr_device_fail(job->ranks[i].dev, st);
    atomic_store(&job->cause.told, true);
    ring_all(job);
}

hr_status hr__job_status(hr__job *job)
{
    return hr__cause_status(&job->cause, &job->mu);
}

hr_status hr__job_look(void *job)
{
    return hr__job_failed(job) ? hr__job_status(job) : HR_OK;
}

void hr__job_leave(hr__job *job, int rank)
{
    atomic_store(&job->ranks[rank].gone, true);
    atomic_fetch_add(&job->gone, 1);
    ring_all(job);
}

/* ---- reset ----
 * Two meetings. In the first all ranks have empty streams, so the last one may clear what they
 * share. In the second all devices are well again, so that no failure of what comes after
 * it is wiped out with the old. An abort does not end a reset, which is what an abort leads
 * to; a rank that leaves does. */
struct resetting {
    hr__job *job;
    uint64_t phase;
};

static hr_status all_reset(void *arg)
{
    struct resetting *w = arg;
    if (hr__meet_opened(&w->job->reset, w->phase))
        return HR_OK;
    for (int r = 0; r < w->job->n; r++)
        if (hr__job_gone(w->job, r) && !hr__meet_has(&w->job->reset, r, w->phase))
            return hr_fail(HR_ERR_ABORTED, "rank_gone",
                           "hr_job_reset: rank %d has returned from its function", r);
    return HR_PENDING;
}

static hr_status missing_in_reset(const struct resetting *w)
{
    char missing[128] = "";
    for (int r = 0; r < w->job->n; r++)
        if (!hr__meet_has(&w->job->reset, r, w->phase))
            hr__list_rank(missing, sizeof missing, r);
    return hr_fail(HR_ERR_TIMEOUT, "timeout",
                   "hr_job_reset: rank %s did not call within %g s", missing,
                   (double)w->job->limit_ns * 1e-9);
}

static hr_status meet_for_reset(hr__job *job, int rank, void (*last)(hr__job *))
{
    struct resetting w = {.job = job};
    if (hr__meet_arrive(&job->reset, rank, &w.phase)) {
        last(job);
        hr__meet_open(&job->reset, w.phase);
        return HR_OK;
    }
    hr_status st =
        hr__bell_wait(&job->reset.bell, all_reset, &w, hr_now_ns() + job->limit_ns);
    if (st == HR_PENDING)
        st = missing_in_reset(&w);
    /* Too late to take the arrival back: the last one is there and about to open. */
    if (st < 0 && !hr__meet_withdraw(&job->reset, w.phase))
        return hr__bell_wait(&job->reset.bell, all_reset, &w, INT64_MAX);
    if (st < 0)
        hr__meet_forget(&job->reset, rank, w.phase);
    return st;
}

static void clear_shared(hr__job *job)
{
    pthread_mutex_lock(&job->mu);
    for (hr__channel *ch = job->channels; ch; ch = ch->next)
        hr__channel_clear(ch);
    if (job->issues)
        hr__issues_clear(job->issues);
    pthread_mutex_unlock(&job->mu);
}

static void clear_failure(hr__job *job)
{
    pthread_mutex_lock(&job->mu);
    hr__cause_clear(&job->cause);
    pthread_mutex_unlock(&job->mu);
}

hr_status hr__job_reset(hr__job *job, int rank)
{
    hr_device *dev = job->ranks[rank].dev;
    hr_status drained = hr_device_synchronize(dev);
    (void)drained; /* a failure is what is about to be forgotten */
    HR_TRY(meet_for_reset(job, rank, clear_shared));
    hr_device_reset(dev);
    HR_TRY(meet_for_reset(job, rank, clear_failure));
    hr_error_clear();
    return HR_OK;
}
