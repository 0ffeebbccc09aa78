/* Communicators: one a group, made when the group is. They do not block: where NCCL waits for peers, so do we, with a
 * time limit and an ear for failures. */
#include "base/mix.h"
#include "base/try.h"
#include "group/nccl/nccl_symmetric.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const int64_t word_of_base_ns = 300000000, finalize_ns = 5000000000;

/* ---- what the members tell each other ---- */
typedef struct hello {
    int32_t status;
    int64_t pid;
    uint64_t key;
    hr__nccl_board *board; /* where the first member lives */
    ncclUniqueId id;
    char host[64], gpu[32], reason[32], text[256];
} hello;

static uint64_t new_key(const hr__nccl_member *m)
{
    uint64_t key = hr__mix((uint64_t)hr_now_ns(), (uint64_t)getpid());
    key = hr__mix(key, (uint64_t)(uintptr_t)m);
    return key ? key : 1;
}

static hr_status introduce(hr__nccl_member *m, bool wants_id, hello *h)
{
    const hr__nccl_job *job = m->job;
    const hr__cudart *rt = job->dev->rt;
    h->pid = getpid();
    gethostname(h->host, sizeof h->host - 1);
    hr__cuda_enter(job->dev);
    HR_TRY(hr__cuda_status(
        rt, rt->cudaDeviceGetPCIBusId(h->gpu, sizeof h->gpu, job->dev->ordinal),
        "cudaDeviceGetPCIBusId"));
    if (m->base.rank > 0)
        return HR_OK;
    h->key = m->key ? m->key : new_key(m);
    h->board = hr__nccl_board_create(m->base.size, m->global);
    if (h->board == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "a group of %d ranks", m->base.size);
    return wants_id ? hr__nccl_status(job->lib, job->lib->ncclGetUniqueId(&h->id), NULL,
                                      "ncclGetUniqueId")
                    : HR_OK;
}

static hr_status check_comm(const hr__nccl_member *m, ncclComm_t comm)
{
    const hr__nccl *lib = m->job->lib;
    int n = -1, me = -1, gpu = -1;
    HR_TRY(hr__nccl_status(lib, lib->ncclCommCount(comm, &n), comm, "ncclCommCount"));
    HR_TRY(hr__nccl_status(lib, lib->ncclCommUserRank(comm, &me), comm,
                           "ncclCommUserRank"));
    HR_TRY(hr__nccl_status(lib, lib->ncclCommCuDevice(comm, &gpu), comm,
                           "ncclCommCuDevice"));
    if (n == m->base.size && me == m->base.rank && gpu == m->job->dev->ordinal)
        return HR_OK;
    return hr_fail(HR_ERR_INVALID, "nccl_comm",
                   "hr_group_wrap_nccl: the communicator has rank %d of %d on GPU %d, "
                   "but the base rank %d of %d on GPU %d",
                   me, n, gpu, m->base.rank, m->base.size, m->job->dev->ordinal);
}

static hr_status check_all(const hr__nccl_member *m, const hello *all)
{
    for (int i = 0; i < m->base.size; i++)
        if (all[i].status < 0)
            return hr_fail((hr_status)all[i].status, hr_intern(all[i].reason),
                           "rank %d: %s", m->global[i], all[i].text);
    for (int i = 0; i < m->base.size; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(all[i].host, all[j].host) == 0 &&
                strcmp(all[i].gpu, all[j].gpu) == 0)
                return hr_fail(
                    HR_ERR_UNSUPPORTED, "shared_gpu",
                    "groups over NCCL: rank %d and rank %d are both on the GPU at %s "
                    "of "
                    "%s, and NCCL wants one a rank: start no more ranks than GPUs, and "
                    "let the process see all of them (CUDA_VISIBLE_DEVICES)",
                    m->global[j], m->global[i], all[i].gpu, all[i].host);
    return HR_OK;
}

static bool one_process(const hello *all, int n)
{
    for (int i = 1; i < n; i++)
        if (all[i].pid != all[0].pid || strcmp(all[i].host, all[0].host) != 0)
            return false;
    return true;
}

/* The first member's board is everybody's, or of no use. */
static void take_board(hr__nccl_member *m, const hello *all, bool good)
{
    int n = m->base.size;
    if (good && one_process(all, n)) {
        m->board = all[0].board;
        hr__nccl_board_enter(m->board, m->base.rank, m);
    } else if (m->base.rank == 0) {
        for (int i = 0; all[0].board && i < n; i++)
            hr__nccl_board_leave(all[0].board, i);
    }
}

/* Everybody's, or the same failure on all. */
static hr_status meet(hr__nccl_member *m, ncclComm_t comm, hello *all)
{
    hello *mine = &all[m->base.rank];
    hr_status st = comm ? check_comm(m, comm) : HR_OK;
    if (st >= 0)
        st = introduce(m, comm == NULL, mine);
    if (st < 0) {
        mine->status = st;
        snprintf(mine->reason, sizeof mine->reason, "%s", hr_last_reason());
        snprintf(mine->text, sizeof mine->text, "%s", hr_last_error());
    }
    st = m->under->ops->gather_host(m->under, "communicator", all, sizeof *all);
    if (st >= 0)
        st = check_all(m, all);
    m->key = all[0].key;
    take_board(m, all, st >= 0);
    return st;
}

/* ---- waiting for NCCL ---- */
static void rest(int looks)
{
    if (looks < 200)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* A failure elsewhere: whose it is the base hears, if it is a rank's. */
static hr_status wait_for_word(const hr__nccl_member *m)
{
    int64_t end = hr_now_ns() + word_of_base_ns;
    hr_status st = HR_OK;
    for (int looks = 0; st >= 0 && hr_now_ns() < end; looks++) {
        st = m->under->ops->status(m->under);
        rest(looks);
    }
    return st;
}

hr_status hr__nccl_async(hr__nccl_member *m)
{
    const hr__nccl *lib = m->job->lib;
    ncclResult_t e = ncclSuccess;
    if (m->comm == NULL)
        return HR_OK;
    HR_TRY(hr__nccl_status(lib, lib->ncclCommGetAsyncError(m->comm, &e), m->comm,
                           "ncclCommGetAsyncError"));
    if (e == ncclInProgress)
        return HR_PENDING;
    if (e == ncclRemoteError)
        HR_TRY(wait_for_word(m));
    return hr__nccl_status(lib, e, m->comm, "NCCL");
}

hr_status hr__nccl_settle(hr__nccl_member *m, const char *op, uint64_t seq)
{
    int64_t end = hr_now_ns() + m->job->limit_ns;
    for (int looks = 0;; looks++) {
        hr_status st = hr__nccl_async(m);
        if (st != HR_PENDING)
            return st;
        HR_TRY(hr__nccl_look_status(m->job));
        if (hr_now_ns() > end)
            return hr_fail(
                HR_ERR_TIMEOUT, "timeout",
                "waited %g s for NCCL to begin %s; a member has not come",
                (double)m->job->limit_ns * 1e-9,
                hr__where_write(m->global, m->base.size, op, seq, NULL).text);
        rest(looks);
    }
}

/* ---- life ---- */
static hr_status init(hr__nccl_member *m, const ncclUniqueId *id)
{
    const hr__nccl *lib = m->job->lib;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.commName = "headrace";
    hr__cuda_enter(m->job->dev);
    ncclResult_t e =
        lib->ncclCommInitRankConfig(&m->comm, m->base.size, *id, m->base.rank, &config);
    hr_status st = hr__nccl_status(lib, e, NULL, "ncclCommInitRankConfig");
    return st < 0 ? st : hr__nccl_settle(m, "its communicator", 0);
}

hr_status hr__nccl_comm_open(hr__nccl_member *m, ncclComm_t comm)
{
    hello *all = calloc((size_t)m->base.size, sizeof *all);
    if (all == NULL) {
        hr_status st = hr_fail(HR_ERR_NOMEM, NULL, "a group of %d ranks", m->base.size);
        hr__nccl_fail(m->job, st);
        return st;
    }
    hr_status st = meet(m, comm, all);
    if (st >= 0 && comm) {
        m->comm = comm;
        m->foreign = true;
    } else if (st >= 0) {
        st = init(m, &all[0].id);
        if (st < 0) {
            hr__nccl_fail(m->job, st);
            st = m->under->ops->status(m->under);
        }
    }
    free(all);
    return st;
}

void hr__nccl_comm_abort(hr__nccl_member *m)
{
    ncclComm_t comm = m->comm;
    if (comm == NULL)
        return;
    m->comm = NULL; /* first: an abort may be asked for again meanwhile */
    m->foreign = false;
    hr__nccl_windows_close(
        m); /* which goes without saying to a communicator that is gone */
    hr__cuda_enter(m->job->dev);
    (void)m->job->lib->ncclCommAbort(comm);
}

/* Peers need not come to it. */
static bool finalize(hr__nccl_member *m)
{
    const hr__nccl *lib = m->job->lib;
    int64_t end = hr_now_ns() + finalize_ns;
    ncclResult_t e = lib->ncclCommFinalize(m->comm);
    for (int looks = 0; e == ncclSuccess || e == ncclInProgress; looks++) {
        ncclResult_t asked = lib->ncclCommGetAsyncError(m->comm, &e);
        if (asked == ncclSuccess && e == ncclSuccess)
            return true;
        if (asked != ncclSuccess || hr_now_ns() > end)
            return false;
        rest(looks);
    }
    return false;
}

void hr__nccl_comm_close(hr__nccl_member *m)
{
    ncclComm_t comm = m->comm;
    hr__nccl_windows_close(m);
    if (comm == NULL || m->foreign)
        return;
    hr__cuda_enter(m->job->dev);
    if (m->under->ops->status(m->under) < 0 || !finalize(m)) {
        hr__nccl_comm_abort(m);
        return;
    }
    m->comm = NULL;
    (void)m->job->lib->ncclCommDestroy(comm);
}
