/* See mpi_symmetric.h. To free a window of MPI is collective, but the bytes of ours go when the last tensor
 * over them does, which may be at any time on any rank. So members that make a window tell each other
 * which of the old ones they have done with, and free those that nobody needs; the rest goes with
 * the job. */
#include "group/mpi/mpi_symmetric.h"
#include "base/try.h"
#include <stdlib.h>
#include <string.h>

enum { WINDOW_ALIGN = 4096 }; /* of offsets */

typedef struct hr__mpi_window {
    struct hr__mpi_window *next; /* of the job, oldest first */
    uint64_t key;                /* of the group */
    MPI_Win win;
    atomic_int users; /* the handle, and the storage */
    hr__window *shared;
} mpi_window;

/* ---- which are over ---- */
/* Bit i: the i-th window of this group that lives is over here. */
static uint64_t over(const hr__mpi_member *m)
{
    uint64_t bits = 0;
    int i = 0;
    for (const mpi_window *w = m->job->windows; w && i < 64; w = w->next)
        if (w->key == m->key)
            bits |= (uint64_t)(atomic_load(&w->users) == 0) << i++;
    return bits;
}

static void window_free(mpi_window *w)
{
    hr__mpi_lock();
    MPI_Win_free(&w->win);
    hr__mpi_unlock();
    free(w->shared);
    free(w);
}

/* All members: the same bits, so the same windows in the same order. */
static void free_over(hr__mpi_member *m, uint64_t bits)
{
    int i = 0;
    for (mpi_window **at = &m->job->windows; *at;) {
        mpi_window *w = *at;
        bool mine = w->key == m->key;
        if (mine && i < 64 && bits >> i++ & 1) {
            *at = w->next;
            window_free(w);
        } else {
            at = &w->next;
        }
    }
}

void hr__mpi_windows_free(hr__mpi_job *job)
{
    while (job->windows) {
        mpi_window *w = job->windows;
        job->windows = w->next;
        window_free(w);
    }
}

/* ---- making ---- */
typedef struct asked {
    uint64_t bytes, over;
} asked;

static hr_status agree(hr__mpi_member *m, size_t bytes, uint64_t *is_over)
{
    int n = m->base.size;
    asked *all = calloc((size_t)n, sizeof *all);
    if (!all)
        return hr_fail(HR_ERR_NOMEM, NULL, "a window of %zu bytes", bytes);
    all[m->base.rank] = (asked){bytes, over(m)};
    hr_status st = hr__mpi_meet_host(m, "window", all, sizeof *all, (int64_t)bytes);
    *is_over = UINT64_MAX;
    for (int i = 0; i < n && st == HR_OK; i++) {
        *is_over &= all[i].over;
        if (all[i].bytes != all[0].bytes)
            st = hr_fail(HR_ERR_MISMATCH, "window_mismatch",
                         "%s: rank %d asks for %llu bytes but rank %d for %llu",
                         hr__where_write(m->global, n, "window", 0, NULL).text,
                         m->global[0], (unsigned long long)all[0].bytes, m->global[i],
                         (unsigned long long)all[i].bytes);
    }
    free(all);
    return st;
}

/* All members are here, so MPI's own call, which has no time limit, returns soon. */
static hr_status share(const hr__mpi_member *m, size_t bytes, mpi_window *w)
{
    void *mine;
    HR__MPI_TRY(MPI_Win_allocate_shared((MPI_Aint)bytes, 1, MPI_INFO_NULL, m->comm,
                                        &mine, &w->win));
    for (int r = 0; r < m->base.size; r++) {
        MPI_Aint size;
        int unit;
        HR__MPI_TRY(MPI_Win_shared_query(w->win, r, &size, &unit, &w->shared->base[r]));
    }
    return HR_OK;
}

static hr_status make(hr__mpi_member *m, size_t bytes, hr__window **out)
{
    size_t n = (size_t)m->base.size;
    mpi_window *w = calloc(1, sizeof *w);
    hr__window *shared = calloc(1, sizeof *shared + n * sizeof shared->base[0]);
    if (!w || !shared) {
        free(w);
        free(shared);
        return hr_fail(HR_ERR_NOMEM, NULL, "a window of %zu bytes", bytes);
    }
    w->shared = shared;
    w->key = m->key;
    atomic_init(&w->users, 2);
    shared->engine = w;
    shared->bytes = bytes;
    shared->offset = m->windows_end;
    hr_status st = share(m, bytes, w);
    if (st < 0) { /* what there is of it stays with MPI: the job has failed */
        free(w);
        free(shared);
        return st;
    }
    m->windows_end +=
        (int64_t)((bytes + WINDOW_ALIGN - 1) / WINDOW_ALIGN * WINDOW_ALIGN);
    mpi_window **at = &m->job->windows;
    while (*at)
        at = &(*at)->next;
    *at = w;
    *out = shared;
    return HR_OK;
}

static hr_status check_host(const hr__mpi_member *m)
{
    const hr__mpi_peer *first = &m->job->peers[m->global[0]];
    for (int i = 1; i < m->base.size; i++) {
        const hr__mpi_peer *p = &m->job->peers[m->global[i]];
        if (strcmp(first->host, p->host) != 0)
            return hr_fail(
                HR_ERR_UNSUPPORTED, "no_symmetric",
                "symmetric memory is shared within a host, but rank %d is on "
                "%s and rank %d on %s",
                m->global[0], first->host, m->global[i], p->host);
    }
    return HR_OK;
}

hr_status hr__mpi_window_make(hr_group *g, size_t bytes, hr__window **out)
{
    hr__mpi_member *m = hr__mpi_member_of(g);
    uint64_t is_over;
    hr__mpi_poll(m->job);
    HR_TRY(hr__mpi_status(m->job));
    HR_TRY(check_host(m));
    hr_status st = agree(m, bytes, &is_over);
    if (st == HR_OK) {
        free_over(m, is_over);
        st = make(m, bytes, out);
    }
    if (st < 0) {
        hr__mpi_fail(m->job, st);
        return hr__mpi_status(m->job);
    }
    return HR_OK;
}

void hr__mpi_window_leave(hr__window *w)
{
    atomic_fetch_sub(&((mpi_window *)w->engine)->users, 1);
}

void hr__mpi_window_delete(void *window, void *memory)
{
    hr__mpi_window_leave(window);
}

/* ---- rows ---- */
typedef struct all_rows {
    const hr__mpi_member *m;
    const hr__call *mine;
    hr_rows *of;
} all_rows;

static const hr_rows *rows_of(const void *ctx, int member)
{
    return &((const all_rows *)ctx)->of[member];
}

hr_status hr__mpi_rows_check(hr__mpi_member *m, const hr__call *mine, hr__where where)
{
    int n = m->base.size;
    size_t cells = (size_t)n * (size_t)n * (size_t)mine->rows.parts;
    all_rows all = {m, mine, calloc((size_t)n, sizeof *all.of)};
    if (!all.of)
        return hr_fail(HR_ERR_NOMEM, NULL, "rows of %d ranks", n);
    all.of[m->base.rank] = mine->rows;
    for (int i = 0; i < m->work.n; i++) {
        const hr__leg *leg = &m->work.legs[i];
        if (leg->send)
            continue;
        all.of[leg->peer] = hr__exchange_head(&m->work, leg)->call.rows;
        all.of[leg->peer].counts =
            (const int32_t *)(const void *)m->scratch + (size_t)leg->peer * cells;
    }
    hr_status st = hr__rows_check(
        &(hr__rows_view){.n = n, .global = m->global, .of = rows_of, .ctx = &all},
        where);
    free(all.of);
    return st;
}
