/* Memory of a CUDA device: slabs for the pool of the front (memory_pool.c), which keeps record_stream,
 * order and reuse; so CUDA's own pool only hands out large pieces, and is told never to tie streams
 * together nor to give memory back at a synchronise.
 *
 * HEADRACE_CUDA_MEMORY=managed takes memory that the host reaches too: slower, but host kernels run on
 * it; for tests, and for comparing kernels of the two sides. */
#include "base/try.h"
#include "device/cuda/cuda_device.h"

#include <stdlib.h>
#include <string.h>

static hr_status set_attribute(hr__gpu_device *d, enum cudaMemPoolAttr which,
                               void *value)
{
    return hr__cuda_status(d->rt, d->rt->cudaMemPoolSetAttribute(d->pool, which, value),
                           "cudaMemPoolSetAttribute");
}

/* Without internal dependencies, which let an allocation on one stream wait for a free on another;
 * without reuse by what happens to be over. */
static hr_status make_pool(hr__gpu_device *d)
{
    uint64_t all = UINT64_MAX;
    int on = 1, off = 0;
    struct cudaMemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = d->ordinal;
    HR_TRY(hr__cuda_status(d->rt, d->rt->cudaMemPoolCreate(&d->pool, &props),
                           "cudaMemPoolCreate"));
    hr_status st = set_attribute(d, cudaMemPoolAttrReleaseThreshold, &all);
    if (st >= 0)
        st = set_attribute(d, cudaMemPoolReuseFollowEventDependencies, &on);
    if (st >= 0)
        st = set_attribute(d, cudaMemPoolReuseAllowOpportunistic, &off);
    if (st >= 0)
        st = set_attribute(d, cudaMemPoolReuseAllowInternalDependencies, &off);
    if (st < 0)
        hr__cuda_memory_fini(d);
    return st;
}

static hr_status want(hr__gpu_device *d, enum cudaDeviceAttr what, const char *words)
{
    int has = 0;
    HR_TRY(hr__cuda_status(d->rt, d->rt->cudaDeviceGetAttribute(&has, what, d->ordinal),
                           "cudaDeviceGetAttribute"));
    if (!has)
        return hr_fail(HR_ERR_UNSUPPORTED, "no_cuda",
                       "device 'cuda': off, because GPU %d has no %s", d->ordinal,
                       words);
    return HR_OK;
}

hr_status hr__cuda_memory_init(hr__gpu_device *d)
{
    const char *kind = getenv("HEADRACE_CUDA_MEMORY");
    if (kind == NULL || kind[0] == '\0' || strcmp(kind, "device") == 0) {
        d->base.apart = true;
        HR_TRY(want(d, cudaDevAttrMemoryPoolsSupported, "memory pools"));
        return make_pool(d);
    }
    if (strcmp(kind, "managed") != 0)
        return hr_fail(HR_ERR_INVALID, "cuda_memory",
                       "HEADRACE_CUDA_MEMORY: no kind '%.40s'; there are 'device' and "
                       "'managed'",
                       kind);
    d->managed = true;
    return want(d, cudaDevAttrConcurrentManagedAccess,
                "managed memory that both sides use at the same time");
}

static cudaError_t side_done(hr_stream *s, void *device)
{
    hr__gpu_device *d = device;
    return d->rt->cudaStreamQuery(d->side);
}

/* What has been freed is really gone then. */
void hr__cuda_memory_fini(hr__gpu_device *d)
{
    if (d->side)
        (void)hr__cuda_await(&d->base, NULL, side_done, d, "cudaStreamQuery");
    if (d->pool)
        (void)d->rt->cudaMemPoolDestroy(d->pool);
    d->pool = NULL;
}

/* A stream is needed for CUDA's sake only: when this returns all streams may use it. */
static void *from_pool(hr__gpu_device *d, size_t bytes)
{
    void *slab = NULL;
    cudaError_t e = d->rt->cudaMallocFromPoolAsync(&slab, bytes, d->pool, d->side);
    if (hr__cuda_status(d->rt, e, "cudaMallocFromPoolAsync") < 0)
        return NULL;
    if (hr__cuda_await(&d->base, NULL, side_done, d, "cudaStreamQuery") == cudaSuccess)
        return slab;
    (void)d->rt->cudaFreeAsync(slab, d->side);
    return NULL;
}

void *hr__cuda_slab_reserve(hr_device *dev, size_t bytes)
{
    hr__gpu_device *d = (hr__gpu_device *)dev;
    void *slab = NULL;
    hr__cuda_enter(d);
    if (!d->managed)
        return from_pool(d, bytes);
    cudaError_t e = d->rt->cudaMallocManaged(&slab, bytes, cudaMemAttachGlobal);
    return hr__cuda_status(d->rt, e, "cudaMallocManaged") < 0 ? NULL : slab;
}

void hr__cuda_slab_release(hr_device *dev, void *slab, size_t bytes)
{
    hr__gpu_device *d = (hr__gpu_device *)dev;
    hr__cuda_enter(d);
    const char *call = d->managed ? "cudaFree" : "cudaFreeAsync";
    cudaError_t e =
        d->managed ? d->rt->cudaFree(slab) : d->rt->cudaFreeAsync(slab, d->side);
    hr__cuda_ok(dev, NULL, e, call);
}
