/* hr_job_reset(): the base forgets the failure; then every group gets a communicator anew, for one that was aborted is
 * gone, and what was under way on it with it. A group that a member has released meanwhile stays without. */
#include "base/try.h"
#include "group/nccl/nccl_member.h"
#include <stdlib.h>
#include <string.h>

/* ---- which groups all members still have ---- */
typedef struct keys {
    int ranks, room;
    uint64_t *of; /* [ranks][room]; 0: none */
} keys;

static int count_members(const hr__nccl_job *job)
{
    int n = 0;
    for (const hr__nccl_member *m = job->members; m; m = m->next)
        n++;
    return n;
}

static hr_status most_members(const hr__nccl_job *job, int *most)
{
    int32_t *all = calloc((size_t)job->base->size, sizeof *all);
    if (all == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "a reset of %d ranks", job->base->size);
    all[job->base->rank] = count_members(job);
    hr_status st = job->base->ops->gather_host(job->base, "reset", all, sizeof *all);
    *most = 1; /* the world */
    for (int i = 0; i < job->base->size; i++)
        *most = all[i] > *most ? all[i] : *most;
    free(all);
    return st;
}

static hr_status gather_keys(const hr__nccl_job *job, keys *k)
{
    hr_group *base = job->base;
    k->ranks = base->size;
    k->of = NULL;
    HR_TRY(most_members(job, &k->room));
    k->of = calloc((size_t)k->ranks * (size_t)k->room, sizeof *k->of);
    if (k->of == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "a reset of %d ranks", k->ranks);
    uint64_t *mine = k->of + (size_t)base->rank * (size_t)k->room;
    for (const hr__nccl_member *m = job->members; m; m = m->next)
        *mine++ = m->key;
    return base->ops->gather_host(base, "reset", k->of,
                                  (size_t)k->room * sizeof *k->of);
}

static bool has(const keys *k, int rank, uint64_t key)
{
    for (int i = 0; i < k->room; i++)
        if (k->of[(size_t)rank * (size_t)k->room + (size_t)i] == key)
            return true;
    return false;
}

static bool all_have(const keys *k, const hr__nccl_member *m)
{
    for (int i = 0; i < m->base.size; i++)
        if (!has(k, m->global[i], m->key))
            return false;
    return true;
}

/* ---- anew ---- */
static void forget(hr__nccl_member *m)
{
    hr__nccl_job *job = m->job;
    hr__nccl_comm_abort(m);
    hr__nccl_board_leave(m->board, m->base.rank);
    m->board = NULL;
    m->ops = m->batches = 0;
    pthread_mutex_lock(&job->mu);
    hr__nccl_flights_reap(&m->flights, job->dev, true);
    memset(&m->flights.doing, 0, sizeof m->flights.doing);
    pthread_mutex_unlock(&job->mu);
}

hr_status hr__nccl_reset(hr__nccl_job *job)
{
    keys k;
    hr_group *base = job->base;
    hr_status st = hr_device_synchronize(&job->dev->base);
    (void)st; /* a failure is what is about to be forgotten */
    HR_TRY(base->ops->job_reset(base));
    for (hr__nccl_member *m = job->members; m; m = m->next)
        forget(m);
    hr__nccl_pieces_clear(job);
    st = gather_keys(job, &k);
    for (hr__nccl_member *m = job->members; st >= 0 && m; m = m->next)
        if (all_have(&k, m))
            st = hr__nccl_comm_open(m, NULL);
    free(k.of);
    return st;
}
