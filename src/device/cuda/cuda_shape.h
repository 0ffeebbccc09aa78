/* What launchers and kernels must agree about. Plain C that is C++ too. */
#ifndef HR_CUDA_SHAPE_H
#define HR_CUDA_SHAPE_H
#include "device/cuda/cuda_fault.h"

enum {
    HR_WARP = 32,
    HR_THREADS = 256, /* of a block */
    HR_WARPS = HR_THREADS / HR_WARP,
};

/* What an index may be, and where a kernel says that one is not. */
typedef struct hr__index_rule {
    hr__cuda_fault *fault;
    const char *op, *what; /* of the host */
    int64_t limit;
    int32_t least;
} hr__index_rule;

#endif
