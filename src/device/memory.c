/* Stream-ordered memory: the public calls. The cache behind them is memory_pool.c. */
#include "device/device_ops.h"

/* The live block at `ptr` and its device's pool; NULL, with the error set and logged, for an
 * address that is none: the calls that take one return nothing. */
static hr__block *live_block(const void *ptr, const hr_device *hint, const char *call,
                             hr__pool **pool)
{
    hr_device *dev = hr__slab_owner(ptr);
    hr__block *b = dev ? hr__index_find(&dev->pool.index, ptr) : NULL;
    const char *wrong = !dev || !b              ? "is no block"
                        : !b->live              ? "is free already"
                        : (hint && hint != dev) ? "is of another device than the stream"
                                                : NULL;
    if (wrong) {
        hr_fail(HR_ERR_INVALID, "block", "%s: %p %s", call, ptr, wrong);
        hr_log(HR_LOG_WARN, "%s", hr_last_error());
        return NULL;
    }
    *pool = &dev->pool;
    return b;
}

hr_status hr_mem_alloc(hr_stream *s, size_t bytes, void **out)
{
    if (s == NULL || out == NULL)
        return hr_fail(HR_ERR_INVALID, "no_stream", "hr_mem_alloc: no %s",
                       s ? "place for the address" : "stream");
    *out = NULL;
    if (bytes == 0)
        return HR_OK;
    return hr__pool_alloc(&s->dev->pool, s, bytes, out);
}

void hr_mem_record_stream(void *ptr, hr_stream *s)
{
    hr__pool *pool;
    if (ptr == NULL || s == NULL)
        return;
    hr__block *b = live_block(ptr, s->dev, "hr_mem_record_stream", &pool);
    if (b)
        b->recorded |= UINT32_C(1) << s->id;
}

void hr_mem_free(void *ptr, hr_stream *s)
{
    hr__pool *pool;
    if (ptr == NULL)
        return;
    hr__block *b = live_block(ptr, s ? s->dev : NULL, "hr_mem_free", &pool);
    if (b)
        hr__pool_free(pool, b, s);
}

void hr_mem_get_stats(hr_device *dev, hr_mem_stats *out)
{
    if (out)
        *out = dev ? dev->pool.stats : (hr_mem_stats){0};
}

void hr_mem_reset_peak(hr_device *dev)
{
    if (dev)
        dev->pool.stats.peak_bytes = dev->pool.stats.live_bytes;
}
