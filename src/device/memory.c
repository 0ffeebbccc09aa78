/* Stream-ordered memory: the public calls. The cache behind them is memory_pool.c. */
#include "device/device_ops.h"

/* The block at `ptr`, and its device. Mostly that is the stream's or the current one; else the
 * list of all slabs knows. */
static hr__block *find_block(const void *ptr, const hr_stream *s, hr_device **dev)
{
    *dev = s ? s->dev : hr_device_current();
    hr__block *b = *dev ? hr__index_find(&(*dev)->pool.index, ptr) : NULL;
    if (b)
        return b;
    *dev = hr__slab_owner(ptr);
    return *dev ? hr__index_find(&(*dev)->pool.index, ptr) : NULL;
}

/* The same if it is live and usable on `s`; else NULL, with the error set and logged: the
 * calls that take an address return nothing. */
static hr__block *live_block(const void *ptr, const hr_stream *s, const char *call,
                             hr__pool **pool)
{
    hr_device *dev;
    hr__block *b = find_block(ptr, s, &dev);
    const char *wrong = !b                   ? "is no block"
                        : !b->live           ? "is free already"
                        : s && s->dev != dev ? "is of another device than the stream"
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
    hr__block *b = live_block(ptr, s, "hr_mem_record_stream", &pool);
    if (b)
        b->recorded |= UINT32_C(1) << s->id;
}

void hr_mem_free(void *ptr, hr_stream *s)
{
    hr__pool *pool;
    if (ptr == NULL)
        return;
    hr__block *b = live_block(ptr, s, "hr_mem_free", &pool);
    if (b)
        hr__pool_free(pool, b, s);
}

void hr_mem_set_name(const void *ptr, size_t bytes, const char *name)
{
    hr_device *dev = hr_device_current();
    if (dev && dev->check && ptr && bytes && name)
        hr__check_name(dev->check, ptr, bytes, name);
}

void hr_mem_forget(hr_device *dev, const void *ptr, size_t bytes)
{
    if (dev && dev->check && ptr)
        hr__check_forget(dev->check, ptr, bytes);
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
