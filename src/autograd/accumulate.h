/* Sums of gradients, launched on the current stream. They are f32 or bf16, computed in f32. */
#ifndef HR_ACCUMULATE_H
#define HR_ACCUMULATE_H
#include "headrace/autograd.h"

/* Put `g` into *slot, or add it to what is there: in place where nobody else can see it. The sum is bf16 where
 * both are, else f32. Takes `g`, on failure too. */
hr_status hr__grad_deposit(hr_tensor **slot, hr_tensor *g);

/* *g, which is taken, becomes one of `type`: itself, or converted. NULL after an error. */
hr_status hr__grad_as(hr_tensor **g, hr_dtype type);

/* Add `g` to the leaf's gradient in place, in that one's type; where there is none, `g` becomes it, or a copy if
 * somebody else has a claim on its bytes and the leaf may not share them. Takes `g`, on failure
 * too. */
hr_status hr__grad_accumulate(hr_tensor *leaf, hr_tensor *g);

/* The gradient of a root for which none was given. */
hr_status hr__grad_ones(const hr_tensor *root, hr_tensor **out);

#endif
