/* The kernels of autograd: sums of gradients, and the gradient of a loss. */
#ifndef HR_GRAD_KERNELS_H
#define HR_GRAD_KERNELS_H
#include "device/kernel.h"

/* dst = a + b; ones: dst = 1 */
typedef struct hr__grad_args {
    float *dst;
    const float *a, *b;
    int64_t n;
} hr__grad_args;

/* CUDA forms, where they are built (cuda/launch_grads.c). */
hr_status hr__cuda_grad_add(hr_stream *s, const void *args);
hr_status hr__cuda_grad_one(hr_stream *s, const void *args);

#endif
