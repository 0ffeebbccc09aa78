/* The CUDA backend's table; a device comes and goes here. Next: cuda_launch.c. */
#include "device/cuda/cuda_device.h"

#include <ctype.h>
#include <string.h>

#include "base/try.h"

bool hr__cuda_ok(hr_device *dev, const hr_stream *s, cudaError_t e, const char *call)
{
    hr__gpu_device *d = (hr__gpu_device *)dev;
    char said[256];
    if (e == cudaSuccess)
        return true;
    hr_status st = hr__cuda_status(d->rt, e, call);
    snprintf(said, sizeof said, "%s", hr_last_error());
    hr_fail(st, "cuda", "rank %d%s%s%s: %s", dev->rank, s ? ", stream '" : "",
            s ? s->name : "", s ? "'" : "", said);
    hr_device_fail(dev, st);
    return false;
}

void hr__cuda_enter(hr__gpu_device *d)
{
    hr__cuda_ok(&d->base, NULL, d->rt->cudaSetDevice(d->ordinal), "cudaSetDevice");
}

/* What a device has of CUDA's, in the order of making. */
static hr_status make_parts(hr__gpu_device *d)
{
    hr_device *dev = &d->base;
    const hr__cudart *rt = d->rt;
    HR_TRY(hr__cuda_status(rt, rt->cudaSetDevice(d->ordinal), "cudaSetDevice"));
    HR_TRY(hr__cuda_status(
        rt, rt->cudaDeviceGetStreamPriorityRange(&dev->least, &dev->greatest),
        "cudaDeviceGetStreamPriorityRange"));
    HR_TRY(hr__cuda_status(
        rt,
        rt->cudaStreamCreateWithPriority(&d->side, cudaStreamNonBlocking, dev->least),
        "cudaStreamCreateWithPriority"));
    void *fault = NULL;
    HR_TRY(hr__cuda_status(
        rt, rt->cudaHostAlloc(&fault, sizeof *d->fault, cudaHostAllocPortable),
        "cudaHostAlloc"));
    d->fault = memset(fault, 0, sizeof *d->fault);
    return hr__cuda_memory_init(d);
}

/* Of a device that is whole, or was not finished. Errors here have nobody to go to. */
static void cuda_device_fini(hr_device *dev)
{
    hr__gpu_device *d = (hr__gpu_device *)dev;
    const hr__cudart *rt = d->rt;
    (void)rt->cudaSetDevice(d->ordinal);
    hr__cuda_events_fini(d, &d->plain);
    hr__cuda_events_fini(d, &d->timed);
    hr__cuda_memory_fini(d);
    if (d->fault)
        (void)rt->cudaFreeHost(d->fault);
    if (d->side)
        (void)rt->cudaStreamDestroy(d->side);
    (void)rt->cudaGetLastError();
}

/* Once a process: who reads figures must know. */
static void say_double(const hr__cudart *rt)
{
    static atomic_bool said;
    if (rt->double_of && !atomic_exchange(&said, true))
        hr_log(HR_LOG_WARN, "%s: no GPU is used, and no time means anything (%s)",
               rt->double_of, rt->path);
}

static hr_status cuda_device_init(hr_device *dev)
{
    hr__gpu_device *d = (hr__gpu_device *)dev;
    int devices = 0;
    HR_TRY(hr__cudart_load(&d->rt));
    HR_TRY(hr__cudart_probe(d->rt, &devices));
    d->ordinal = dev->rank % devices;
    d->plain.flags = cudaEventDisableTiming;
    d->timed.flags = cudaEventDefault;
    hr_status st = make_parts(d);
    if (st < 0)
        cuda_device_fini(dev);
    else
        say_double(d->rt);
    return st;
}

static int cuda_ordinal(const hr_device *dev)
{
    return ((const hr__gpu_device *)dev)->ordinal;
}

static int attribute(hr__gpu_device *d, enum cudaDeviceAttr what)
{
    int v = 0;
    (void)d->rt->cudaDeviceGetAttribute(&v, what, d->ordinal);
    return v;
}

static hr_status cuda_pci_bus_id(hr_device *dev, char *out, size_t cap)
{
    hr__gpu_device *d = (hr__gpu_device *)dev;
    char id[32] = "";
    HR_TRY(hr__cuda_status(d->rt,
                           d->rt->cudaDeviceGetPCIBusId(id, sizeof id, d->ordinal),
                           "cudaDeviceGetPCIBusId"));
    for (char *p = id; *p; p++)
        *p = (char)tolower((unsigned char)*p); /* as sysfs has it */
    snprintf(out, cap, "%s", id);
    return HR_OK;
}

static void cuda_describe(hr_device *dev, char *out, size_t cap)
{
    hr__gpu_device *d = (hr__gpu_device *)dev;
    char bus[32] = "no bus";
    int runtime = 0, driver = 0;
    (void)d->rt->cudaRuntimeGetVersion(&runtime);
    (void)d->rt->cudaDriverGetVersion(&driver);
    (void)cuda_pci_bus_id(dev, bus, sizeof bus);
    snprintf(out, cap, "%s%d.%d, driver %d.%d, compute capability %d.%d at %s%s",
             d->rt->double_of ? "CUDA on test double, " : "CUDA ", runtime / 1000,
             runtime % 1000 / 10, driver / 1000, driver % 1000 / 10,
             attribute(d, cudaDevAttrComputeCapabilityMajor),
             attribute(d, cudaDevAttrComputeCapabilityMinor), bus,
             d->managed ? ", managed memory" : "");
}

const hr_device_ops hr__cuda_ops = {
    .name = "cuda",
    .least = 0,
    .greatest = 0,
    .ordinal = cuda_ordinal,
    .device_size = sizeof(hr__gpu_device),
    .stream_size = sizeof(hr__gpu_stream),
    .event_size = sizeof(hr__gpu_event),
    .device_init = cuda_device_init,
    .device_fini = cuda_device_fini,
    .stream_init = hr__cuda_stream_init,
    .stream_fini = hr__cuda_stream_fini,
    .stream_drain = hr__cuda_stream_drain,
    .stream_idle = hr__cuda_stream_idle,
    .stream_wrap = hr__cuda_stream_wrap,
    .stream_native = hr__cuda_stream_native,
    .event_record = hr__cuda_event_record,
    .event_wait = hr__cuda_event_wait,
    .event_drain = hr__cuda_event_drain,
    .event_reached = hr__cuda_event_reached,
    .event_fini = hr__cuda_event_fini,
    .launch = hr__cuda_launch,
    .launch_native = hr__cuda_launch_native,
    .copy = hr__cuda_copy,
    .fill = hr__cuda_fill,
    .slab_reserve = hr__cuda_slab_reserve,
    .slab_release = hr__cuda_slab_release,
    .describe = cuda_describe,
    .pci_bus_id = cuda_pci_bus_id,
};
