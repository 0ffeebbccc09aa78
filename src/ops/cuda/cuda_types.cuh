/* Kernels for either type of number: a template of what a thread does, and two kernels around it. T is the type
 * of what is hr__real in ops/kernels.h.
 *
 *     template <class T> HR_INLINE void add(T *out, const T *a, const T *b, int64_t count) { ... }
 *     HR_KERNELS(hr_add, add, (T *out, const T *a, const T *b, int64_t count), (out, a, b, count))
 *
 * makes hr_add for f32, and hr_add_bf16. Numbers are read by hr__f32(), computed with as f32, and rounded by
 * hr__put(). */
#ifndef HR_CUDA_TYPES
#define HR_CUDA_TYPES
#include "device/cuda/cuda_code.cuh"
#include "tensor/bf16.h"

#define HR_KERNELS(name, body, params, args)                                           \
    HR_KERNEL_FOR(float, name, body, params, args)                                     \
    HR_KERNEL_FOR(hr__bf16, name##_bf16, body, params, args)

/* T is a name of the kernel's own. */
#define HR_KERNEL_FOR(type, name, body, params, args)                                  \
    namespace of_##name                                                                \
    {                                                                                  \
    typedef type T;                                                                    \
    HR_KERNEL name params                                                              \
    {                                                                                  \
        body args;                                                                     \
    }                                                                                  \
    }                                                                                  \
    using of_##name::name;

#endif
