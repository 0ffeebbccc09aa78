/* The front of native launches; see native_launch.h. */
#include "device/native_launch.h"

#include "device/device_ops.h"

bool hr__device_is_native(const hr_device *dev)
{
    return dev->ops->launch_native != NULL;
}

hr_status hr__launch_native(hr_stream *s, const hr__native_launch *n)
{
    if (s == NULL || n->name == NULL || n->enqueue == NULL)
        return hr_fail(HR_ERR_INVALID, "launch", "native launch '%s': no %s",
                       n->name ? n->name : "",
                       s == NULL         ? "stream"
                       : n->name == NULL ? "name"
                                         : "function");
    if (!hr__device_is_native(s->dev))
        return hr_fail(HR_ERR_UNSUPPORTED, "no_native",
                       "native launch '%s': a '%s' device runs host kernels only",
                       n->name, s->dev->ops->name);
    if (s->dev->check)
        hr__check_launch(s->dev->check, s, n->name, n->operands, n->n_operands);
    s->issued++;
    s->dev->ops->launch_native(s, n);
    if (s->dev->blocking)
        s->dev->ops->stream_drain(s);
    return HR_OK;
}
