/* Streams that another engine made, and work that it puts on them without us.
 *
 * What we do not see has no position. So a record on such a stream counts as a launch of its own
 * (hr_event_record), behind all that is there by then; and work that touches our memory is declared. */
#include "base/try.h"
#include "device/device_ops.h"
#include "trace/probe.h"

hr_status hr_stream_wrap(hr_device *dev, const hr_stream_wrap_opts *opts,
                         hr_stream **out)
{
    if (dev == NULL || out == NULL || opts == NULL)
        return hr_fail(HR_ERR_INVALID, "no_device", "hr_stream_wrap: no %s",
                       dev == NULL    ? "device"
                       : opts == NULL ? "stream to wrap"
                                      : "place for the stream");
    *out = NULL;
    HR_CHECK_OPTS(opts, hr_stream_wrap_opts);
    if (dev->ops->stream_wrap == NULL)
        return hr_fail(HR_ERR_UNSUPPORTED, "no_foreign_streams",
                       "a '%s' device takes no foreign streams", dev->ops->name);
    HR_TRY(hr__stream_wrap(dev, opts->name ? opts->name : "foreign", opts, out));
    HR_PROBE(.kind = HR_PROBE_NEW_STREAM, .a = *out, .value = (*out)->priority);
    return HR_OK;
}

void *hr_stream_native(const hr_stream *s)
{
    return s && s->dev->ops->stream_native ? s->dev->ops->stream_native(s) : NULL;
}

hr_status hr_stream_touch(hr_stream *s, const char *name, const hr_operand *operands,
                          int n_operands)
{
    if (s == NULL || name == NULL || n_operands < 0 || (!operands && n_operands))
        return hr_fail(HR_ERR_INVALID, "touch", "hr_stream_touch '%s': no %s",
                       name ? name : "",
                       s == NULL      ? "stream"
                       : name == NULL ? "name"
                                      : "operands");
    if (s->dev->check)
        hr__check_launch(s->dev->check, s, name, operands, n_operands);
    s->issued++;
    return HR_OK;
}
