/* Spans, lanes and failures of kernels; see kernel_spans.h. */
#include "device/kernel_spans.h"

#include "device/device_ops.h"

static _Thread_local hr_lane *kernel_lane;

hr_lane *hr_kernel_lane(void)
{
    return kernel_lane;
}

void hr__kernel_lane_set(hr_lane *lane)
{
    kernel_lane = lane;
}

static int16_t narrow(int v)
{
    return v < -1 || v > INT16_MAX ? -1 : (int16_t)v;
}

void hr__span_add(hr_lane *lane, hr_span_kind kind, const char *name,
                  const hr_mark *mark, int64_t begin_ns, int64_t end_ns)
{
    hr_span span = {.begin_ns = begin_ns,
                    .end_ns = end_ns,
                    .name = name,
                    .layer = narrow(mark->layer),
                    .microbatch = narrow(mark->microbatch),
                    .kind = (uint8_t)kind,
                    .dir = (uint8_t)mark->dir};
    hr_lane_add(lane, &span);
}

void hr__node_close(hr__open_node *open, hr_lane *lane)
{
    if (open->node)
        hr__span_add(lane, HR_SPAN_NODE, open->mark.name, &open->mark, open->begin_ns,
                     open->end_ns);
    open->node = 0;
}

void hr__node_enter(hr__open_node *open, hr_lane *lane, uint64_t node,
                    const hr_mark *mark, int64_t now)
{
    if (node == open->node)
        return;
    hr__node_close(open, lane);
    *open = (hr__open_node){node, *mark, now, now};
}

void hr__launch_failed(hr_stream *s, const char *name, const hr_mark *mark,
                       hr_status st)
{
    char said[384], node[80] = "", microbatch[32] = "";
    const char *reason = hr_last_reason();
    const char *text = hr_last_error();
    snprintf(said, sizeof said, "%s", text[0] ? text : hr_status_text(st));
    if (mark->name)
        snprintf(node, sizeof node, ", node '%.60s'", mark->name);
    if (mark->microbatch >= 0)
        snprintf(microbatch, sizeof microbatch, ", microbatch %d", mark->microbatch);
    hr_fail(st, reason, "rank %d, stream '%s'%s%s, launch '%s': %s", s->dev->rank,
            s->name, node, microbatch, name, said);
    hr_device_fail(s->dev, st);
}
