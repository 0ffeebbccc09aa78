/* What all .cu files share. They hold `extern "C"` kernels with plain parameters, found by name in a
 * fatbin (cuda_module.h), and include neither the CUDA runtime nor the host's part of Headrace. The tests
 * compile the same text for the processor (HR_SIMT). No sum depends on timing: no atomics on floats.
 *
 * Blocks are HR_THREADS long. In kernels that go by row a warp takes a row, lanes its columns. */
#ifndef HR_CUDA_CODE
#define HR_CUDA_CODE 1 /* formulas.h asks */
#ifdef HR_SIMT
#include "simt/simt_shim.hpp"
#else
#define HR_DYNAMIC_SHARED(T, at) extern __shared__ T at[]
#endif
#include "device/cuda/cuda_fault.h"
#include "device/cuda/cuda_shape.h"

#define HR_KERNEL extern "C" __global__ void __launch_bounds__(HR_THREADS, 1)
#define HR_INLINE static __device__ __forceinline__

enum : unsigned { HR_ALL_LANES = 0xffffffffU };

HR_INLINE int hr_lane()
{
    return (int)(threadIdx.x % HR_WARP);
}

HR_INLINE int hr_warp()
{
    return (int)(threadIdx.x / HR_WARP);
}

/* The row of this warp. */
HR_INLINE int64_t hr_row()
{
    return (int64_t)blockIdx.x * HR_WARPS + hr_warp();
}

/* for (i = hr_first(); i < count; i += hr_stride()): all elements, by as many threads as there are */
HR_INLINE int64_t hr_first()
{
    return (int64_t)blockIdx.x * HR_THREADS + threadIdx.x;
}

HR_INLINE int64_t hr_stride()
{
    return (int64_t)gridDim.x * HR_THREADS;
}

/* Sums and maxima of a warp, the same in all lanes, in one order. */
template <class T> HR_INLINE T hr_warp_sum(T v)
{
    for (int flip = HR_WARP / 2; flip > 0; flip /= 2)
        v += __shfl_xor_sync(HR_ALL_LANES, v, flip);
    return v;
}

HR_INLINE float hr_warp_max(float v)
{
    for (int flip = HR_WARP / 2; flip > 0; flip /= 2)
        v = fmaxf(v, __shfl_xor_sync(HR_ALL_LANES, v, flip));
    return v;
}

/* Of a block; `room` is shared memory, and free again once all threads have come past. */
template <class T> HR_INLINE T hr_block_sum(T v, T *room)
{
    v = hr_warp_sum(v);
    if (hr_lane() == 0)
        room[hr_warp()] = v;
    __syncthreads();
    T sum = room[0];
    for (int w = 1; w < HR_WARPS; w++)
        sum += room[w];
    __syncthreads();
    return sum;
}

HR_INLINE float hr_block_max(float v, float *room)
{
    v = hr_warp_max(v);
    if (hr_lane() == 0)
        room[hr_warp()] = v;
    __syncthreads();
    float most = room[0];
    for (int w = 1; w < HR_WARPS; w++)
        most = fmaxf(most, room[w]);
    __syncthreads();
    return most;
}

HR_INLINE float hr_sigmoid(float x)
{
    return 1.0F / (1.0F + expf(-x));
}

/* Is index[at] = value one that may be used? The first that is not is noted for the host. */
HR_INLINE bool hr_index_ok(const hr__index_rule &rule, int64_t at, int64_t value)
{
    if (value >= rule.least && value < rule.limit)
        return true;
    if (rule.fault && atomicCAS((int *)&rule.fault->set, 0, 1) == 0) {
        rule.fault->least = rule.least;
        rule.fault->op = rule.op;
        rule.fault->what = rule.what;
        rule.fault->at = at;
        rule.fault->value = value;
        rule.fault->limit = rule.limit;
        __threadfence_system();
        *(volatile int32_t *)&rule.fault->set = 2;
    }
    return false;
}
#endif
