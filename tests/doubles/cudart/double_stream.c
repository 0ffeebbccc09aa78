/* Streams, and what is put on them. */
#include "double_impl.h"

#include <stdlib.h>
#include <string.h>

static atomic_int last_priority;

int headrace_double_last_priority(void)
{
    return atomic_load(&last_priority);
}

/* Stream 0 has a thread from its first use on, and for ever. */
static pthread_mutex_t default_mu = PTHREAD_MUTEX_INITIALIZER;
static cudaStream_t default_stream; /* default_mu */

static cudaStream_t get_default(void)
{
    pthread_mutex_lock(&default_mu);
    if (default_stream == NULL) {
        cudaStream_t s = calloc(1, sizeof *s);
        if (s && double_queue_start(s) == cudaSuccess)
            default_stream = s;
    }
    cudaStream_t s = default_stream;
    pthread_mutex_unlock(&default_mu);
    return s;
}

cudaStream_t double_stream(cudaStream_t s)
{
    if (s == NULL || s == cudaStreamLegacy)
        return get_default();
    return double_knows(s, STREAM) ? s : NULL;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    ENTER();
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

/* Streams that wait for stream 0 are a rule that this double does not have. */
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags,
                                         int priority)
{
    ENTER();
    if (flags != cudaStreamNonBlocking)
        return double_end(cudaErrorNotSupported);
    cudaStream_t s = calloc(1, sizeof *s);
    if (s == NULL)
        return double_end(cudaErrorMemoryAllocation);
    s->device = double_device();
    s->priority = priority;
    cudaError_t e = double_queue_start(s);
    if (e != cudaSuccess)
        return double_end(e);
    double_register(&s->handle, STREAM);
    atomic_store(&last_priority, priority);
    *out = s;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    cudaError_t e = double_enter();
    if (!double_knows(s, STREAM))
        return double_end(cudaErrorInvalidResourceHandle);
    double_forget(&s->handle);
    double_queue_close(s);
    return e;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    cudaStream_t s = double_stream(stream);
    if (s) {
        pthread_mutex_lock(&s->mu);
        int pending = s->pending;
        pthread_mutex_unlock(&s->mu);
        ENTER_UNLESS(pending);
        return cudaSuccess;
    }
    ENTER();
    return double_end(cudaErrorInvalidResourceHandle);
}

/* What every call that puts something on a stream ends with. */
static cudaError_t put(cudaStream_t stream, const work *w)
{
    cudaStream_t s = double_stream(stream);
    return double_end(s ? double_put(s, w) : cudaErrorInvalidResourceHandle);
}

/* With HEADRACE_DOUBLE_ONE_THREAD no two run at a time, as if one thread had them all. */
static pthread_mutex_t host_functions_mu = PTHREAD_MUTEX_INITIALIZER;

static void run_host_function(work *w)
{
    bool one = getenv("HEADRACE_DOUBLE_ONE_THREAD") != NULL;
    if (w->deaths != double_deaths())
        return;
    if (one)
        pthread_mutex_lock(&host_functions_mu);
    double_in_host_function(true);
    w->host.fn(w->host.arg);
    double_in_host_function(false);
    if (one)
        pthread_mutex_unlock(&host_functions_mu);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *arg)
{
    ENTER();
    if (fn == NULL)
        return double_end(cudaErrorInvalidValue);
    return put(stream, &(work){.run = run_host_function, .host = {fn, NULL, arg}});
}

static void run_gpu_work(work *w)
{
    bool dead = w->deaths != double_deaths();
    double_in_host_function(true); /* it cannot call CUDA either */
    if (!dead) {
        headrace_double_gpu_works(true);
        w->host.fn(w->host.arg);
        headrace_double_gpu_works(false);
    } else if (w->host.drop) {
        w->host.drop(w->host.arg);
    }
    double_in_host_function(false);
}

int headrace_double_gpu_job(void *stream, void (*fn)(void *arg),
                            void (*drop)(void *arg), void *arg)
{
    return put(stream, &(work){.run = run_gpu_work, .host = {fn, drop, arg}});
}

int headrace_double_gpu_work(void *stream, void (*fn)(void *arg), void *arg)
{
    return headrace_double_gpu_job(stream, fn, NULL, arg);
}

static void run_copy(work *w)
{
    if (!double_touch_begin(w))
        return;
    memmove(w->copy.dst, w->copy.src, w->copy.bytes);
    double_touch_end();
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    ENTER();
    bool known;
    void *to = double_bytes(dst, bytes, &known),
         *from = double_bytes(src, bytes, &known);
    if (to == NULL || from == NULL || kind != cudaMemcpyDefault)
        return double_end(cudaErrorInvalidValue);
    return put(stream, &(work){.run = run_copy, .copy = {to, from, bytes}});
}

static void run_fill(work *w)
{
    if (!double_touch_begin(w))
        return;
    memset(w->fill.dst, w->fill.byte, w->fill.bytes);
    double_touch_end();
}

cudaError_t cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t stream)
{
    ENTER();
    bool known;
    void *to = double_bytes(dst, bytes, &known);
    if (to == NULL || !known)
        return double_end(cudaErrorInvalidValue);
    return put(stream, &(work){.run = run_fill, .fill = {to, byte, bytes}});
}
