/* hr_mpi_run() and hr_group_wrap_mpi(): a process as a rank. */
#include "base/try.h"
#include "group/mpi/mpi_member.h"

static hr_status check(const hr_mpi_opts *o, const char *what)
{
    HR_CHECK_OPTS(o, hr_mpi_opts);
    if (!o)
        return HR_OK;
    if (o->device.size && o->device.size != sizeof o->device)
        return hr_fail(HR_ERR_INVALID, "opts_size",
                       "hr_mpi_opts: device.size is %zu, not %zu; use HR_INIT",
                       o->device.size, sizeof o->device);
    /* Written so that NaN fails. */
    if (!(o->timeout_s >= 0 && o->timeout_s < 1e9) || o->cores < 0)
        return hr_fail(HR_ERR_INVALID, NULL, "%s: time limit %g s, %d cores", what,
                       o->timeout_s, o->cores);
    return HR_OK;
}

/* The streams are empty before the rank leaves: peers may still need its last sends. */
static void run_rank(hr__mpi_job *job, hr_rank_fn fn, void *arg)
{
    hr_group *world;
    int before = hr_thread_rank();
    hr_status st = hr__mpi_job_world(job, &world);
    hr_set_thread_rank(job->rank);
    hr_device_set_current(job->dev);
    if (st == HR_OK && !hr__mpi_failed(job))
        st = fn(world, arg);
    if (st < 0)
        hr__mpi_fail(job, st);
    if (job->dev)
        st = hr_device_synchronize(job->dev);
    if (st < 0)
        hr__mpi_fail(job, st);
    hr_device_set_current(NULL);
    hr_set_thread_rank(before);
}

hr_status hr_mpi_run(const hr_mpi_opts *opts, hr_rank_fn fn, void *arg)
{
    hr_mpi_opts o = {HR_INIT(hr_mpi_opts)};
    hr__mpi_job *job;
    HR_TRY(check(opts, "hr_mpi_run"));
    if (!fn)
        return hr_fail(HR_ERR_INVALID, NULL, "hr_mpi_run: no function");
    if (opts)
        o = *opts;
    HR_TRY(hr__mpi_start(o.serialise));
    HR_TRY(hr__mpi_job_create(o.comm, &o, NULL, &job));
    run_rank(job, fn, arg);
    return hr__mpi_job_end(job);
}

hr_status hr_group_wrap_mpi(const void *comm, hr_device *dev, const hr_mpi_opts *opts,
                            hr_group **out)
{
    hr_mpi_opts o = {HR_INIT(hr_mpi_opts)};
    hr__mpi_job *job;
    if (out)
        *out = NULL;
    if (!comm || !dev || !out)
        return hr_fail(HR_ERR_INVALID, NULL, "hr_group_wrap_mpi: no %s",
                       !comm  ? "communicator"
                       : !dev ? "device"
                              : "`out`");
    HR_TRY(check(opts, "hr_group_wrap_mpi"));
    if (opts)
        o = *opts;
    HR_TRY(hr__mpi_start(o.serialise));
    HR_TRY(hr__mpi_job_create(comm, &o, dev, &job));
    hr_status st = hr__mpi_job_world(job, out);
    if (st < 0) {
        hr__mpi_fail(job, st);
        return hr__mpi_job_end(job);
    }
    return HR_OK;
}
