/* See nccl_stage.h. NCCL takes memory of its GPU, managed memory, and memory of the host that CUDA has allocated. */
#include "group/nccl/nccl_stage.h"
#include "base/try.h"
#include <stdlib.h>
#include <string.h>

enum { LEAST_ROOM = 4096, TOKEN_BYTES = 64 };

/* ---- pieces ---- */
static hr_status new_piece(hr__nccl_job *job, size_t bytes, hr__nccl_piece **out)
{
    const hr__cudart *rt = job->dev->rt;
    hr__nccl_piece *p = calloc(1, sizeof *p);
    void *at = NULL;
    if (p == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a piece of %zu bytes", bytes);
    p->room = LEAST_ROOM;
    while (p->room < bytes)
        p->room *= 2;
    hr__cuda_enter(job->dev);
    hr_status st = hr__cuda_status(
        rt, rt->cudaHostAlloc(&at, p->room, cudaHostAllocPortable), "cudaHostAlloc");
    if (st < 0) {
        free(p);
        return st;
    }
    p->at = at;
    p->next = job->pieces;
    job->pieces = p;
    *out = p;
    return HR_OK;
}

/* The smallest of those that will do. */
static hr_status take_piece(hr__nccl_job *job, size_t bytes, hr__nccl_piece **out)
{
    *out = NULL;
    for (hr__nccl_piece *p = job->pieces; p; p = p->next)
        if (p->room >= bytes && (*out == NULL || p->room < (*out)->room) &&
            !atomic_load_explicit(&p->busy, memory_order_acquire))
            *out = p;
    if (*out == NULL)
        HR_TRY(new_piece(job, bytes, out));
    atomic_store(&(*out)->busy, true);
    return HR_OK;
}

void hr__nccl_pieces_done(hr__nccl_piece *of_one)
{
    for (hr__nccl_piece *next; of_one; of_one = next) {
        next = of_one->next_of;
        atomic_store_explicit(&of_one->busy, false, memory_order_release);
    }
}

void hr__nccl_pieces_clear(hr__nccl_job *job)
{
    for (hr__nccl_piece *p = job->pieces; p; p = p->next)
        if (p->host)
            atomic_store(&p->busy, false);
}

void hr__nccl_pieces_free(hr__nccl_job *job)
{
    hr__cuda_enter(job->dev);
    for (hr__nccl_piece *p; (p = job->pieces) != NULL;) {
        job->pieces = p->next;
        (void)job->dev->rt->cudaFreeHost(p->at);
        free(p);
    }
}

hr_status hr__nccl_token(hr__nccl_job *job, hr__nccl_piece **out)
{
    HR_TRY(take_piece(job, TOKEN_BYTES, out));
    (*out)->host = NULL; /* of no operation */
    (*out)->next_of = NULL;
    memset((*out)->at, 0, TOKEN_BYTES);
    return HR_OK;
}

/* ---- one operation ---- */
static hr_status is_reachable(const hr__nccl_job *job, const void *ptr, bool *yes)
{
    const hr__cudart *rt = job->dev->rt;
    struct cudaPointerAttributes what;
    *yes = hr__slab_owner(ptr) == &job->dev->base;
    if (*yes)
        return HR_OK;
    hr__cuda_enter(job->dev);
    HR_TRY(hr__cuda_status(rt, rt->cudaPointerGetAttributes(&what, ptr),
                           "cudaPointerGetAttributes"));
    *yes = what.type != cudaMemoryTypeUnregistered;
    return HR_OK;
}

static void widen(hr__nccl_range *r, size_t begin, size_t end)
{
    if (r->begin == r->end) {
        *r = (hr__nccl_range){begin, end};
        return;
    }
    r->begin = begin < r->begin ? begin : r->begin;
    r->end = end > r->end ? end : r->end;
}

static hr__nccl_piece *holding(const hr__nccl_stage *st, const char *ptr, size_t bytes)
{
    hr__nccl_piece *p = st->pieces;
    while (p && !(ptr >= p->host && ptr + bytes <= p->host + p->bytes))
        p = p->next_of;
    return p;
}

hr_status hr__nccl_reach(hr__nccl_stage *st, const void *ptr, size_t bytes,
                         hr_access access, void **out)
{
    bool reachable = true;
    *out = (void *)(uintptr_t)ptr;
    if (bytes > 0)
        HR_TRY(is_reachable(st->job, ptr, &reachable));
    if (reachable)
        return HR_OK;
    hr__nccl_piece *p = holding(st, ptr, bytes);
    if (p == NULL) {
        HR_TRY(take_piece(st->job, bytes, &p));
        p->host = ptr;
        p->bytes = bytes;
        p->in = p->out = (hr__nccl_range){0, 0};
        p->next_of = st->pieces;
        st->pieces = p;
    }
    size_t at = (size_t)((const char *)ptr - p->host);
    if (access & HR_READ)
        widen(&p->in, at, at + bytes);
    if (access & HR_WRITE)
        widen(&p->out, at, at + bytes);
    *out = p->at + at;
    return HR_OK;
}

typedef struct move_args {
    void *to;
    const void *from;
    size_t bytes;
    atomic_bool *busy; /* NULL, or of what is free behind it */
} move_args;

static hr_status move_kernel(const void *args, hr_team *team)
{
    const move_args *a = args;
    memcpy(a->to, a->from, a->bytes);
    if (a->busy)
        atomic_store_explicit(a->busy, false, memory_order_release);
    return HR_OK;
}

static bool is_empty(hr__nccl_range r)
{
    return r.begin == r.end;
}

hr_status hr__nccl_stage_in(hr__nccl_stage *st, hr_stream *s)
{
    for (hr__nccl_piece *p = st->pieces; p; p = p->next_of) {
        move_args a = {p->at + p->in.begin, p->host + p->in.begin,
                       p->in.end - p->in.begin, NULL};
        if (!is_empty(p->in))
            HR_TRY(hr_launch(s, "stage", move_kernel, &a, sizeof a,
                             &(hr_operand){a.from, a.bytes, HR_READ}, 1));
    }
    return HR_OK;
}

hr_status hr__nccl_stage_out(hr__nccl_stage *st, hr_stream *s)
{
    for (hr__nccl_piece *p = st->pieces, *next; p; p = next) {
        move_args a = {(void *)(uintptr_t)(p->host + p->out.begin),
                       p->at + p->out.begin, p->out.end - p->out.begin, &p->busy};
        next = p->next_of; /* it may be in use again behind the launch */
        HR_TRY(hr_launch(s, "unstage", move_kernel, &a, sizeof a,
                         &(hr_operand){a.to, a.bytes, HR_WRITE}, 1));
    }
    return HR_OK;
}

hr__nccl_piece *hr__nccl_stage_take(hr__nccl_stage *st)
{
    hr__nccl_piece *taken = NULL;
    for (hr__nccl_piece **at = &st->pieces; *at;) {
        hr__nccl_piece *p = *at;
        if (!is_empty(p->out)) {
            at = &p->next_of;
            continue;
        }
        *at = p->next_of;
        p->next_of = taken;
        taken = p;
    }
    return taken;
}

void hr__nccl_stage_cancel(hr__nccl_stage *st)
{
    hr__nccl_pieces_done(st->pieces);
    st->pieces = NULL;
}
