/* Kernels of moe: they read counts where these lie, on the device. Letters as in moe_kernels.h. */
#include "device/cuda/cuda_code.cuh"
#include "moe/moe_kernels.h"

/* A block takes the rows from rank y for local expert x. */
HR_KERNEL hr_moe_map(hr__map_args a)
{
    int32_t arrived = 0, sorted = 0;
    int32_t l = (int32_t)blockIdx.x, p = (int32_t)blockIdx.y;
    for (int32_t rank = 0; rank < a.ranks; rank++)
        for (int32_t k = 0; k < a.local; k++) {
            int32_t rows = a.counts[(int64_t)rank * a.experts + a.first + k];
            arrived += rank < p || (rank == p && k < l) ? rows : 0;
            sorted += k < l || (k == l && rank < p) ? rows : 0;
        }
    int32_t rows = a.counts[(int64_t)p * a.experts + a.first + l];
    for (int32_t i = (int32_t)threadIdx.x; i < rows; i += HR_THREADS) {
        a.source[sorted + i] = arrived + i;
        a.slot[arrived + i] = sorted + i;
    }
}

/* Rows for expert `e` from all ranks. */
HR_INLINE int64_t rows_for(const hr__limits_args &a, int32_t e)
{
    int64_t rows = 0;
    for (int32_t p = 0; p < a.ranks; p++)
        rows += a.counts[(int64_t)p * a.experts + e];
    return rows;
}

/* One block; a warp takes a rank, then the next. The ranks' needs are noted in their order. */
HR_KERNEL hr_moe_limits(hr__limits_args a)
{
    __shared__ int64_t needs[HR_WARPS];
    for (int32_t begin = 0; begin < a.ranks; begin += HR_WARPS) {
        int32_t r = begin + hr_warp();
        int64_t need = 0;
        for (int32_t l = hr_lane(); r < a.ranks && l < a.local; l += HR_WARP)
            need += rows_for(a, r * a.local + l);
        need = hr_warp_sum(need);
        if (hr_lane() == 0)
            needs[hr_warp()] = need;
        __syncthreads();
        for (int32_t w = 0; threadIdx.x == 0 && w < HR_WARPS; w++) {
            if (needs[w] <= a.capacity || needs[w] <= a.worst->needed)
                continue;
            a.worst->needed = needs[w];
            a.worst->layer = a.layer;
            a.worst->microbatch = a.microbatch;
            a.worst->rank = begin + w;
        }
        __syncthreads();
        if (begin + HR_WARPS > a.worst->rank && a.worst->rank >= begin &&
            a.worst->needed == needs[a.worst->rank - begin])
            for (int32_t l = (int32_t)threadIdx.x; l < a.local; l += HR_THREADS)
                a.worst->counts[l] = (int32_t)rows_for(a, a.worst->rank * a.local + l);
        __syncthreads();
    }
    if (threadIdx.x > 0)
        return;
    int64_t end = 0;
    a.limits[0] = 0;
    for (int32_t l = 0; l < a.local; l++) {
        end += rows_for(a, a.rank * a.local + l);
        a.limits[l + 1] = end < a.capacity ? end : a.capacity;
    }
}

template <class T>
HR_INLINE void live(T *to, const T *from, const int64_t *rows, int64_t width)
{
    int64_t count = *rows * width;
    for (int64_t i = hr_first(); i < count; i += hr_stride())
        to[i] = from[i];
}

HR_KERNEL hr_moe_live(float *to, const float *from, const int64_t *rows, int64_t width)
{
    live(to, from, rows, width);
}

/* Of numbers of two bytes. */
HR_KERNEL hr_moe_live_half(uint16_t *to, const uint16_t *from, const int64_t *rows,
                           int64_t width)
{
    live(to, from, rows, width);
}
