/* See group_spans.h. */
#include "group/group_spans.h"
#include "headrace/device.h"

void hr__op_spans(const char *op, int64_t arrived_ns, int64_t last_ns)
{
    hr_lane *lane = hr_kernel_lane();
    if (!lane)
        return;
    hr_span span = {.name = op, .layer = -1, .microbatch = -1, .dir = HR_DIR_NONE};
    if (last_ns > arrived_ns) {
        span.kind = HR_SPAN_PEERS;
        span.begin_ns = arrived_ns;
        span.end_ns = last_ns;
        hr_lane_add(lane, &span);
    }
    span.kind = HR_SPAN_TRANSFER;
    span.begin_ns = last_ns;
    span.end_ns = hr_now_ns();
    hr_lane_add(lane, &span);
}
