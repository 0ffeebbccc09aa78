/* What an engine's operation adds to the timeline. */
#ifndef HR_GROUP_SPANS_H
#define HR_GROUP_SPANS_H
#include <stdint.h>

/* On the lane of the kernel that calls, if it has one: waiting for peers from this rank's arrival to the
 * last member's, the transfer from there to now. `op` is a literal. */
void hr__op_spans(const char *op, int64_t arrived_ns, int64_t last_ns);

#endif
