/* CUDA streams: made without the implicit order to stream 0, or somebody else's. */
#include <stdlib.h>

#include "base/try.h"
#include "device/cuda/cuda_device.h"

static hr__gpu_stream *cuda(hr_stream *s)
{
    return (hr__gpu_stream *)s;
}

cudaStream_t hr__cuda_stream(const hr_stream *s)
{
    return ((const hr__gpu_stream *)s)->native;
}

const hr__cudart *hr__cuda(const hr_stream *s)
{
    return hr__cuda_device_of(s)->rt;
}

hr__cuda_fault *hr__cuda_fault_of(const hr_stream *s)
{
    return hr__cuda_device_of(s)->fault;
}

void **hr__cuda_stream_slot(hr_stream *s, void (*free)(void *held))
{
    cuda(s)->slot_free = free;
    return &cuda(s)->slot;
}

static hr_status init(hr_stream *s)
{
    hr__gpu_stream *c = cuda(s);
    c->spans.last = &c->spans.first;
    c->ring = calloc(HR__CUDA_RING, sizeof *c->ring);
    if (c->ring == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the queue of stream '%s'",
                       s->name);
    return HR_OK;
}

hr_status hr__cuda_stream_init(hr_stream *s)
{
    hr__gpu_device *d = hr__cuda_device_of(s);
    HR_TRY(init(s));
    hr__cuda_enter(d);
    cudaError_t e = d->rt->cudaStreamCreateWithPriority(
        &cuda(s)->native, cudaStreamNonBlocking, s->priority);
    hr_status st = hr__cuda_status(d->rt, e, "cudaStreamCreateWithPriority");
    if (st < 0)
        free(cuda(s)->ring);
    return st;
}

hr_status hr__cuda_stream_wrap(hr_stream *s, const hr_stream_wrap_opts *o)
{
    cuda(s)->native = o->native;
    return init(s);
}

void *hr__cuda_stream_native(const hr_stream *s)
{
    return hr__cuda_stream(s);
}

/* Rings that hold what a dead context may still point to. */
static hr__cuda_call *abandoned;
static pthread_mutex_t abandoned_mu = PTHREAD_MUTEX_INITIALIZER;

static void abandon(hr__cuda_call *ring)
{
    pthread_mutex_lock(&abandoned_mu);
    *(hr__cuda_call **)(void *)ring->args = abandoned;
    abandoned = ring;
    pthread_mutex_unlock(&abandoned_mu);
}

void hr__cuda_stream_fini(hr_stream *s)
{
    hr__gpu_device *d = hr__cuda_device_of(s);
    hr__gpu_stream *c = cuda(s);
    hr__cuda_enter(d);
    if (c->slot && c->slot_free)
        c->slot_free(c->slot);
    hr__cuda_spans_fini(c);
    if (!s->foreign)
        hr__cuda_ok(s->dev, s, d->rt->cudaStreamDestroy(c->native),
                    "cudaStreamDestroy");
    if (c->dead)
        abandon(c->ring);
    else
        free(c->ring);
}

static cudaError_t ask_stream(hr_stream *s, void *of)
{
    return hr__cuda(s)->cudaStreamQuery(hr__cuda_stream(s));
}

void hr__cuda_stream_drain(hr_stream *s)
{
    if (hr__cuda_await(s->dev, s, ask_stream, NULL, "cudaStreamQuery") != cudaSuccess)
        hr__cuda_give_up(cuda(s));
    hr__cuda_look_for_fault(hr__cuda_device_of(s));
    hr__cuda_spans_read(cuda(s));
}

bool hr__cuda_stream_idle(hr_stream *s)
{
    cudaError_t e = ask_stream(s, NULL);
    if (e == cudaErrorNotReady) {
        (void)hr__cuda(s)->cudaGetLastError();
        return false;
    }
    hr__cuda_ok(s->dev, s, e, "cudaStreamQuery");
    hr__cuda_look_for_fault(hr__cuda_device_of(s));
    return true;
}
