/* Streams: make, destroy, wait for. Their ids are places in the device's table; an id that is
 * used again counts positions on from the last holder (order_clock.h). */
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "device/comm_slot.h"
#include "device/device_ops.h"
#include "trace/probe.h"

atomic_int hr__clock_width;

static void widen_clocks(int id)
{
    int width = hr__clock_ids();
    while (width <= id &&
           !atomic_compare_exchange_weak(&hr__clock_width, &width, id + 1))
        ;
}

static int free_id(const hr_device *dev)
{
    int id = 0;
    while (id < HR_MAX_STREAMS && dev->streams[id])
        id++;
    return id;
}

static int clamp_priority(const hr_device *dev, int p)
{
    if (p > dev->least)
        return dev->least;
    return p < dev->greatest ? dev->greatest : p;
}

hr_status hr__stream_attach(hr_stream *s)
{
    s->lane = NULL;
    if (s->dev->timeline == NULL)
        return HR_OK;
    return hr_timeline_lane(s->dev->timeline, s->dev->rank, s->name, &s->lane);
}

static hr_status make(hr_device *dev, int priority, const char *name,
                      const hr_stream_wrap_opts *foreign, hr_stream **out)
{
    int id = free_id(dev);
    *out = NULL;
    if (id == HR_MAX_STREAMS)
        return hr_fail(HR_ERR_INVALID, "streams",
                       "rank %d: stream '%s' is one more than the %d of a device",
                       dev->rank, name, HR_MAX_STREAMS);
    hr_stream *s = calloc(1, dev->ops->stream_size);
    if (s == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for stream '%s'", name);
    widen_clocks(id);
    s->dev = dev;
    s->id = id;
    s->priority = clamp_priority(dev, priority);
    s->foreign = foreign != NULL;
    s->issued = dev->retired[id];
    snprintf(s->name, sizeof s->name, "%s", name);
    hr_status st = hr__stream_attach(s);
    if (st >= 0)
        st = foreign ? dev->ops->stream_wrap(s, foreign) : dev->ops->stream_init(s);
    if (st < 0) {
        free(s);
        return st;
    }
    dev->streams[id] = s;
    *out = s;
    return HR_OK;
}

hr_status hr__stream_new(hr_device *dev, int priority, const char *name,
                         hr_stream **out)
{
    return make(dev, priority, name, NULL, out);
}

hr_status hr__stream_wrap(hr_device *dev, const char *name,
                          const hr_stream_wrap_opts *foreign, hr_stream **out)
{
    return make(dev, dev->least, name, foreign, out);
}

hr_status hr_stream_create(hr_device *dev, const hr_stream_opts *opts, hr_stream **out)
{
    if (dev == NULL || out == NULL)
        return hr_fail(HR_ERR_INVALID, "no_device", "hr_stream_create: no %s",
                       dev ? "place for the stream" : "device");
    *out = NULL;
    HR_CHECK_OPTS(opts, hr_stream_opts);
    int priority = opts ? opts->priority : dev->least;
    const char *name = opts && opts->name ? opts->name : "stream";
    HR_TRY(hr__stream_new(dev, priority, name, out));
    HR_PROBE(.kind = HR_PROBE_NEW_STREAM, .a = *out, .value = (*out)->priority);
    return HR_OK;
}

/* Wait for what is queued, and know it. */
static void drain(hr_stream *s)
{
    s->dev->ops->stream_drain(s);
    hr__clock c = hr__stream_clock(s);
    hr__clock_join(&s->dev->host, &c);
}

void hr_stream_destroy(hr_stream *s)
{
    if (s == NULL)
        return;
    hr_device *dev = s->dev;
    drain(s);
    dev->ops->stream_fini(s);
    dev->retired[s->id] = s->issued;
    dev->streams[s->id] = NULL;
    if (dev->comm == s)
        dev->comm = NULL;
    hr__current_forget_stream(s);
    free(s);
}

hr_device *hr_stream_device(const hr_stream *s)
{
    return s ? s->dev : NULL;
}

const char *hr_stream_name(const hr_stream *s)
{
    return s ? s->name : "";
}

int hr_stream_priority(const hr_stream *s)
{
    return s ? s->priority : 0;
}

hr_status hr_stream_synchronize(hr_stream *s)
{
    if (s == NULL)
        return hr_fail(HR_ERR_INVALID, "no_stream", "hr_stream_synchronize: no stream");
    drain(s);
    return hr_device_status(s->dev);
}

hr_status hr_stream_query(hr_stream *s)
{
    if (s == NULL)
        return hr_fail(HR_ERR_INVALID, "no_stream", "hr_stream_query: no stream");
    /* The host clock does not learn from a look: what it says must not depend on speed. */
    return s->dev->ops->stream_idle(s) ? hr_device_status(s->dev) : HR_PENDING;
}

hr_stream *hr__device_comm_stream(const hr_device *dev)
{
    return dev->comm;
}

void hr__device_set_comm_stream(hr_device *dev, hr_stream *s)
{
    dev->comm = s;
}
