/* Devices: open by the name of a backend, close, wait for all streams, attach a timeline.
 * What a backend does is in device_ops.h; failures are in device_fail.c. */
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "device/device_ops.h"
#include "trace/probe.h"

#ifndef HR__WHY_NO_CUDA /* CMake's reason */
#define HR__WHY_NO_CUDA "this build has no CUDA backend"
#endif

/* Every name that hr_device_open() knows; no table: the backend is off, and why. */
static const struct backend {
    const char *name;
    const hr_device_ops *ops;
    const char *why_off;
} backends[] = {
    {"host", &hr__host_ops, NULL},
#ifdef HR_WITH_CUDA
    {"cuda", &hr__cuda_ops, NULL},
#else
    {"cuda", NULL, HR__WHY_NO_CUDA},
#endif
};

static hr_status find_backend(const char *name, const hr_device_ops **out)
{
    for (size_t i = 0; name && i < sizeof backends / sizeof backends[0]; i++) {
        if (strcmp(backends[i].name, name) != 0)
            continue;
        if (backends[i].ops == NULL)
            return hr_fail(HR_ERR_UNSUPPORTED, "backend_off", "device '%s': %s", name,
                           backends[i].why_off);
        *out = backends[i].ops;
        return HR_OK;
    }
    return hr_fail(HR_ERR_INVALID, "backend",
                   "no device backend '%s'; there are 'host' and 'cuda'",
                   name ? name : "(null)");
}

static bool env_is_on(const char *name)
{
    const char *v = getenv(name);
    return v && v[0] && strcmp(v, "0") != 0;
}

/* HEADRACE_CHECK is a list of words with commas between them; there is one, "streams". */
static hr_status read_checks(bool *streams)
{
    static const char known[] = "streams";
    const char *p = getenv("HEADRACE_CHECK");
    while (p && *p) {
        size_t n = strcspn(p, ",");
        if (n == sizeof known - 1 && strncmp(p, known, n) == 0)
            *streams = true;
        else if (n > 0)
            return hr_fail(HR_ERR_INVALID, "check_word",
                           "HEADRACE_CHECK: no check '%.*s'; there is '%s'",
                           n < 40 ? (int)n : 40, p, known);
        p += n + (p[n] == ',');
    }
    return HR_OK;
}

static bool wants_poison(int option)
{
#ifdef HR_DEBUG
    return option >= 0;
#else
    return option > 0;
#endif
}

hr_status hr_device_open(const char *backend, const hr_device_opts *opts,
                         hr_device **out)
{
    static const hr_device_opts defaults = {HR_INIT(hr_device_opts)};
    const hr_device_ops *ops = NULL;
    if (out == NULL)
        return hr_fail(HR_ERR_INVALID, "no_out", "hr_device_open: nowhere to put it");
    *out = NULL;
    HR_CHECK_OPTS(opts, hr_device_opts);
    const hr_device_opts *o = opts ? opts : &defaults;
    HR_TRY(find_backend(backend, &ops));
    if (o->rank < 0 || o->cores < 0 || o->cores > 4096)
        return hr_fail(
            HR_ERR_INVALID, "device_opts",
            "hr_device_open: rank %d, cores %d: rank is at least 0, cores 0 to "
            "4096",
            o->rank, o->cores);
    bool check = o->check != 0;
    HR_TRY(read_checks(&check));

    hr_device *dev = aligned_alloc(64, (ops->device_size + 63) / 64 * 64);
    if (dev == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "device '%s': no memory for it", backend);
    memset(dev, 0, ops->device_size);
    dev->ops = ops;
    dev->rank = o->rank;
    dev->cores = o->cores ? o->cores : 1;
    dev->least = ops->least;
    dev->greatest = ops->greatest;
    dev->blocking = o->launch_blocking || env_is_on("HEADRACE_LAUNCH_BLOCKING");
    hr__fail_init(&dev->fail);
    hr__pool_init(&dev->pool, dev, o->memory, wants_poison(o->poison));
    if (check)
        dev->check = hr__check_create();
    hr_status st = ops->device_init(dev);
    if (st < 0) {
        hr__check_destroy(dev->check);
        hr__fail_fini(&dev->fail);
        free(dev);
        return st;
    }
    hr_stream *first;
    st = hr__stream_new(dev, dev->least, "compute", &first);
    if (st < 0) {
        hr_device_close(dev);
        return st;
    }
    *out = dev;
    return HR_OK;
}

void hr_device_close(hr_device *dev)
{
    if (dev == NULL)
        return;
    hr__device_drain(dev);
    for (int i = HR_MAX_STREAMS - 1; i >= 0; i--)
        hr_stream_destroy(dev->streams[i]);
    hr__pool_fini(&dev->pool); /* before the events: blocks may own some */
    hr__events_free(dev);
    dev->ops->device_fini(dev);
    hr__check_destroy(dev->check);
    hr__fail_fini(&dev->fail);
    hr__current_forget_device(dev);
    free(dev);
}

const char *hr_device_backend(const hr_device *dev)
{
    return dev ? dev->ops->name : "";
}

void hr_device_describe(hr_device *dev, char *out, size_t cap)
{
    if (dev && dev->ops->describe)
        dev->ops->describe(dev, out, cap);
    else if (cap)
        snprintf(out, cap, "%s", hr_device_backend(dev));
}

int hr_device_ordinal(const hr_device *dev)
{
    return dev && dev->ops->ordinal ? dev->ops->ordinal(dev) : 0;
}

int hr_device_rank(const hr_device *dev)
{
    return dev ? dev->rank : -1;
}

int hr_device_cores(const hr_device *dev)
{
    return dev ? dev->cores : 0;
}

hr_stream *hr_device_default_stream(hr_device *dev)
{
    return dev ? dev->streams[0] : NULL;
}

void hr_device_priority_range(hr_device *dev, int *least, int *greatest)
{
    int lo = dev ? dev->least : 0, hi = dev ? dev->greatest : 0;
    HR_PROBE(.kind = HR_PROBE_PRIORITY_RANGE, .value = lo, .extra = hi);
    if (least)
        *least = lo;
    if (greatest)
        *greatest = hi;
}

void hr__device_drain(hr_device *dev)
{
    for (int i = 0; i < HR_MAX_STREAMS; i++) {
        hr_stream *s = dev->streams[i];
        if (s == NULL)
            continue;
        dev->ops->stream_drain(s);
        dev->host.at[i] = s->issued;
    }
}

hr_status hr_device_synchronize(hr_device *dev)
{
    if (dev == NULL)
        return hr_fail(HR_ERR_INVALID, "no_device", "hr_device_synchronize: no device");
    hr__device_drain(dev);
    return hr_device_status(dev);
}

hr_status hr_device_set_timeline(hr_device *dev, hr_timeline *t)
{
    if (dev == NULL)
        return hr_fail(HR_ERR_INVALID, "no_device",
                       "hr_device_set_timeline: no device");
    hr__device_drain(dev);
    dev->timeline = t;
    for (int i = 0; i < HR_MAX_STREAMS; i++)
        if (dev->streams[i])
            HR_TRY(hr__stream_attach(dev->streams[i]));
    return HR_OK;
}
