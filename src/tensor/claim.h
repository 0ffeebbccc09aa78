/* What the rooms above do to tensors that they hold alone. For src/autograd, src/pipeline and src/plan. */
#ifndef HR_CLAIM_H
#define HR_CLAIM_H
#include "headrace/tensor.h"

/* hr_tensor_drop() that the probe does not see: of copies that are the library's own. */
void hr__tensor_unclaim(hr_tensor *t, hr_stream *s);

/* Make a view a tensor without base, in place: what hr_make_viewless() gives a new tensor for. False, and
 * nothing done, if somebody else has a handle. */
bool hr__tensor_forget_base(hr_tensor *t);

#endif
