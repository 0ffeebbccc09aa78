/* The one place of this room that looks into streams; see group_order.h. */
#include "group/group_order.h"
#include "device/device_ops.h" /* hr__stream_clock, hr_stream.issued, the checker */

hr_status hr__order_check(const hr__order *o, const hr_stream *s, const char *what)
{
    hr__clock now = hr__stream_clock(s);
    if (now.at[o->stream_id] >= o->position)
        return HR_OK;
    return hr_fail(HR_ERR_STATE, "group_streams",
                   "%s on stream '%s': no event orders it after the group's last "
                   "operation, on stream '%s'",
                   what, s->name, o->stream_name);
}

void hr__order_note(hr__order *o, const hr_stream *s)
{
    o->stream_id = s->id;
    o->position = s->issued;
    snprintf(o->stream_name, sizeof o->stream_name, "%s", s->name);
}

void hr__order_drain(const hr__order *o, hr_device *dev)
{
    hr_stream *s = o->position ? dev->streams[o->stream_id] : NULL;
    if (s) /* else there was none, or it is gone, and then it was empty */
        dev->ops->stream_drain(s);
}

bool hr__order_is_awaited(const hr_stream *s)
{
    return s->dev->ops->stream_awaited && s->dev->ops->stream_awaited(s);
}

bool hr__order_is_checked(const hr_device *dev)
{
    return dev->check != NULL;
}

hr_op_label hr__order_label(const hr_stream *s, const hr_op_label *given)
{
    hr_op_label l = *given;
    hr_mark mark;
    if (l.what || !hr__mark_recent(s, &mark))
        return l;
    l.what = mark.name;
    if (l.microbatch < 0)
        l.microbatch = mark.microbatch;
    return l;
}

void hr__order_describe(const hr_stream *s, hr__work *out)
{
    _Static_assert(sizeof out->text >= HR__WORK_TEXT, "a description fits");
    out->stream = s->id;
    out->in_node = hr__mark_recent(s, &out->mark);
    hr__check_describe(s, out->text);
}
