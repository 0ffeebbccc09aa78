/* train_process.c: see train_process.h. What goes wrong on one rank, be it only an option, goes through the
 * job of all, so that none waits for it and it is said once. */
#include "train_process.h"
#include "app_try.h"
#include "commands.h"
#include "headrace/group_mpi.h"
#include "interrupt.h"
#include "launcher.h"
#include <string.h>

static const char WRONG_USAGE[] = "wrong_usage"; /* the reason by which all know it */

typedef struct process {
    const train_options *opts;
    hr_status usage;
    char said[1024]; /* by `usage` */
} process;

static hr_status check_world(const train_options *o, int processes)
{
    int started = hr_app_launch_size();
    if (processes == 1 && started > 1)
        return hr_fail(HR_ERR_INVALID, WRONG_USAGE,
                       "%d processes were started, but %s finds each of them alone: "
                       "the launcher is not that library's (for srun: --mpi=pmix)",
                       started, hr_mpi_library(NULL));
    if (processes != o->pp * o->dp)
        return hr_fail(HR_ERR_INVALID, WRONG_USAGE,
                       "--pp %d x --dp %d is %d ranks, but %d processes were started; "
                       "start as many as ranks, or one, which then has them as threads",
                       o->pp, o->dp, o->pp * o->dp, processes);
    return HR_OK;
}

static hr_status as_rank(hr_group *world, void *process_)
{
    const process *p = process_;
    if (p->usage < 0)
        return hr_fail(p->usage, WRONG_USAGE, "%s", p->said);
    APP_TRY(check_world(p->opts, hr_group_size(world)));
    if (!p->opts->dry_run)
        return hr_app_train_rank(p->opts, world);
    APP_TRY(hr_app_train_meet(p->opts, world));
    return hr_group_rank(world) == 0 ? hr_app_dry_run(p->opts) : HR_OK;
}

/* --cores is over all ranks; a rank takes one at least. */
static int cores_of_one(const train_options *o)
{
    int n = o->pp * o->dp;
    return o->cores == 0 ? 0 : o->cores < n ? 1 : o->cores / n;
}

static hr_status run(process *p)
{
    const train_options *o = p->opts;
    hr_mpi_opts opts = {HR_INIT(hr_mpi_opts)};
    if (p->usage == HR_OK) { /* else some may not be filled in */
        opts.backend = o->device;
        opts.cores = cores_of_one(o);
        opts.timeout_s = o->timeout_s;
        opts.device = (hr_device_opts){HR_INIT(hr_device_opts), .check = o->check};
    }
    hr_status st = hr_mpi_run(&opts, as_rank, p);
    if (st == HR_ERR_UNSUPPORTED && !hr_mpi_library(NULL))
        st = hr_fail(st, WRONG_USAGE,
                     "one of several processes, which would each train for itself: %s",
                     hr_last_error());
    return st;
}

int hr_app_train_process(const train_options *o, hr_status usage)
{
    process p = {.opts = o, .usage = usage};
    if (usage < 0)
        snprintf(p.said, sizeof p.said, "%s", hr_last_error());
    hr_status st = run(&p);
    bool wrong = st < 0 && strcmp(hr_last_reason(), WRONG_USAGE) == 0;
    int code = wrong ? EXIT_USAGE : st < 0 ? EXIT_FAILED : EXIT_DONE;
    if (st >= 0 || hr_app_launch_rank() <= 0 || hr_app_interrupted())
        code = wrong ? hr_app_usage("train", st) : hr_app_finish("train", st);
    int ended = hr_mpi_finish(st);
    return code ? code : ended;
}
