/* The host backend's table, its memory, and copies as launches. Next: host_stream.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/host/host_foreign.h"

static hr_status host_device_init(hr_device *dev)
{
    hr__host_device *d = (hr__host_device *)dev;
    for (int i = 0; i < HR_MAX_STREAMS; i++) {
        hr__counter_init(&d->lanes[i].queued);
        hr__counter_init(&d->lanes[i].done);
    }
    return hr__team_create(dev->cores, dev->rank, &d->team);
}

static void host_device_fini(hr_device *dev)
{
    hr__team_destroy(((hr__host_device *)dev)->team);
}

struct copy_args {
    void *dst;
    const void *src;
    size_t bytes;
};

static hr_status run_copy(const void *args, hr_team *team)
{
    const struct copy_args *c = args;
    memmove(c->dst, c->src, c->bytes);
    return HR_OK;
}

static void host_copy(hr_stream *s, void *dst, const void *src, size_t bytes)
{
    struct copy_args c = {dst, src, bytes};
    hr__launch l = {
        .name = "copy", .kernel = run_copy, .args = &c, .arg_bytes = sizeof c};
    hr__mark_fill(s, &l);
    hr__host_launch(s, &l);
}

/* Pages come zeroed and only when touched. Large ones halve the cost of first touches. */
static void *host_slab_reserve(hr_device *dev, size_t bytes)
{
    void *slab =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slab == MAP_FAILED)
        return NULL;
    (void)madvise(slab, bytes, MADV_HUGEPAGE);
    return slab;
}

static void host_slab_release(hr_device *dev, void *slab, size_t bytes)
{
    munmap(slab, bytes);
}

const hr_device_ops hr__host_ops = {
    .name = "host",
    .least = 0,
    .greatest = -5,
    .device_size = sizeof(hr__host_device),
    .stream_size = sizeof(hr__host_stream),
    .event_size = sizeof(hr__host_event),
    .device_init = host_device_init,
    .device_fini = host_device_fini,
    .stream_init = hr__host_stream_init,
    .stream_fini = hr__host_stream_fini,
    .stream_drain = hr__host_stream_drain,
    .stream_idle = hr__host_stream_idle,
    .stream_awaited = hr__host_stream_awaited,
    .stream_wrap = hr__host_stream_wrap,
    .stream_native = hr__host_stream_native,
    .event_record = hr__host_event_record,
    .event_wait = hr__host_event_wait,
    .event_drain = hr__host_event_drain,
    .event_reached = hr__host_event_reached,
    .launch = hr__host_launch,
    .copy = host_copy,
    .fill = hr__fill_by_kernel,
    .slab_reserve = host_slab_reserve,
    .slab_release = host_slab_release,
    .bind = hr__host_bind,
};
