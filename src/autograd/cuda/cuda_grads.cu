/* Kernels of autograd: sums of gradients, and the gradient of a loss. */
#include "device/cuda/cuda_code.cuh"

HR_KERNEL hr_grad_add(float *dst, const float *a, const float *b, int64_t n)
{
    for (int64_t i = hr_first(); i < n; i += hr_stride())
        dst[i] = a[i] + b[i];
}

HR_KERNEL hr_grad_one(float *dst, int64_t n)
{
    for (int64_t i = hr_first(); i < n; i += hr_stride())
        dst[i] = 1.0F;
}
