/* CUDA forms of autograd's kernels, which are in cuda_grads.cu. */
#include "autograd/cuda/cuda_grads_list.h"
#include "autograd/grad_kernels.h"
#include "device/cuda/cuda_module.h"

HR__CUDA_MODULE_OF_ONE(module, cuda_grads, HR__CUDA_GRADS_MAP)

hr_status hr__cuda_grad_add(hr_stream *s, const void *args)
{
    hr__grad_args a = *(const hr__grad_args *)args;
    int dst = a.dst_type == HR_BF16, left = a.a_type == HR_BF16,
        right = a.b_type == HR_BF16;
    if (hr__grad_is_f32(&a))
        return HR__CUDA_RUN(s, &module, GRAD_ADD, hr__cuda_flat(a.n), &a.dst, &a.a,
                            &a.b, &a.n);
    return HR__CUDA_RUN(s, &module, GRAD_MIX, hr__cuda_flat(a.n), &a.dst, &a.a, &a.b,
                        &a.n, &dst, &left, &right);
}

hr_status hr__cuda_grad_one(hr_stream *s, const void *args)
{
    hr__grad_args a = *(const hr__grad_args *)args;
    return HR__CUDA_RUN(s, &module, GRAD_ONE, hr__cuda_flat(a.n), &a.dst, &a.n);
}
