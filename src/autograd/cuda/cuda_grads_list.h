/* The kernels of cuda_grads.cu. */
#ifndef HR_CUDA_GRADS_LIST_H
#define HR_CUDA_GRADS_LIST_H

#define HR__CUDA_GRADS_MAP(X)                                                          \
    X(GRAD_ADD, hr_grad_add)                                                           \
    X(GRAD_MIX, hr_grad_mix)                                                           \
    X(GRAD_ONE, hr_grad_one)

#endif
