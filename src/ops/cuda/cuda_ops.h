/* What the launchers of the operators' CUDA kernels share. A launcher takes the arguments of a kernel
 * (ops/kernels.h) and puts one or more kernels of the .cu files on the stream; what they need in between
 * comes from the stream's own memory, in stream order. */
#ifndef HR_CUDA_OPS_H
#define HR_CUDA_OPS_H
#include "base/try.h"
#include "device/cuda/cuda_module.h"
#include "ops/cuda/cuda_ops_list.h"
#include "ops/cuda/cuda_params.h"
#include "ops/kernels.h"

enum {
#define HR__OPS_CUDA_NUMBER(number, name) HR__CUDA_##number,
    HR__OPS_CUDA_MAP(HR__OPS_CUDA_NUMBER)
#undef HR__OPS_CUDA_NUMBER
};

extern hr__cuda_module hr__ops_cuda;

/* Launch on `s`: which, grid, addresses of the parameters. */
#define HR__RUN(s, which, grid, ...)                                                   \
    HR__CUDA_RUN((s), &hr__ops_cuda, HR__CUDA_##which, (grid), __VA_ARGS__)

/* The kernel for `type`, of those that there are for both. */
#define HR__RUN_FOR(type, s, which, grid, ...)                                         \
    HR__CUDA_RUN((s), &hr__ops_cuda, HR__CUDA_##which + ((type) == HR_BF16), (grid),   \
                 __VA_ARGS__)

#endif
