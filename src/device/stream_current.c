/* Which device and which stream the calling thread works on. */
#include "device/device_ops.h"
#include "trace/probe.h"

static _Thread_local hr_device *current_device;
static _Thread_local hr_stream *current_stream; /* NULL: the device's default one */

void hr_device_set_current(hr_device *dev)
{
    current_device = dev;
    current_stream = NULL;
}

hr_device *hr_device_current(void)
{
    return current_device;
}

hr_stream *hr_stream_current(void)
{
    if (current_stream)
        return current_stream;
    return hr_device_default_stream(current_device);
}

/* A stream brings its device along, so that the two never disagree. */
static void make_current(hr_stream *s)
{
    current_stream = s;
    if (s)
        current_device = s->dev;
}

void hr_stream_enter(hr_stream *s, hr_stream **previous)
{
    if (previous)
        *previous = hr_stream_current();
    if (s == NULL)
        return;
    HR_PROBE(.kind = HR_PROBE_ENTER, .a = s);
    make_current(s);
}

void hr_stream_exit(hr_stream *s, hr_stream *previous)
{
    if (s == NULL)
        return;
    HR_PROBE(.kind = HR_PROBE_EXIT, .a = s);
    make_current(previous);
}

void hr__current_forget_device(const hr_device *dev)
{
    if (current_device == dev)
        hr_device_set_current(NULL);
}

void hr__current_forget_stream(const hr_stream *s)
{
    if (current_stream == s)
        current_stream = NULL;
}
