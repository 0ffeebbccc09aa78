/* Groups of the MPI engine; see mpi_member.h. */
#include "group/mpi/mpi_member.h"
#include "base/mix.h"
#include "base/try.h"
#include "group/mpi/mpi_symmetric.h"
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */
static void unlink_member(hr__mpi_member *m)
{
    pthread_mutex_lock(&m->job->mu);
    for (hr__mpi_member **at = &m->job->members; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            break;
        }
    pthread_mutex_unlock(&m->job->mu);
}

void hr__mpi_member_destroy(hr__mpi_member *m)
{
    hr__group_fini(&m->base);
    unlink_member(m);
    hr__posts_free(&m->posts);
    hr__exchange_fini(&m->work);
    hr__exchange_fini(&m->host);
    free(m->inputs);
    free(m->scratch);
    free(m->global);
    free(m);
}

void hr__mpi_member_clear(hr__mpi_member *m)
{
    m->ops = m->batches = 0;
    memset(&m->doing, 0, sizeof m->doing);
    memset(&m->doing_host, 0, sizeof m->doing_host);
    hr__posts_clear(&m->posts);
}

/* ---- creation ---- */
/* What the members ask for, beside their heads. */
typedef struct asked {
    uint64_t hash;
    int n;
    char list[96];
} asked;

static asked describe(const int *ranks, int n)
{
    asked a = {.hash = HR__NO_HASH, .n = n};
    for (int i = 0; i < n; i++) {
        a.hash = hr__mix(a.hash, (uint64_t)ranks[i]);
        hr__list_rank(a.list, sizeof a.list, ranks[i]);
    }
    return a;
}

static hr_status compare(const hr__mpi_member *m, const asked *all)
{
    for (int i = 1; i < m->base.size; i++)
        if (all[i].hash != all[0].hash || all[i].n != all[0].n)
            return hr_fail(
                HR_ERR_MISMATCH, "group_mismatch",
                "%s: rank %d asks for members %s but rank %d for %s",
                hr__where_write(m->global, m->base.size, "creation", 0, NULL).text,
                m->global[0], all[0].list, m->global[i], all[i].list);
    return HR_OK;
}

static hr_status agree(hr__mpi_member *m, const int *ranks, int n)
{
    asked *all = calloc((size_t)m->base.size, sizeof *all);
    if (!all)
        return hr_fail(HR_ERR_NOMEM, NULL, "a group of %d ranks", n);
    all[m->base.rank] = describe(ranks, n);
    hr_status st = hr__mpi_meet_host(m, "group_create", all, sizeof *all, -1);
    if (st == HR_OK)
        st = compare(m, all);
    free(all);
    return st;
}

/* All members are here, so MPI's own call, which has no time limit, returns soon. */
static hr_status split(const hr__mpi_member *m, const int *ranks, int n, int me,
                       MPI_Comm *out)
{
    MPI_Group all, some;
    *out = MPI_COMM_NULL;
    if (me < 0)
        return HR_OK;
    HR__MPI_TRY(MPI_Comm_group(m->comm, &all));
    HR__MPI_TRY(MPI_Group_incl(all, n, ranks, &some));
    HR__MPI_TRY(MPI_Comm_create_group(m->comm, some, (int)(m->children % 32768), out));
    HR__MPI_TRY(MPI_Group_free(&some));
    HR__MPI_TRY(MPI_Group_free(&all));
    HR__MPI_TRY(MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN));
    return HR_OK;
}

static hr_status make(hr__mpi_member *m, const int *ranks, int n, hr_group **out)
{
    int me = -1;
    MPI_Comm comm;
    uint64_t key = (m->key ^ ++m->children) * 0x9e3779b97f4a7c15u;
    int *global = calloc((size_t)n, sizeof *global);
    if (!global)
        return hr_fail(HR_ERR_NOMEM, NULL, "a group of %d ranks", n);
    for (int i = 0; i < n; i++) {
        global[i] = m->global[ranks[i]];
        if (ranks[i] == m->base.rank)
            me = i;
    }
    hr_status st = split(m, ranks, n, me, &comm);
    if (st == HR_OK && me >= 0)
        st = hr__mpi_member_create(m->job, comm, key ^ key >> 29, global, n, me, out);
    free(global);
    return st;
}

static hr_status group_create(hr_group *parent, const int *ranks, int n, hr_group **out)
{
    hr__mpi_member *m = hr__mpi_member_of(parent);
    *out = NULL;
    hr__mpi_poll(m->job); /* those who have given up waiting have told us before */
    HR_TRY(hr__mpi_status(m->job));
    hr_status st = agree(m, ranks, n);
    if (st == HR_OK)
        st = make(m, ranks, n, out);
    if (st < 0) {
        hr__mpi_fail(m->job, st);
        return hr__mpi_status(m->job);
    }
    return HR_OK;
}

/* ---- the rest of the table ---- */
static hr_status gather_host(hr_group *g, const char *op, void *all, size_t bytes)
{
    hr__mpi_member *m = hr__mpi_member_of(g);
    hr__mpi_poll(m->job);
    HR_TRY(hr__mpi_status(m->job));
    hr_status st = hr__mpi_meet_host(m, op, all, bytes, -1);
    if (st < 0) {
        hr__mpi_fail(m->job, st);
        return hr__mpi_status(m->job);
    }
    return HR_OK;
}

static bool has_gone(const hr_group *g, int member)
{
    const hr__mpi_member *m = hr__mpi_member_of(g);
    return hr__mpi_gone(m->job, m->global[member]);
}

static void group_destroy(hr_group *g)
{
    hr__mpi_member *m = hr__mpi_member_of(g);
    hr__mpi_job *job = m->job;
    if (!g->world) {
        hr__mpi_member_destroy(m);
        return;
    }
    hr_status st =
        hr__mpi_job_end(job); /* the world was wrapped, and goes with its job */
    (void)st; /* its sentence is the thread's last error; a release has no status */
}

static void group_abort(hr_group *g, hr_status st)
{
    hr__mpi_fail(hr__mpi_member_of(g)->job, st);
}

static hr_status group_status(hr_group *g)
{
    hr__mpi_job *job = hr__mpi_member_of(g)->job;
    hr__mpi_poll(job);
    return hr__mpi_status(job);
}

static void group_where(const hr_group *g, char *buf, size_t cap)
{
    hr__mpi_under_way(hr__mpi_member_of(g)->job, buf, cap);
}

static hr_status job_reset(hr_group *world)
{
    return hr__mpi_reset(hr__mpi_member_of(world)->job);
}

static const hr_group_ops ops = {
    .name = "mpi",
    .group_create = group_create,
    .group_destroy = group_destroy,
    .collective = hr__mpi_collective,
    .batch = hr__mpi_batch,
    .abort = group_abort,
    .status = group_status,
    .where = group_where,
    .job_reset = job_reset,
    .window_leave = hr__mpi_window_leave,
    .window_make = hr__mpi_window_make,
    .window_delete = hr__mpi_window_delete,
    .gather_host = gather_host,
    .gone = has_gone,
};

hr_status hr__mpi_member_create(hr__mpi_job *job, MPI_Comm comm, uint64_t key,
                                const int *global, int n, int me, hr_group **out)
{
    size_t size = (size_t)n;
    HR_TRY(hr__mpi_job_keep(job, comm));
    hr__mpi_member *m = calloc(1, sizeof *m);
    if (!m)
        return hr_fail(HR_ERR_NOMEM, NULL, "a group of %d ranks", n);
    m->job = job;
    m->comm = comm;
    m->key = key;
    m->global = calloc(size, sizeof *m->global);
    m->inputs = calloc(size, sizeof *m->inputs);
    hr__group_init(&m->base, &ops, me, n, m->global, job->dev);
    if (!m->global || !m->inputs ||
        hr__exchange_init(&m->work, m, HR__LANE_COLLECTIVE) < 0 ||
        hr__exchange_init(&m->host, m, HR__LANE_HOST) < 0) {
        hr__mpi_member_destroy(m);
        return hr_fail(HR_ERR_NOMEM, NULL, "a group of %d ranks", n);
    }
    memcpy(m->global, global, size * sizeof *global);
    pthread_mutex_lock(&job->mu);
    m->next = job->members;
    job->members = m;
    pthread_mutex_unlock(&job->mu);
    *out = &m->base;
    return HR_OK;
}
