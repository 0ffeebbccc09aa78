/* Kernels of autograd: sums of gradients, and the gradient of a loss. */
#include "device/cuda/cuda_code.cuh"
#include "tensor/bf16.h"

HR_KERNEL hr_grad_add(float *dst, const float *a, const float *b, int64_t n)
{
    for (int64_t i = hr_first(); i < n; i += hr_stride())
        dst[i] = a[i] + b[i];
}

HR_INLINE float number(const void *x, int bf16, int64_t i)
{
    return bf16 ? hr__f32(((const hr__bf16 *)x)[i]) : ((const float *)x)[i];
}

/* Of any types; b may be NULL. */
HR_KERNEL hr_grad_mix(void *dst, const void *a, const void *b, int64_t n, int dst_bf16,
                      int a_bf16, int b_bf16)
{
    for (int64_t i = hr_first(); i < n; i += hr_stride()) {
        float sum = number(a, a_bf16, i) + (b ? number(b, b_bf16, i) : 0);
        if (dst_bf16)
            hr__put((hr__bf16 *)dst + i, sum);
        else
            hr__put((float *)dst + i, sum);
    }
}

HR_KERNEL hr_grad_one(float *dst, int64_t n)
{
    for (int64_t i = hr_first(); i < n; i += hr_stride())
        dst[i] = 1.0F;
}
