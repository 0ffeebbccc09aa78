/* Kernels of the router, and of sorting copies by expert. N tokens, E experts, K choices a token. */
#include "ops/cuda/cuda_types.cuh"
#include "ops/formulas.h"

template <class T>
HR_INLINE void softmax(float *p, const T *x, int64_t n, int64_t width)
{
    int64_t row = hr_row();
    if (row >= n)
        return;
    float most = -INFINITY, sum = 0;
    x += row * width;
    p += row * width;
    for (int64_t c = hr_lane(); c < width; c += HR_WARP)
        most = fmaxf(most, hr__f32(x[c]));
    most = hr_warp_max(most);
    for (int64_t c = hr_lane(); c < width; c += HR_WARP) {
        p[c] = expf(hr__f32(x[c]) - most);
        sum += p[c];
    }
    float factor = 1.0F / hr_warp_sum(sum);
    for (int64_t c = hr_lane(); c < width; c += HR_WARP)
        p[c] *= factor;
}
HR_KERNELS(hr_softmax, softmax, (float *p, const T *x, int64_t n, int64_t width),
           (p, x, n, width))

HR_INLINE bool is_chosen(const int32_t *index, int64_t k, int64_t expert)
{
    bool taken = false;
    for (int64_t j = 0; j < k; j++)
        taken |= index[j] == expert;
    return taken;
}

/* Of two candidates the greater, the lower expert among equals; -1 is none. */
HR_INLINE bool is_better(float p, int32_t expert, float than, int32_t best)
{
    if (expert < 0 || best < 0)
        return best < 0 && expert >= 0;
    return p > than || (!(than > p) && expert < best);
}

HR_INLINE float chosen_sum(const float *p, const int32_t *index, int64_t top_k)
{
    float sum = 0;
    for (int64_t k = 0; k < top_k; k++)
        sum += p[index[k]];
    return sum;
}

/* The K greatest of each token's probabilities, one after the other. */
HR_KERNEL hr_choose(float *probs, int32_t *index, const float *p, int64_t n,
                    int64_t experts, int64_t top_k, int normalize)
{
    int64_t row = hr_row();
    if (row >= n)
        return;
    p += row * experts;
    index += row * top_k;
    for (int64_t k = 0; k < top_k; k++) {
        float most = 0;
        int32_t best = -1;
        for (int64_t e = hr_lane(); e < experts; e += HR_WARP)
            if (!is_chosen(index, k, e) && is_better(p[e], (int32_t)e, most, best)) {
                most = p[e];
                best = (int32_t)e;
            }
        for (int flip = HR_WARP / 2; flip > 0; flip /= 2) {
            float other = __shfl_xor_sync(HR_ALL_LANES, most, flip);
            int32_t expert = __shfl_xor_sync(HR_ALL_LANES, best, flip);
            if (is_better(other, expert, most, best)) {
                most = other;
                best = expert;
            }
        }
        if (hr_lane() == 0)
            index[k] = best;
        __syncwarp();
    }
    float sum = normalize ? chosen_sum(p, index, top_k) : 1;
    for (int64_t k = hr_lane(); k < top_k; k += HR_WARP)
        probs[row * top_k + k] = p[index[k]] / sum;
}

/* ---- the load-balance loss ---- */
/* A block takes a sequence, a thread an expert: what the gradient of every p_te is, and the loss; where
 * they are wanted. */
HR_KERNEL hr_balance(float *by_expert, float *losses, const float *p,
                     const int32_t *index, int64_t experts, int64_t top_k,
                     int64_t seq_len, float aux_scale)
{
    __shared__ double room[HR_WARPS];
    int64_t sequence = blockIdx.x;
    double sum = 0;
    index += sequence * seq_len * top_k;
    for (int64_t e = threadIdx.x; e < experts; e += HR_THREADS) {
        int64_t count = 0;
        for (int64_t i = 0; i < seq_len * top_k; i++)
            count += index[i] == e;
        float grad =
            hr__balance_grad(aux_scale, experts, top_k, seq_len, (double)count);
        if (by_expert)
            by_expert[sequence * experts + e] = grad;
        for (int64_t t = 0; losses && t < seq_len; t++)
            sum += (double)grad * (double)p[(sequence * seq_len + t) * experts + e];
    }
    sum = hr_block_sum(sum, room);
    if (losses && threadIdx.x == 0)
        losses[sequence] = (float)sum;
}

/* ---- backward ---- */
/* What reaches the probability of an expert: from the loss, and as one of the K chosen. */
HR_INLINE float expert_grad(float start, int64_t expert, const int32_t *index,
                            const float *dprobs, int64_t top_k, float mean, float sum)
{
    for (int64_t k = 0; k < top_k; k++)
        if (index[k] == expert)
            start += (dprobs[k] - mean) / sum;
    return start;
}

/* `start` (may be NULL) is what the loss gives each expert, by sequence. */
template <class T>
HR_INLINE void router_back(T *dlogits, const float *p, const int32_t *index,
                           const float *dprobs, const float *start, int64_t n,
                           int64_t experts, int64_t top_k, int64_t seq_len,
                           int normalize)
{
    int64_t row = hr_row();
    if (row >= n)
        return;
    float sum = 1, mean = 0, dot = 0;
    p += row * experts;
    index += row * top_k;
    dprobs += row * top_k;
    dlogits += row * experts;
    if (normalize) {
        sum = chosen_sum(p, index, top_k);
        for (int64_t k = 0; k < top_k; k++)
            mean += dprobs[k] * p[index[k]] / sum;
    }
    if (start)
        start += row / seq_len * experts;
    for (int64_t e = hr_lane(); e < experts; e += HR_WARP)
        dot += p[e] *
               expert_grad(start ? start[e] : 0, e, index, dprobs, top_k, mean, sum);
    dot = hr_warp_sum(dot);
    for (int64_t e = hr_lane(); e < experts; e += HR_WARP) {
        float d = expert_grad(start ? start[e] : 0, e, index, dprobs, top_k, mean, sum);
        hr__put(dlogits + e, p[e] * (d - dot));
    }
}
HR_KERNELS(hr_router_back, router_back,
           (T *dlogits, const float *p, const int32_t *index, const float *dprobs,
            const float *start, int64_t n, int64_t experts, int64_t top_k,
            int64_t seq_len, int normalize),
           (dlogits, p, index, dprobs, start, n, experts, top_k, seq_len, normalize))

/* ---- sorting ---- */
/* How many threads before this one, and how many of the block, say yes. */
HR_INLINE int block_rank(bool yes, int *room, int *all)
{
    unsigned in_warp = __ballot_sync(HR_ALL_LANES, yes);
    int before = __popc(in_warp & ((1U << hr_lane()) - 1));
    if (hr_lane() == 0)
        room[hr_warp()] = __popc(in_warp);
    __syncthreads();
    *all = 0;
    for (int w = 0; w < HR_WARPS; w++) {
        before += w < hr_warp() ? room[w] : 0;
        *all += room[w];
    }
    __syncthreads();
    return before;
}

/* A block takes an expert: it counts what comes before, then numbers its copies in their order. */
HR_KERNEL hr_sort_choices(int32_t *source, int32_t *slot, int32_t *counts,
                          const int32_t *index, int64_t copies, int64_t top_k,
                          hr__index_rule rule)
{
    __shared__ int room[HR_WARPS];
    int expert = (int)blockIdx.x, below = 0, mine = 0, all;
    for (int64_t i = threadIdx.x; i < copies; i += HR_THREADS) {
        bool ok = hr_index_ok(rule, i, index[i]);
        below += ok && index[i] < expert;
        mine += ok && index[i] == expert;
    }
    int at = hr_block_sum(below, room);
    mine = hr_block_sum(mine, room);
    if (threadIdx.x == 0)
        counts[expert] = mine;
    for (int64_t begin = 0; begin < copies; begin += HR_THREADS) {
        int64_t i = begin + threadIdx.x;
        bool yes = i < copies && index[i] == expert;
        int to = at + block_rank(yes, room, &all);
        at += all;
        if (yes) {
            slot[i] = to;
            source[to] = (int32_t)(i / top_k);
        }
    }
}
