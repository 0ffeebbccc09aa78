/* What every backend does around a host kernel: spans of launches and nodes for a timeline, the lane
 * that the kernel may ask for, the words of a failure. */
#ifndef HR_KERNEL_SPANS_H
#define HR_KERNEL_SPANS_H
#include "headrace/device.h"

/* The node that launches of a stream ran for last, and whose span is not in the lane yet. */
typedef struct hr__open_node {
    uint64_t node; /* 0: none */
    hr_mark mark;
    int64_t begin_ns, end_ns;
} hr__open_node;

/* Nothing queued says that a node is over: the first launch of another one does, or who finds the
 * stream empty. `node` 0 is a launch of none. */
void hr__node_enter(hr__open_node *open, hr_lane *lane, uint64_t node,
                    const hr_mark *mark, int64_t now);
void hr__node_close(hr__open_node *open, hr_lane *lane);

void hr__span_add(hr_lane *lane, hr_span_kind kind, const char *name,
                  const hr_mark *mark, int64_t begin_ns, int64_t end_ns);

/* What hr_kernel_lane() says on this thread. */
void hr__kernel_lane_set(hr_lane *lane);

/* A launch of `s` has failed with the calling thread's last error, which says where from now on; the
 * device fails with it. */
void hr__launch_failed(hr_stream *s, const char *name, const hr_mark *mark,
                       hr_status st);

#endif
