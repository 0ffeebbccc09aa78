/* Groups over NCCL: the table, and how a world comes about; see nccl_member.h. */
#include "base/try.h"
#include "group/nccl/nccl_symmetric.h"
#include "headrace/group_nccl.h"
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */
static void link_member(hr__nccl_member *m)
{
    pthread_mutex_lock(&m->job->mu);
    hr__nccl_member **at = &m->job->members;
    while (*at)
        at = &(*at)->next;
    *at = m;
    pthread_mutex_unlock(&m->job->mu);
}

static void unlink_member(hr__nccl_member *m)
{
    pthread_mutex_lock(&m->job->mu);
    for (hr__nccl_member **at = &m->job->members; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            break;
        }
    pthread_mutex_unlock(&m->job->mu);
}

void hr__nccl_member_destroy(hr__nccl_member *m)
{
    hr__group_fini(&m->base);
    hr__nccl_comm_close(m);
    hr__nccl_board_leave(m->board, m->base.rank);
    unlink_member(m);
    hr__nccl_flights_free(&m->flights, m->job->dev);
    hr__nccl_pieces_done(m->token);
    if (m->under != m->job->base)
        hr_group_release(m->under);
    free(m->global);
    free(m);
}

static hr_status group_create(hr_group *parent, const int *ranks, int n, hr_group **out)
{
    hr__nccl_member *m = hr__nccl_member_of(parent), *sub;
    hr_group *under;
    *out = NULL;
    HR_TRY(hr__nccl_look_status(m->job));
    HR_TRY(m->under->ops->group_create(m->under, ranks, n, &under));
    if (under == NULL)
        return HR_OK;
    hr_status st = hr__nccl_member_create(m->job, under, NULL, &sub);
    if (st < 0) {
        hr__nccl_fail(m->job, st);
        return m->under->ops->status(m->under);
    }
    *out = &sub->base;
    return HR_OK;
}

static void group_destroy(hr_group *g)
{
    hr__nccl_member *m = hr__nccl_member_of(g);
    hr__nccl_job *job = g->world ? m->job : NULL;
    hr__nccl_member_destroy(m);
    hr__nccl_job_destroy(job);
}

/* ---- what the base does ---- */
static void group_abort(hr_group *g, hr_status st)
{
    hr_group *under = hr__nccl_member_of(g)->under;
    under->ops->abort(under, st);
}

static hr_status group_status(hr_group *g)
{
    hr_group *under = hr__nccl_member_of(g)->under;
    return under->ops->status(under);
}

static void group_where(const hr_group *g, char *buf, size_t cap)
{
    hr__nccl_job *job = hr__nccl_member_of(g)->job;
    job->base->ops->where(job->base, buf, cap);
    hr__nccl_under_way(job, buf, cap);
}

static hr_status job_reset(hr_group *world)
{
    return hr__nccl_reset(hr__nccl_member_of(world)->job);
}

static const hr_group_ops ops = {
    .name = "nccl",
    .group_create = group_create,
    .group_destroy = group_destroy,
    .collective = hr__nccl_collective,
    .batch = hr__nccl_batch,
    .abort = group_abort,
    .status = group_status,
    .where = group_where,
    .job_reset = job_reset,
    .window_leave = hr__nccl_window_leave,
    .window_make = hr__nccl_window_make,
    .window_delete = hr__nccl_window_delete,
};

static hr_status fill_in(hr__nccl_member *m, const int *global)
{
    m->global = calloc((size_t)m->base.size, sizeof *m->global);
    if (m->global == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "a group of %d ranks", m->base.size);
    memcpy(m->global, global, (size_t)m->base.size * sizeof *global);
    m->base.global = m->global;
    return hr__nccl_token(m->job, &m->token);
}

hr_status hr__nccl_member_create(hr__nccl_job *job, hr_group *under, ncclComm_t comm,
                                 hr__nccl_member **out)
{
    hr__nccl_member *m = calloc(1, sizeof *m);
    *out = NULL;
    if (m == NULL) {
        if (under != job->base)
            hr_group_release(under);
        return hr_fail(HR_ERR_NOMEM, NULL, "a group of %d ranks", under->size);
    }
    m->job = job;
    m->under = under;
    hr__group_init(&m->base, &ops, under->rank, under->size, NULL, under->dev);
    link_member(m);
    hr_status st = fill_in(m, under->global);
    if (st >= 0)
        st = hr__nccl_comm_open(m, comm);
    if (st < 0) {
        hr__nccl_member_destroy(m);
        return st;
    }
    *out = m;
    return HR_OK;
}

/* ---- worlds ---- */
static hr_status check(const char *what, hr_group *base, const hr_nccl_opts *o,
                       hr_group **out)
{
    if (out)
        *out = NULL;
    if (base == NULL || out == NULL)
        return hr_fail(HR_ERR_INVALID, "no_argument", "%s: no %s", what,
                       base == NULL ? "base" : "`out`");
    HR_CHECK_OPTS(o, hr_nccl_opts);
    if (!base->world || base->ops->gather_host == NULL)
        return hr_fail(HR_ERR_INVALID, "not_world",
                       "%s: a group of engine '%s' that is %s", what, base->ops->name,
                       base->world ? "no base for others" : "not the world");
    if (o && !(o->timeout_s >= 0 && o->timeout_s < 1e9)) /* NaN fails */
        return hr_fail(HR_ERR_INVALID, NULL, "%s: time limit %g s", what, o->timeout_s);
    return HR_OK;
}

/* One rank's refusal is that of all, before any of them waits for another. */
typedef struct outcome {
    int32_t status;
    char reason[32], text[256];
} outcome;

static hr_status agree(hr_group *base, hr_status st)
{
    outcome *all = calloc((size_t)base->size, sizeof *all);
    if (all == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "a job of %d ranks", base->size);
    outcome *mine = &all[base->rank];
    mine->status = st;
    if (st < 0) {
        snprintf(mine->reason, sizeof mine->reason, "%s", hr_last_reason());
        snprintf(mine->text, sizeof mine->text, "%s", hr_last_error());
    }
    st = base->ops->gather_host(base, "NCCL", all, sizeof *all);
    for (int i = 0; st >= 0 && i < base->size; i++)
        if (all[i].status < 0)
            st = hr_fail((hr_status)all[i].status, hr_intern(all[i].reason), "%s",
                         all[i].text);
    free(all);
    return st;
}

static hr_status make_world(hr_group *base, const hr_nccl_opts *o, ncclComm_t comm,
                            hr_group **out)
{
    hr__nccl_job *job = NULL;
    hr__nccl_member *m;
    hr_status st = hr__nccl_job_create(base, o ? o->timeout_s : 0, &job);
    st = agree(base, st);
    if (st >= 0)
        st = hr__nccl_member_create(job, base, comm, &m);
    if (st < 0) {
        hr__nccl_job_destroy(job);
        return st;
    }
    m->base.world = true;
    *out = &m->base;
    return HR_OK;
}

hr_status hr_group_over_nccl(hr_group *base, const hr_nccl_opts *opts, hr_group **out)
{
    HR_TRY(check("hr_group_over_nccl", base, opts, out));
    return make_world(base, opts, NULL, out);
}

hr_status hr_group_wrap_nccl(void *comm, hr_group *base, const hr_nccl_opts *opts,
                             hr_group **out)
{
    HR_TRY(check("hr_group_wrap_nccl", base, opts, out));
    if (comm == NULL)
        return hr_fail(HR_ERR_INVALID, "no_argument",
                       "hr_group_wrap_nccl: no communicator");
    return make_world(base, opts, comm, out);
}

void *hr_group_nccl_comm(const hr_group *g)
{
    return g && g->ops == &ops ? hr__nccl_member_of(g)->comm : NULL;
}
