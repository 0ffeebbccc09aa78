/* hr_job_reset(): two meetings by notes. In the first all ranks have empty streams, so that nothing of the
 * old is sent any more; in the second all are well again, so that no failure of what comes after is
 * taken for an old one. A rank comes to a meeting once and stays: one that gave up waiting goes on
 * there when it is called again. */
#include "base/try.h"
#include "group/mpi/mpi_member.h"

static hr_status all_reset(void *arg)
{
    hr__mpi_job *job = arg;
    unsigned phase = atomic_load(&job->phase);
    hr_status st = HR_OK;
    for (int r = 0; r < job->n; r++) {
        if (r == job->rank || (int)(atomic_load(&job->peers[r].phase) - phase) >= 0)
            continue;
        if (atomic_load(&job->peers[r].gone))
            return hr_fail(HR_ERR_ABORTED, "rank_gone",
                           "hr_job_reset: rank %d has returned from its function", r);
        st = HR_PENDING;
    }
    return st;
}

static hr_status missing_in_reset(const hr__mpi_job *job)
{
    char missing[128] = "";
    unsigned phase = atomic_load(&job->phase);
    for (int r = 0; r < job->n; r++)
        if (r != job->rank && (int)(atomic_load(&job->peers[r].phase) - phase) < 0)
            hr__list_rank(missing, sizeof missing, r);
    return hr_fail(HR_ERR_TIMEOUT, "timeout",
                   "hr_job_reset: rank %s did not call within %g s", missing,
                   (double)job->limit_ns * 1e-9);
}

static void arrive(hr__mpi_job *job)
{
    hr__note note = {.kind = HR__NOTE_RESET};
    note.phase = atomic_fetch_add(&job->phase, 1) + 1;
    hr__mpi_tell_all(job, &note);
}

static hr_status meet(hr__mpi_job *job)
{
    hr__mpi_waiting w = {.look = all_reset,
                         .arg = job,
                         .deadline_ns = hr_now_ns() + job->limit_ns,
                         .deaf = true};
    hr_status st = hr__mpi_wait(job, &w);
    return st == HR_PENDING ? missing_in_reset(job) : st;
}

/* From here on failures are of the new epoch, and so are messages. */
static void forget(hr__mpi_job *job)
{
    pthread_mutex_lock(&job->mu);
    for (hr__mpi_member *m = job->members; m; m = m->next)
        hr__mpi_member_clear(m);
    pthread_mutex_unlock(&job->mu);
    pthread_mutex_lock(&job->reading);
    hr_device_reset(job->dev);
    pthread_mutex_lock(&job->mu);
    atomic_fetch_add(&job->epoch, 1);
    hr__cause_clear(&job->cause);
    pthread_mutex_unlock(&job->mu);
    pthread_mutex_unlock(&job->reading);
}

hr_status hr__mpi_reset(hr__mpi_job *job)
{
    if (!job->reset_again) {
        hr_status drained = hr_device_synchronize(job->dev);
        (void)drained; /* a failure is what is about to be forgotten */
        if (atomic_load(&job->phase) % 2 == 0)
            arrive(job);
        HR_TRY(meet(job));
        forget(job);
        arrive(job);
        job->reset_again = true;
    }
    HR_TRY(meet(job));
    job->reset_again = false;
    hr_error_clear();
    return HR_OK;
}
