/* Gradients at a node's border: for copies that a node or a plan detached, whose gradient is read by
 * whoever comes next and written by nobody. For src/autograd, src/pipeline and src/plan. */
#ifndef HR_LEND_GRAD_H
#define HR_LEND_GRAD_H
#include "headrace/autograd.h"

/* The gradient of leaf `t` may share the bytes of what backward brings, by a claim of its own, instead of
 * being a copy of them; what is added later goes into fresh memory. Bytes that are foreign or
 * symmetric are copied as ever: their owner uses them again. */
void hr__grad_may_share(hr_tensor *t);

#endif
