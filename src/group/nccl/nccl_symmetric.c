/* See nccl_symmetric.h. Memory of a window ends on a stream, by a host function, which may call neither CUDA nor NCCL. So
 * the end is only noted there, and the issuing thread frees when it next makes or leaves something. */
#include "group/nccl/nccl_symmetric.h"
#include "base/try.h"
#include <stdlib.h>
#include <string.h>

typedef struct hr__nccl_window {
    struct hr__nccl_window *next; /* of the job, newest first */
    hr__nccl_member *m;           /* whose communicator knows it; NULL: none does */
    ncclWindow_t win;
    void *memory;
    atomic_int holds; /* the job, the handle, the storage */
    hr__window *shared;
} nccl_window;

/* ---- the end ---- */
static void drop(nccl_window *w)
{
    if (atomic_fetch_sub(&w->holds, 1) != 1)
        return;
    free(w->shared);
    free(w);
}

void hr__nccl_window_leave(hr__window *w)
{
    drop(w->engine);
}

void hr__nccl_window_delete(void *window, void *memory)
{
    drop(((hr__window *)window)->engine);
}

static void deregister(nccl_window *w)
{
    hr__nccl_member *m = w->m;
    w->m = NULL;
    if (m == NULL || m->comm == NULL)
        return;
    hr__cuda_enter(m->job->dev);
    (void)m->job->lib->ncclCommWindowDeregister(m->comm, w->win);
}

void hr__nccl_windows_close(hr__nccl_member *m)
{
    for (nccl_window *w = m->job->windows; w; w = w->next)
        if (w->m == m)
            deregister(w);
}

void hr__nccl_windows_free(hr__nccl_job *job, bool all)
{
    for (nccl_window **at = &job->windows; *at;) {
        nccl_window *w = *at;
        if (!all && atomic_load(&w->holds) > 1) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        deregister(w);
        hr__cuda_enter(job->dev);
        if (w->memory)
            (void)job->lib->ncclMemFree(w->memory);
        drop(w);
    }
}

/* ---- making ---- */
static hr_status agree(hr__nccl_member *m, size_t bytes)
{
    int n = m->base.size;
    uint64_t *all = calloc((size_t)n, sizeof *all);
    if (all == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "a window of %zu bytes", bytes);
    all[m->base.rank] = bytes;
    hr_status st = m->under->ops->gather_host(m->under, "window", all, sizeof *all);
    for (int i = 1; st >= 0 && i < n; i++)
        if (all[i] != all[0])
            st = hr_fail(HR_ERR_MISMATCH, "window_mismatch",
                         "%s: rank %d asks for %llu bytes but rank %d for %llu",
                         hr__where_write(m->global, n, "window", 0, NULL).text,
                         m->global[0], (unsigned long long)all[0], m->global[i],
                         (unsigned long long)all[i]);
    free(all);
    return st;
}

static hr_status new_window(hr__nccl_member *m, size_t bytes, nccl_window **out)
{
    size_t n = (size_t)m->base.size;
    nccl_window *w = calloc(1, sizeof *w);
    hr__window *shared = calloc(1, sizeof *shared + n * sizeof shared->base[0]);
    *out = NULL;
    if (w == NULL || shared == NULL) {
        free(w);
        free(shared);
        return hr_fail(HR_ERR_NOMEM, NULL, "a window of %zu bytes", bytes);
    }
    w->shared = shared;
    atomic_init(&w->holds, 3);
    shared->engine = w;
    shared->bytes = bytes;
    shared->offset = m->windows_end;
    w->next = m->job->windows;
    m->job->windows = w;
    *out = w;
    return HR_OK;
}

/* In whole units of what NCCL registers. */
static size_t room_for(size_t bytes)
{
    size_t unit = NCCL_WIN_REQUIRED_ALIGNMENT;
    return (bytes + unit - 1) / unit * unit;
}

static hr_status register_memory(hr__nccl_member *m, nccl_window *w)
{
    const hr__nccl *lib = m->job->lib;
    size_t room = room_for(w->shared->bytes);
    hr__cuda_enter(m->job->dev);
    HR_TRY(hr__nccl_status(lib, lib->ncclMemAlloc(&w->memory, room), NULL,
                           "ncclMemAlloc"));
    ncclResult_t e = lib->ncclCommWindowRegister(m->comm, w->memory, room, &w->win,
                                                 NCCL_WIN_COLL_SYMMETRIC);
    HR_TRY(hr__nccl_status(lib, e, m->comm, "ncclCommWindowRegister"));
    w->m = m;
    HR_TRY(hr__nccl_settle(m, "window", 0));
    m->windows_end += (int64_t)room;
    return HR_OK;
}

/* Addresses mean something within a process only; a board is what members of one have. */
static hr_status show(hr__nccl_member *m, nccl_window *w)
{
    void **base = w->shared->base;
    base[m->base.rank] = w->memory;
    HR_TRY(m->under->ops->gather_host(m->under, "window", base, sizeof *base));
    for (int i = 0; i < m->base.size; i++)
        if (m->board == NULL && i != m->base.rank)
            base[i] = NULL;
    return HR_OK;
}

static hr_status make(hr__nccl_member *m, size_t bytes, nccl_window **out)
{
    *out = NULL;
    HR_TRY(agree(m, bytes));
    if (m->comm == NULL)
        return hr_fail(HR_ERR_STATE, "no_comm", "%s has no communicator any more",
                       hr__where_write(m->global, m->base.size, "group", 0, NULL).text);
    HR_TRY(new_window(m, bytes, out));
    HR_TRY(register_memory(m, *out));
    return show(m, *out);
}

hr_status hr__nccl_window_make(hr_group *g, size_t bytes, hr__window **out)
{
    hr__nccl_member *m = hr__nccl_member_of(g);
    nccl_window *w;
    HR_TRY(hr__nccl_look_status(m->job));
    hr__nccl_windows_free(m->job, false);
    hr_status st = make(m, bytes, &w);
    if (st >= 0) {
        *out = w->shared;
        return HR_OK;
    }
    hr__nccl_fail(m->job, st);
    if (w)
        atomic_store(&w->holds, 1); /* there will be no handle and no storage */
    return m->under->ops->status(m->under);
}
