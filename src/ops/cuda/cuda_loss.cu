/* Kernels of the loss and the optimiser: cross entropy, sum of squares, AdamW. N rows, V vocabulary. */
#include "ops/cuda/cuda_types.cuh"
#include "ops/formulas.h"

/* A block takes a row: log of the sum of exponentials. */
template <class T>
HR_INLINE void log_sum_exp(float *lse, const T *x, const int32_t *targets,
                           int64_t width, const hr__index_rule &rule)
{
    __shared__ float room[HR_WARPS];
    int64_t row = blockIdx.x;
    const T *mine = x + row * width;
    float most = -INFINITY, sum = 0;
    for (int64_t c = threadIdx.x; c < width; c += HR_THREADS)
        most = fmaxf(most, hr__f32(mine[c]));
    most = hr_block_max(most, room);
    for (int64_t c = threadIdx.x; c < width; c += HR_THREADS)
        sum += expf(hr__f32(mine[c]) - most);
    sum = hr_block_sum(sum, room);
    if (threadIdx.x > 0)
        return;
    lse[row] = most + logf(sum);
    hr_index_ok(rule, row, targets[row]);
}
HR_KERNELS(hr_log_sum_exp, log_sum_exp,
           (float *lse, const T *x, const int32_t *targets, int64_t width,
            hr__index_rule rule),
           (lse, x, targets, width, rule))

/* One block: scale * the sum over rows, in double. */
template <class T>
HR_INLINE void loss_sum(float *loss, const float *lse, const T *x,
                        const int32_t *targets, int64_t n, int64_t width, float scale)
{
    __shared__ double room[HR_WARPS];
    double sum = 0;
    for (int64_t row = threadIdx.x; row < n; row += HR_THREADS)
        if (targets[row] >= 0 && targets[row] < width)
            sum += (double)lse[row] - (double)hr__f32(x[row * width + targets[row]]);
    sum = hr_block_sum(sum, room);
    if (threadIdx.x == 0)
        loss[0] = (float)(sum * (double)scale);
}
HR_KERNELS(hr_loss_sum, loss_sum,
           (float *loss, const float *lse, const T *x, const int32_t *targets,
            int64_t n, int64_t width, float scale),
           (loss, lse, x, targets, n, width, scale))

/* dx = factor * (softmax(x) - one at the target); zero rows for target -1. */
template <class T>
HR_INLINE void cross_entropy_back(T *dx, const T *x, const float *lse,
                                  const int32_t *targets, const float *dloss,
                                  float scale, int64_t width)
{
    int64_t row = blockIdx.x;
    int32_t target = targets[row];
    float factor = dloss[0] * scale, shift = lse[row];
    x += row * width;
    dx += row * width;
    for (int64_t c = threadIdx.x; c < width; c += HR_THREADS) {
        float d = factor * expf(hr__f32(x[c]) - shift);
        hr__put(dx + c, target < 0 ? 0 : c == target ? d - factor : d);
    }
}
HR_KERNELS(hr_cross_entropy_back, cross_entropy_back,
           (T *dx, const T *x, const float *lse, const int32_t *targets,
            const float *dloss, float scale, int64_t width),
           (dx, x, lse, targets, dloss, scale, width))

/* ---- the optimiser ---- */
/* A block sums a part, in double. */
HR_KERNEL hr_sum_squares(double *partial, const float *x, int64_t count, int64_t part)
{
    __shared__ double room[HR_WARPS];
    int64_t begin = (int64_t)blockIdx.x * part;
    int64_t end = begin + part < count ? begin + part : count;
    double sum = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += HR_THREADS)
        sum += (double)x[i] * (double)x[i];
    sum = hr_block_sum(sum, room);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

/* One block: *to += the sum of all parts. */
HR_KERNEL hr_sum_parts(double *to, const double *partial, int64_t parts)
{
    __shared__ double room[HR_WARPS];
    double sum = 0;
    for (int64_t i = threadIdx.x; i < parts; i += HR_THREADS)
        sum += partial[i];
    sum = hr_block_sum(sum, room);
    if (threadIdx.x == 0)
        *to += sum;
}

HR_KERNEL hr_adamw(float *w, const float *g, float *m, float *v, int64_t count,
                   hr__adamw_rate rate)
{
    for (int64_t i = hr_first(); i < count; i += hr_stride())
        w[i] = hr__adamw_weight(w[i], g[i], m + i, v + i, rate);
}
