/* Events: points in a stream that other streams, or the host, wait for. The clock of an event
 * says at issue time what a wait would order; the backend does the waiting. */
#include <stdlib.h>
#include <string.h>

#include "base/recycling.h"
#include "base/try.h"
#include "device/device_ops.h"
#include "trace/probe.h"

/* Plans come and go with one each. */
enum { MAX_IDLE = 64 };

static hr_event *take_idle(hr_device *dev)
{
    hr_event *e = dev->idle_events;
    if (e == NULL)
        return calloc(1, dev->ops->event_size);
    dev->idle_events = e->next;
    dev->n_idle_events--;
    return memset(e, 0, dev->ops->event_size);
}

static void put_idle(hr_device *dev, hr_event *e)
{
    if (!HR__RECYCLING || dev->n_idle_events == MAX_IDLE) {
        free(e);
        return;
    }
    e->next = dev->idle_events;
    dev->idle_events = e;
    dev->n_idle_events++;
}

static void end(hr_event *e)
{
    if (e->dev->ops->event_fini)
        e->dev->ops->event_fini(e);
}

static void free_list(hr_event *e, bool lives)
{
    while (e) {
        hr_event *next = e->next;
        if (lives)
            end(e);
        free(e);
        e = next;
    }
}

void hr__events_free(hr_device *dev)
{
    free_list(dev->events, true);
    free_list(dev->idle_events, false);
}

hr_status hr__event_new(hr_device *dev, hr_event **out)
{
    hr_event *e = take_idle(dev);
    *out = e;
    if (e == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for an event");
    e->dev = dev;
    e->serial = ++dev->events_made;
    e->next = dev->events;
    if (e->next)
        e->next->prev = e;
    dev->events = e;
    return HR_OK;
}

hr_status hr_event_create(hr_device *dev, hr_event **out)
{
    if (dev == NULL || out == NULL)
        return hr_fail(HR_ERR_INVALID, "no_device", "hr_event_create: no %s",
                       dev ? "place for the event" : "device");
    return hr__event_new(dev, out);
}

void hr_event_destroy(hr_event *e)
{
    if (e == NULL)
        return;
    if (e->prev)
        e->prev->next = e->next;
    else
        e->dev->events = e->next;
    if (e->next)
        e->next->prev = e->prev;
    end(e);
    put_idle(e->dev, e);
}

static hr_status check_pair(const hr_event *e, const hr_stream *s, const char *call)
{
    if (e == NULL || s == NULL)
        return hr_fail(HR_ERR_INVALID, "no_event", "%s: no %s", call,
                       e == NULL ? "event" : "stream");
    if (e->dev != s->dev)
        return hr_fail(HR_ERR_INVALID, "event_device",
                       "%s: the event is of rank %d's device, stream '%s' of rank %d's",
                       call, e->dev->rank, s->name, s->dev->rank);
    return HR_OK;
}

hr_status hr_event_record(hr_event *e, hr_stream *s)
{
    HR_TRY(check_pair(e, s, "hr_event_record"));
    HR_PROBE(.kind = HR_PROBE_RECORD, .a = e, .b = s);
    s->issued += s->foreign; /* stands for what others have put there since */
    if (s->dev->check)
        hr__check_record(s->dev->check, e, s);
    e->recorded = true;
    e->on = s;
    hr__stream_clock_into(s, &e->clock);
    s->dev->ops->event_record(e, s);
    return HR_OK;
}

hr_status hr_event_wait(hr_event *e, hr_stream *s)
{
    HR_TRY(check_pair(e, s, "hr_event_wait"));
    HR_PROBE(.kind = HR_PROBE_WAIT, .a = e, .b = s);
    if (s->dev->check)
        hr__check_wait(s->dev->check, e, s);
    /* A stream's own record is ordered already. So is that of a stream that had this address before:
     * the host has waited for all of it. */
    if (!e->recorded || e->on == s)
        return HR_OK;
    /* What an earlier wait ordered needs no other; but the fills of poison are behind the clocks, and
     * one that this event stands for may be newer than that wait. */
    hr__clock now = hr__stream_clock(s);
    if (hr__clock_covers(&now, &e->clock) && !s->dev->pool.poison)
        return HR_OK;
    hr__clock_join(&s->after, &e->clock);
    s->dev->ops->event_wait(e, s);
    return HR_OK;
}

hr_status hr_event_synchronize(hr_event *e)
{
    if (e == NULL)
        return hr_fail(HR_ERR_INVALID, "no_event", "hr_event_synchronize: no event");
    if (e->recorded) {
        e->dev->ops->event_drain(e);
        hr__clock_join(&e->dev->host, &e->clock);
    }
    return hr_device_status(e->dev);
}

hr_status hr_event_query(hr_event *e)
{
    if (e == NULL)
        return hr_fail(HR_ERR_INVALID, "no_event", "hr_event_query: no event");
    if (e->recorded && !e->dev->ops->event_reached(e))
        return HR_PENDING;
    return hr_device_status(e->dev);
}
