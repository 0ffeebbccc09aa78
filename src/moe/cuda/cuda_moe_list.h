/* The kernels of cuda_moe.cu. */
#ifndef HR_CUDA_MOE_LIST_H
#define HR_CUDA_MOE_LIST_H

#define HR__CUDA_MOE_MAP(X)                                                            \
    X(MOE_MAP, hr_moe_map)                                                             \
    X(MOE_LIMITS, hr_moe_limits)                                                       \
    X(MOE_LIVE, hr_moe_live)                                                           \
    X(MOE_LIVE_HALF, hr_moe_live_half)

#endif
