/* Collectives of a group of one where kernels of the host cannot reach the device's memory (a GPU's): there
 * is nobody to meet, and all that is left is a copy on the stream, which needs no engine. */
#ifndef HR_GROUP_ALONE_H
#define HR_GROUP_ALONE_H
#include "group/group_ops.h"

/* Can `c` be done so? Rows cannot: where they lie is known by device memory alone. */
bool hr__alone_takes(const hr_group *g, const hr__call *c);
/* As the engine's `collective`. */
hr_status hr__alone_collective(hr_group *g, const hr__call *c, hr_stream *s);

#endif
