/* Sums of gradients. All of it is f32, launched on the current stream. */
#ifndef HR_ACCUMULATE_H
#define HR_ACCUMULATE_H
#include "headrace/autograd.h"

/* Put `g` into *slot, or add it to what is there: in place where nobody else can see it.
 * Takes `g`, on failure too. */
hr_status hr__grad_deposit(hr_tensor **slot, hr_tensor *g);

/* Add `g` to the leaf's gradient in place; where there is none, `g` becomes it, or a copy if
 * somebody else has a claim on its bytes and the leaf may not share them. Takes `g`, on failure
 * too. */
hr_status hr__grad_accumulate(hr_tensor *leaf, hr_tensor *g);

/* The gradient of a root for which none was given. */
hr_status hr__grad_ones(const hr_tensor *root, hr_tensor **out);

#endif
