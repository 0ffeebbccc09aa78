/* Events are CUDA's: a wait binds to the record that is current at the call, a destroyed event keeps the
 * waits that were issued. CUDA events are used again, for making one costs more than a record. */
#include "device/cuda/cuda_device.h"

cudaEvent_t hr__cuda_event_take(hr__gpu_device *d, hr__cuda_events *from)
{
    cudaEvent_t e = NULL;
    if (from->n > 0)
        return from->at[--from->n];
    hr__cuda_enter(d);
    if (!hr__cuda_ok(&d->base, NULL, d->rt->cudaEventCreateWithFlags(&e, from->flags),
                     "cudaEventCreateWithFlags"))
        return NULL;
    return e;
}

void hr__cuda_event_put(hr__gpu_device *d, hr__cuda_events *to, cudaEvent_t e)
{
    if (e == NULL)
        return;
    if (to->n < HR__CUDA_IDLE_EVENTS)
        to->at[to->n++] = e;
    else
        hr__cuda_ok(&d->base, NULL, d->rt->cudaEventDestroy(e), "cudaEventDestroy");
}

void hr__cuda_events_fini(hr__gpu_device *d, hr__cuda_events *of)
{
    while (of->n > 0)
        (void)d->rt->cudaEventDestroy(of->at[--of->n]);
}

static hr__gpu_event *cuda(hr_event *e)
{
    return (hr__gpu_event *)e;
}

void hr__cuda_event_record(hr_event *e, hr_stream *s)
{
    hr__gpu_device *d = hr__cuda_device_of(s);
    if (cuda(e)->native == NULL)
        cuda(e)->native = hr__cuda_event_take(d, &d->plain);
    if (cuda(e)->native)
        hr__cuda_ok(&d->base, s,
                    d->rt->cudaEventRecord(cuda(e)->native, hr__cuda_stream(s)),
                    "cudaEventRecord");
}

/* Without a native event its record has failed, and the device with it. */
void hr__cuda_event_wait(hr_event *e, hr_stream *s)
{
    hr__gpu_device *d = hr__cuda_device_of(s);
    if (cuda(e)->native)
        hr__cuda_ok(&d->base, s,
                    d->rt->cudaStreamWaitEvent(hr__cuda_stream(s), cuda(e)->native, 0),
                    "cudaStreamWaitEvent");
}

static cudaError_t ask_event(hr_stream *s, void *event)
{
    hr_event *e = event;
    return ((hr__gpu_device *)e->dev)->rt->cudaEventQuery(cuda(e)->native);
}

void hr__cuda_event_drain(hr_event *e)
{
    if (cuda(e)->native)
        (void)hr__cuda_await(e->dev, NULL, ask_event, e, "cudaEventQuery");
    hr__cuda_look_for_fault((hr__gpu_device *)e->dev);
}

bool hr__cuda_event_reached(hr_event *e)
{
    if (cuda(e)->native == NULL)
        return true;
    cudaError_t st = ask_event(NULL, e);
    if (st == cudaErrorNotReady) {
        (void)((hr__gpu_device *)e->dev)->rt->cudaGetLastError();
        return false;
    }
    hr__cuda_ok(e->dev, NULL, st, "cudaEventQuery");
    hr__cuda_look_for_fault((hr__gpu_device *)e->dev);
    return true;
}

void hr__cuda_event_fini(hr_event *e)
{
    hr__gpu_device *d = (hr__gpu_device *)e->dev;
    hr__cuda_event_put(d, &d->plain, cuda(e)->native);
    cuda(e)->native = NULL;
}
