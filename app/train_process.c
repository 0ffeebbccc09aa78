/* train_process.c: see train_process.h. What goes wrong on one rank, be it only an option, goes through the
 * job of all, so that none waits for it and it is said once. */
#include "train_process.h"
#include "app_try.h"
#include "commands.h"
#include "headrace/group_mpi.h"
#include "host_name.h"
#include "interrupt.h"
#include "launcher.h"
#include "rank_groups.h"
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

/* ---- signals ------------------------------------------------------------------------------- */

/* The launcher ends a job in which a rank was killed by a signal to the others. Each says where that met it,
 * and its end wakes whoever waits for it. */
static void interrupted(void *world_)
{
    hr_group *world = world_;
    char where[640], host[HOST_NAME];
    hr_app_host_name(host);
    hr_group_where(world, where, sizeof where);
    if (hr_app_interrupt_tell())
        fprintf(stderr,
                "headrace train: rank %d (host %s): interrupted by signal %d%s\n",
                hr_group_rank(world), host, hr_app_interrupt_signal(), where);
    hr_group_abort(world,
                   hr_fail(HR_ERR_ABORTED, "interrupted", "interrupted by signal %d%s",
                           hr_app_interrupt_signal(), where));
}

/* ---- one rank ------------------------------------------------------------------------------ */

static hr_status train_or_plan(const process *p, hr_group *world)
{
    if (!p->opts->dry_run)
        return hr_app_train_rank(p->opts, world);
    APP_TRY(hr_app_train_meet(p->opts, world));
    return hr_group_rank(world) == 0 ? hr_app_dry_run(p->opts) : HR_OK;
}

static hr_status work(const process *p, hr_group *base)
{
    hr_group *world;
    char said[1024];
    if (p->usage < 0)
        return hr_fail(p->usage, WRONG_USAGE, "%s", p->said);
    APP_TRY(check_world(p->opts, hr_group_size(base)));
    APP_TRY(hr_app_groups_world(base, p->opts->timeout_s, &world));
    hr_status st = train_or_plan(p, world);
    snprintf(said, sizeof said, "%s", hr_last_error());
    const char *reason = hr_last_reason();
    if (st < 0) /* the others must not wait for this rank's release */
        hr_group_abort(base, st);
    hr_group_release(world);
    return st < 0 ? hr_fail(st, reason, "%s", said) : st;
}

/* Where the end takes long, because a rank does not come to it, the launcher may not wait for it. What another
 * rank has met is that one's to say. */
static void note_cause(hr_group *world)
{
    static char line[1200];
    char mine[24];
    int n = snprintf(mine, sizeof mine, "rank %d: ", hr_group_rank(world));
    if (hr_group_status(world) < 0 && strncmp(hr_last_error(), mine, (size_t)n) == 0) {
        snprintf(line, sizeof line, "headrace train: failed: %s\n", hr_last_error());
        hr_app_interrupt_after(line);
    }
}

static hr_status as_rank(hr_group *world, void *process_)
{
    char said[1024];
    APP_TRY(hr_app_interrupt_watch(interrupted, world));
    hr_status st = work(process_, world);
    snprintf(said, sizeof said, "%s", hr_last_error());
    const char *reason = hr_last_reason();
    if (st < 0) { /* before a signal can be the cause */
        hr_group_abort(world, st);
        note_cause(world);
    }
    hr_app_interrupt_unwatch();
    return st < 0 ? hr_fail(st, reason, "%s", said) : st;
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
    int me = hr_app_launch_rank();
    if (st >= 0 || me < 0 || me == hr_mpi_speaker() || hr_app_interrupted())
        code = wrong ? hr_app_usage("train", st) : hr_app_finish("train", st);
    (void)hr_app_interrupt_tell(); /* what the launcher does from now on is no news */
    int ended = hr_mpi_finish(st);
    return code ? code : ended;
}
