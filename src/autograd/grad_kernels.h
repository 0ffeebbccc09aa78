/* The kernels of autograd: sums of gradients, and the gradient of a loss. */
#ifndef HR_GRAD_KERNELS_H
#define HR_GRAD_KERNELS_H
#include "device/kernel.h"
#include "headrace/tensor.h" /* hr_dtype */

/* dst = a + b, or a where b is NULL, each f32 or bf16; ones: dst = 1, f32 */
typedef struct hr__grad_args {
    void *dst;
    const void *a, *b;
    int64_t n;
    hr_dtype dst_type, a_type, b_type;
} hr__grad_args;

static inline bool hr__grad_is_f32(const hr__grad_args *p)
{
    return p->b && p->dst_type == HR_F32 && p->a_type == HR_F32 && p->b_type == HR_F32;
}

/* CUDA forms, where they are built (cuda/launch_grads.c). */
hr_status hr__cuda_grad_add(hr_stream *s, const void *args);
hr_status hr__cuda_grad_one(hr_stream *s, const void *args);

#endif
