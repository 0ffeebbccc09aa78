/* Reductions in rank order: out[i] = ((in[0][i] + in[1][i]) + in[2][i]) + ...
 * The order per element is the whole contract: any cut of the elements gives the same bits. */
#ifndef HR_REDUCE_H
#define HR_REDUCE_H
#include "headrace/group.h"

bool hr__reduce_takes(hr_dtype t);

/* `out` may be one of `in`, exactly. NaN wins over everything in MAX and MIN. */
void hr__reduce(hr_dtype t, hr_reduce op, void *out, const void *const *in, int n,
                int64_t count);

#endif
