/* Symmetric memory: blocks, and their windows. */
#include "nccl_double_impl.h"

#include <stdlib.h>

enum { GRANULE = 1 << 16 };

typedef struct block {
    struct block *next;
    char *base;
    size_t bytes;
    int windows; /* over it */
} block;

static pthread_mutex_t blocks_mu = PTHREAD_MUTEX_INITIALIZER;
static block *blocks; /* blocks_mu */

ncclResult_t ncclMemAlloc(void **out, size_t bytes)
{
    ENTER();
    block *b = calloc(1, sizeof *b);
    size_t room = (bytes + GRANULE - 1) / GRANULE * GRANULE;
    void *p = b && bytes ? double_runtime()->alloc(room) : NULL;
    if (p == NULL) {
        free(b);
        return double_wrong(ncclUnhandledCudaError, "no memory of the device");
    }
    *b = (block){.base = p, .bytes = room};
    pthread_mutex_lock(&blocks_mu);
    b->next = blocks;
    blocks = b;
    pthread_mutex_unlock(&blocks_mu);
    double_count(0, 0, 1);
    *out = p;
    return ncclSuccess;
}

/* Its windows +- `more`. NULL: nothing that ncclMemAlloc() gave. */
static block *block_of(const void *p, size_t bytes, int more)
{
    const char *at = p;
    pthread_mutex_lock(&blocks_mu);
    block *b = blocks;
    while (b &&
           !(at >= b->base && bytes <= b->bytes && at <= b->base + (b->bytes - bytes)))
        b = b->next;
    if (b)
        b->windows += more;
    pthread_mutex_unlock(&blocks_mu);
    return b;
}

void double_window_free(window *w)
{
    (void)block_of(w->base, w->bytes, -1);
    free(w);
    double_count(0, -1, 0);
}

ncclResult_t ncclMemFree(void *p)
{
    ncclResult_t e = double_enter();
    block *b = NULL;
    pthread_mutex_lock(&blocks_mu);
    for (block **at = &blocks; *at; at = &(*at)->next)
        if ((*at)->base == p && (*at)->windows == 0) {
            b = *at;
            *at = b->next;
            break;
        }
    pthread_mutex_unlock(&blocks_mu);
    if (b == NULL)
        return double_wrong(ncclInvalidUsage, "memory of no block, or under a window");
    bool freed = double_runtime()->free(b->base);
    free(b);
    double_count(0, 0, -1);
    return freed ? e : ncclInternalError;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *p, size_t bytes,
                                    ncclWindow_t *out, int flags)
{
    ENTER();
    ncclResult_t e = double_comm_check(comm);
    if (e != ncclSuccess)
        return e;
    if (flags != NCCL_WIN_COLL_SYMMETRIC ||
        (uintptr_t)p % NCCL_WIN_REQUIRED_ALIGNMENT != 0 || bytes == 0)
        return double_wrong(ncclInvalidArgument, "a window of %zu bytes at %p", bytes,
                            p);
    window *w = calloc(1, sizeof *w);
    if (w == NULL || block_of(p, bytes, 1) == NULL) {
        free(w);
        return double_wrong(ncclInvalidArgument, "not memory of ncclMemAlloc()");
    }
    w->base = p;
    w->bytes = bytes;
    op o = {.comm = comm, .kind = WINDOW, .count = bytes, .type = ncclUint8};
    pthread_mutex_lock(&comm->clique->mu);
    bool agrees = double_agrees(comm->clique, &o);
    w->next = comm->windows;
    comm->windows = w;
    comm->busy = !comm->blocking;
    pthread_mutex_unlock(&comm->clique->mu);
    double_count(0, 1, 0);
    *out = (ncclWindow_t)(void *)w;
    return !agrees ? ncclInvalidUsage : comm->blocking ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t which)
{
    ncclResult_t e = double_enter();
    window *w = NULL;
    pthread_mutex_lock(&comm->clique->mu);
    for (window **at = &comm->windows; *at; at = &(*at)->next)
        if ((void *)*at == (void *)which) {
            w = *at;
            *at = w->next;
            break;
        }
    pthread_mutex_unlock(&comm->clique->mu);
    if (w == NULL)
        return double_wrong(ncclInvalidArgument, "no such window");
    double_window_free(w);
    return e;
}
