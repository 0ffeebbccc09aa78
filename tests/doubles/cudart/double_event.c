/* Events: each record makes a new point, and a wait takes the point that is there at the call. */
#include "double_impl.h"

#include <stdlib.h>

struct CUevent_st {
    handle handle;
    unsigned flags;
    int device;
    pthread_mutex_t mu;
    point *at; /* mu; NULL: never recorded */
};

static atomic_uint last_flags;

unsigned headrace_double_last_event_flags(void)
{
    return atomic_load(&last_flags);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    ENTER();
    cudaEvent_t e = calloc(1, sizeof *e);
    if (e == NULL)
        return double_end(cudaErrorMemoryAllocation);
    e->flags = flags;
    e->device = double_device();
    pthread_mutex_init(&e->mu, NULL);
    double_register(&e->handle, EVENT);
    atomic_store(&last_flags, flags);
    *out = e;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    cudaError_t st = double_enter();
    if (!double_knows(e, EVENT))
        return double_end(cudaErrorInvalidResourceHandle);
    double_forget(&e->handle);
    double_point_drop(e->at);
    pthread_mutex_destroy(&e->mu);
    free(e);
    return st;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream)
{
    ENTER();
    cudaStream_t s = double_stream(stream);
    if (s == NULL || !double_knows(e, EVENT) || e->device != s->device)
        return double_end(cudaErrorInvalidResourceHandle);
    point *p = double_point_new();
    if (p == NULL)
        return double_end(cudaErrorMemoryAllocation);
    cudaError_t st =
        double_put(s, &(work){.run = double_reach, .at = double_point_hold(p)});
    if (st != cudaSuccess) {
        double_point_drop(p);
        double_point_drop(p);
        return double_end(st);
    }
    pthread_mutex_lock(&e->mu);
    point *before = e->at;
    e->at = p;
    pthread_mutex_unlock(&e->mu);
    double_point_drop(before);
    return cudaSuccess;
}

static point *current(cudaEvent_t e)
{
    pthread_mutex_lock(&e->mu);
    point *p = double_point_hold(e->at);
    pthread_mutex_unlock(&e->mu);
    return p;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned flags)
{
    ENTER();
    cudaStream_t s = double_stream(stream);
    if (s == NULL || !double_knows(e, EVENT))
        return double_end(cudaErrorInvalidResourceHandle);
    if (flags != cudaEventWaitDefault)
        return double_end(cudaErrorInvalidValue);
    point *p = current(e);
    if (p == NULL)
        return cudaSuccess;
    cudaError_t st = double_put(s, &(work){.run = double_await, .at = p});
    if (st != cudaSuccess)
        double_point_drop(p);
    return double_end(st);
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    if (double_knows(e, EVENT)) {
        point *p = current(e);
        bool done = double_point_done(p, NULL);
        double_point_drop(p);
        ENTER_UNLESS(!done);
        return cudaSuccess;
    }
    ENTER();
    return double_end(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    ENTER();
    int64_t from = 0, to = 0;
    if (!double_knows(begin, EVENT) || !double_knows(end, EVENT) ||
        (begin->flags | end->flags) & cudaEventDisableTiming)
        return double_end(cudaErrorInvalidResourceHandle);
    point *a = current(begin), *b = current(end);
    bool recorded = a && b;
    bool done = double_point_done(a, &from) && double_point_done(b, &to);
    double_point_drop(a);
    double_point_drop(b);
    if (!recorded)
        return double_end(cudaErrorInvalidResourceHandle);
    if (!done)
        return double_end(cudaErrorNotReady);
    *ms = (float)((double)(to - from) / 1e6);
    return cudaSuccess;
}
