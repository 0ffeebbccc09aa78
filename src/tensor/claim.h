/* Giving up claims on behalf of a tensor's owner. For src/tensor, src/autograd and src/pipeline. */
#ifndef HR_CLAIM_H
#define HR_CLAIM_H
#include "headrace/tensor.h"

/* hr_tensor_drop() that the probe does not see: of copies that are the library's own. */
void hr__tensor_unclaim(hr_tensor *t, hr_stream *s);

#endif
