/* See alone.h. A reduction of one source is that source, to the bit. */
#include "group/alone.h"
#include "base/try.h"
#include "device/device_ops.h" /* hr_device.apart */

bool hr__alone_takes(const hr_group *g, const hr__call *c)
{
    return g->size == 1 && g->dev->apart && c->kind != HR__ROWS_STORE &&
           c->kind != HR__ROWS_LOAD;
}

static hr_status check_parts(const hr_group *g, const hr__call *c)
{
    if (c->send_counts[0] == c->recv_counts[0])
        return HR_OK;
    return hr_fail(HR_ERR_MISMATCH, "count_mismatch",
                   "%s: rank %d sends %lld elements to itself, but expects %lld",
                   hr__op_name(c->kind), g->global[0], (long long)c->send_counts[0],
                   (long long)c->recv_counts[0]);
}

hr_status hr__alone_collective(hr_group *g, const hr__call *c, hr_stream *s)
{
    int64_t count = c->kind == HR__ALL_TO_ALL ? c->send_counts[0] : c->count;
    if (c->kind == HR__ALL_TO_ALL)
        HR_TRY(check_parts(g, c));
    if (g->ops->status(g) < 0)
        return HR_OK;
    if (c->kind == HR__BARRIER || c->kind == HR__BROADCAST || c->recv == c->send ||
        count == 0) /* it has its place on the stream all the same */
        return hr_stream_touch(s, hr__op_name(c->kind), NULL, 0);
    return hr_copy(s, c->recv, c->send, (size_t)count * c->element_bytes);
}
