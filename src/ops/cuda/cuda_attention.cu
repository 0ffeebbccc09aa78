/* Kernels of causal attention in tiles, with an online softmax; the formulas stand in
 * ops/host/vec_attention.h. qkv [N,3C], heads side by side; T tokens of a sequence, d width of a head.
 *
 * A block has some rows of its own (queries, or in backward also keys), spread over its warps, and goes over
 * tiles of HR_TILE of the others: in products of rows a lane takes one of these, in sums over them a lane
 * takes every 32nd column. Tiles follow each other through one buffer, HR_PASS columns at a time, whose rows are
 * one more apart so that lanes do not meet on a bank.
 *
 * W says what a head is: class narrow, up to HR_PASS wide, or class wide, up to HR_HEAD_WIDTH, for which a block
 * has half as many rows, so that its memory and its registers hold them. */
#include "ops/cuda/cuda_params.h"
#include "ops/cuda/cuda_types.cuh"
#include "ops/formulas.h"

enum { CHUNKS = HR_PASS / HR_WARP }; /* columns of a lane in a pass */

struct narrow {
    static constexpr int PASSES = 1, ROWS = HR_ROWS, BACK_ROWS = HR_BACK_ROWS;
};
struct wide {
    static constexpr int PASSES = HR_HEAD_WIDTH / HR_PASS, ROWS = HR_WIDE_ROWS,
                         BACK_ROWS = HR_WIDE_BACK_ROWS;
};

/* Cosines, then sines of each position, as the host has them. */
HR_KERNEL hr_rotary(float *table, int64_t positions, int64_t width, float base)
{
    int64_t half = width / 2;
    for (int64_t at = hr_first(); at < positions * half; at += hr_stride()) {
        int64_t t = at / half, i = at % half;
        double angle =
            (double)t * pow((double)base, -2.0 * (double)i / (double)width);
        table[t * width + i] = (float)cos(angle);
        table[t * width + half + i] = (float)sin(angle);
    }
}

/* One head of one sequence. */
template <class T> struct head {
    const T *q, *k, *v, *dout;
    const float *rotary, *lse, *dot; /* lse, dot: [T] of this head */
    int64_t row, stride, width;      /* of qkv, and of what has C columns */
    int64_t at;                      /* its first column, of C */
    int t, d;
    float scale;
};

template <class T> HR_INLINE head<T> head_at(const hr__attention_shape &s)
{
    int64_t sequence = blockIdx.x / s.heads, at = blockIdx.x % s.heads * s.d;
    int64_t row = sequence * s.seq_len, width = (int64_t)s.heads * s.d;
    head<T> h = {};
    h.row = row;
    h.stride = 3 * width;
    h.width = width;
    h.at = at;
    h.q = (const T *)s.qkv + row * h.stride + at;
    h.k = h.q + width;
    h.v = h.k + width;
    if (s.dout) { /* backward */
        h.dout = (const T *)s.dout + row * width + at;
        h.lse = s.lse + (int64_t)blockIdx.x * s.seq_len;
        h.dot = s.dot + (int64_t)blockIdx.x * s.seq_len;
    }
    h.rotary = s.rotary;
    h.t = (int)s.seq_len;
    h.d = s.d;
    h.scale = 1.0F / sqrtf((float)s.d);
    return h;
}

/* ---- in and out ---- */
/* Columns of a pass. */
struct columns {
    int first, count;
};

HR_INLINE columns columns_of(int pass, int d)
{
    int first = pass * HR_PASS;
    return {first, d - first < HR_PASS ? d - first : HR_PASS};
}

/* Rows first.. of T into `to`, rows `apart` there; zeros past the end. */
template <class T>
HR_INLINE void load(float *to, int apart, const T *from, int64_t stride, int first,
                    int rows, const head<T> &h, columns cols)
{
    for (int at = (int)threadIdx.x; at < rows * cols.count; at += HR_THREADS) {
        int r = at / cols.count, c = at % cols.count, t = first + r;
        to[r * apart + c] =
            t < h.t ? hr__f32(from[(int64_t)t * stride + cols.first + c]) : 0;
    }
}

/* The same, turned by their positions and scaled. */
template <class T>
HR_INLINE void load_turned(float *to, int apart, const T *from, int64_t stride,
                           int first, int rows, const head<T> &h, float scale,
                           columns cols)
{
    int half = h.d / 2;
    for (int at = (int)threadIdx.x; at < rows * cols.count; at += HR_THREADS) {
        int r = at / cols.count, c = cols.first + at % cols.count, t = first + r;
        int i = c < half ? c : c - half;
        float y = 0;
        if (t < h.t) {
            const T *x = from + (int64_t)t * stride;
            const float *turn = h.rotary + (int64_t)t * h.d + i;
            float mine = hr__f32(x[c]), other = hr__f32(x[c < half ? c + half : i]);
            y = scale *
                hr__turned(mine, other, turn[0], c < half ? turn[half] : -turn[half]);
        }
        to[r * apart + c - cols.first] = y;
    }
}

/* Back: gradients of what load_turned() made; `from` has rows `h.d` apart. */
template <class T>
HR_INLINE void store_turned(T *to, int64_t stride, const float *from, int first,
                            int rows, const head<T> &h, float scale)
{
    int half = h.d / 2;
    for (int at = (int)threadIdx.x; at < rows * half; at += HR_THREADS) {
        int r = at / half, i = at % half, t = first + r;
        if (t >= h.t)
            continue;
        const float *x = from + r * h.d + i;
        const float *turn = h.rotary + (int64_t)t * h.d + i;
        T *y = to + (int64_t)t * stride + i;
        hr__put(y, scale * hr__turned(x[0], x[half], turn[0], -turn[half]));
        hr__put(y + half, scale * hr__turned(x[half], x[0], turn[0], turn[half]));
    }
}

/* ---- products ---- */
/* A row of the block with this lane's row of the tile, over its columns. */
HR_INLINE float product(const float *row, const float *tile, columns cols)
{
    const float *other = tile + hr_lane() * (cols.count + 1);
    float sum = 0;
    row += cols.first;
    for (int i = 0; i < cols.count; i++)
        sum += row[i] * other[i];
    return sum;
}

/* sum[c] += weight[j] * tile[j][c] over the tile's rows; `sum` is of the pass */
HR_INLINE void add_rows(float *sum, const float *weight, const float *tile,
                        columns cols)
{
    for (int j = 0; j < HR_TILE; j++) {
        const float *row = tile + j * (cols.count + 1);
        float w = weight[j];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            if (c * HR_WARP + hr_lane() < cols.count)
                sum[c] += w * row[c * HR_WARP + hr_lane()];
    }
}

template <int COUNT, class T>
HR_INLINE void put(T *to, const float (&sum)[COUNT], int d, float factor)
{
#pragma unroll
    for (int c = 0; c < COUNT; c++)
        if (c * HR_WARP + hr_lane() < d)
            hr__put(to + c * HR_WARP + hr_lane(), sum[c] * factor);
}

/* for each pass over the columns of a head, with `cols` */
#define FOR_PASSES(W, d)                                                               \
    _Pragma("unroll") for (int pass = 0; pass < W::PASSES; pass++)                     \
        if (columns cols = columns_of(pass, d); cols.count > 0)

/* ---- forward ---- */
/* Grid: heads of all sequences, runs of queries. Shared: queries, tile, weights. */
template <class W, class T>
HR_INLINE void attend(const hr__attention_shape &shape, T *out, float *lse)
{
    constexpr int ALL = W::ROWS, ROWS = ALL / HR_WARPS, SUMS = W::PASSES * CHUNKS;
    HR_DYNAMIC_SHARED(float, shared);
    head<T> h = head_at<T>(shape);
    int d = h.d, first = (int)blockIdx.y * ALL, last = first + ALL - 1;
    float *q = shared, *weights = q + ALL * d, *tile = weights + ALL * HR_TILE;
    float most[ROWS], all[ROWS], sum[ROWS][SUMS];
    for (int r = 0; r < ROWS; r++) {
        most[r] = -INFINITY;
        all[r] = 0;
        for (int c = 0; c < SUMS; c++)
            sum[r][c] = 0;
    }
    load_turned(q, d, h.q, h.stride, first, ALL, h, h.scale, {0, d});
    for (int keys = 0; keys <= last && keys < h.t; keys += HR_TILE) {
        float s[ROWS] = {0};
        FOR_PASSES(W, d)
        {
            __syncthreads();
            load_turned(tile, cols.count + 1, h.k, h.stride, keys, HR_TILE, h, 1, cols);
            __syncthreads();
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                s[r] += product(q + (hr_warp() * ROWS + r) * d, tile, cols);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int row = hr_warp() * ROWS + r, key = keys + hr_lane();
            bool seen = key <= first + row && key < h.t;
            float now = fmaxf(most[r], hr_warp_max(seen ? s[r] : -INFINITY));
            float p = seen ? expf(s[r] - now) : 0, shrink = expf(most[r] - now);
            most[r] = now;
            all[r] = all[r] * shrink + hr_warp_sum(p);
            weights[row * HR_TILE + hr_lane()] = p;
            for (int c = 0; c < SUMS; c++)
                sum[r][c] *= shrink;
        }
        FOR_PASSES(W, d)
        {
            __syncthreads();
            load(tile, cols.count + 1, h.v, h.stride, keys, HR_TILE, h, cols);
            __syncthreads();
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                add_rows(sum[r] + pass * CHUNKS,
                         weights + (hr_warp() * ROWS + r) * HR_TILE, tile, cols);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int t = first + hr_warp() * ROWS + r;
        if (t >= h.t)
            continue;
        put(out + (h.row + t) * h.width + h.at, sum[r], d, 1.0F / all[r]);
        if (hr_lane() == 0)
            lse[(int64_t)blockIdx.x * h.t + t] = most[r] + logf(all[r]);
    }
}
HR_KERNELS(hr_attention, attend<narrow>,
           (hr__attention_shape shape, T *out, float *lse), (shape, out, lse))
HR_KERNELS(hr_attention_wide, attend<wide>,
           (hr__attention_shape shape, T *out, float *lse), (shape, out, lse))

/* ---- backward ---- */
/* dot [heads of all sequences, T] = sum over a head's columns of dout * out: a warp takes one. */
template <class T>
HR_INLINE void attention_dot(float *dot, const T *dout, const T *out, int64_t rows,
                             int heads, int d, int64_t seq_len)
{
    int64_t at = hr_row(), row = at / heads, head = at % heads;
    if (row >= rows)
        return;
    float sum = 0;
    const T *a = dout + at * d, *b = out + at * d;
    for (int c = hr_lane(); c < d; c += HR_WARP)
        sum += hr__f32(a[c]) * hr__f32(b[c]);
    sum = hr_warp_sum(sum);
    if (hr_lane() == 0)
        dot[(row / seq_len * heads + head) * seq_len + row % seq_len] = sum;
}
HR_KERNELS(hr_attention_dot, attention_dot,
           (float *dot, const T *dout, const T *out, int64_t rows, int heads, int d,
            int64_t seq_len),
           (dot, dout, out, rows, heads, d, seq_len))

/* Grid: heads, runs of queries. Shared: q, dout [BACK_ROWS, d], weights, tile. */
template <class W, class T>
HR_INLINE void attention_dq(const hr__attention_shape &shape, T *dqkv)
{
    constexpr int ALL = W::BACK_ROWS, ROWS = ALL / HR_WARPS, SUMS = W::PASSES * CHUNKS;
    HR_DYNAMIC_SHARED(float, shared);
    head<T> h = head_at<T>(shape);
    int d = h.d, first = (int)blockIdx.y * ALL, last = first + ALL - 1;
    float *q = shared, *dout = q + ALL * d;
    float *weights = dout + ALL * d, *tile = weights + ALL * HR_TILE;
    float sum[ROWS][SUMS] = {{0}};
    load_turned(q, d, h.q, h.stride, first, ALL, h, h.scale, {0, d});
    load(dout, d, h.dout, h.width, first, ALL, h, {0, d});
    for (int keys = 0; keys <= last && keys < h.t; keys += HR_TILE) {
        float p[ROWS] = {0}, s[ROWS] = {0};
        FOR_PASSES(W, d)
        {
            __syncthreads();
            load(tile, cols.count + 1, h.v, h.stride, keys, HR_TILE, h, cols);
            __syncthreads();
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                p[r] += product(dout + (hr_warp() * ROWS + r) * d, tile, cols);
        }
        FOR_PASSES(W, d)
        {
            __syncthreads();
            load_turned(tile, cols.count + 1, h.k, h.stride, keys, HR_TILE, h, 1, cols);
            __syncthreads();
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                s[r] += product(q + (hr_warp() * ROWS + r) * d, tile, cols);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int row = hr_warp() * ROWS + r, t = first + row, key = keys + hr_lane();
            float ds = 0;
            if (key <= t && t < h.t)
                ds = expf(s[r] - h.lse[t]) * (p[r] - h.dot[t]);
            weights[row * HR_TILE + hr_lane()] = ds;
        }
        __syncwarp();
        FOR_PASSES(W, d)
        {
            if (W::PASSES > 1) { /* else the keys are there still */
                __syncthreads();
                load_turned(tile, cols.count + 1, h.k, h.stride, keys, HR_TILE, h, 1,
                            cols);
                __syncthreads();
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                add_rows(sum[r] + pass * CHUNKS,
                         weights + (hr_warp() * ROWS + r) * HR_TILE, tile, cols);
        }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        put(q + (hr_warp() * ROWS + r) * d, sum[r], d, 1);
    __syncthreads();
    store_turned(dqkv + (h.row * h.stride + h.at), h.stride, q, first, ALL, h, h.scale);
}
HR_KERNELS(hr_attention_dq, attention_dq<narrow>,
           (hr__attention_shape shape, T *dqkv), (shape, dqkv))
HR_KERNELS(hr_attention_dq_wide, attention_dq<wide>,
           (hr__attention_shape shape, T *dqkv), (shape, dqkv))

/* Grid: heads, runs of keys. Shared: k, v [BACK_ROWS, d], weights, tile. */
template <class W, class T>
HR_INLINE void attention_dkv(const hr__attention_shape &shape, T *dqkv)
{
    constexpr int ALL = W::BACK_ROWS, ROWS = ALL / HR_WARPS, SUMS = W::PASSES * CHUNKS;
    HR_DYNAMIC_SHARED(float, shared);
    head<T> h = head_at<T>(shape);
    int d = h.d, first = (int)blockIdx.y * ALL;
    float *k = shared, *v = k + ALL * d;
    float *weights = v + ALL * d, *tile = weights + ALL * HR_TILE;
    float dk[ROWS][SUMS] = {{0}}, dv[ROWS][SUMS] = {{0}};
    load_turned(k, d, h.k, h.stride, first, ALL, h, 1, {0, d});
    load(v, d, h.v, h.stride, first, ALL, h, {0, d});
    for (int queries = first / HR_TILE * HR_TILE; queries < h.t; queries += HR_TILE) {
        int t = queries + hr_lane();
        float lse = t < h.t ? h.lse[t] : 0, dot = t < h.t ? h.dot[t] : 0;
        float p[ROWS] = {0}, dp[ROWS] = {0};
        FOR_PASSES(W, d)
        {
            __syncthreads();
            load_turned(tile, cols.count + 1, h.q, h.stride, queries, HR_TILE, h,
                        h.scale, cols);
            __syncthreads();
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                p[r] += product(k + (hr_warp() * ROWS + r) * d, tile, cols);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int row = hr_warp() * ROWS + r;
            p[r] = first + row <= t && t < h.t ? expf(p[r] - lse) : 0;
            weights[row * HR_TILE + hr_lane()] = p[r];
        }
        FOR_PASSES(W, d)
        {
            __syncthreads();
            load(tile, cols.count + 1, h.dout, h.width, queries, HR_TILE, h, cols);
            __syncthreads();
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                int row = hr_warp() * ROWS + r;
                add_rows(dv[r] + pass * CHUNKS, weights + row * HR_TILE, tile, cols);
                dp[r] += product(v + row * d, tile, cols);
            }
        }
        __syncwarp();
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            weights[(hr_warp() * ROWS + r) * HR_TILE + hr_lane()] =
                p[r] * (dp[r] - dot);
        FOR_PASSES(W, d)
        {
            __syncthreads();
            load_turned(tile, cols.count + 1, h.q, h.stride, queries, HR_TILE, h,
                        h.scale, cols);
            __syncthreads();
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                add_rows(dk[r] + pass * CHUNKS,
                         weights + (hr_warp() * ROWS + r) * HR_TILE, tile, cols);
        }
    }
    __syncthreads();
    T *to = dqkv + (h.row * h.stride + h.at);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int row = hr_warp() * ROWS + r;
        put(k + row * d, dk[r], d, 1);
        if (first + row < h.t)
            put(to + 2 * h.width + (int64_t)(first + row) * h.stride, dv[r], d, 1);
    }
    __syncthreads();
    store_turned(to + h.width, h.stride, k, first, ALL, h, 1);
}
HR_KERNELS(hr_attention_dkv, attention_dkv<narrow>,
           (hr__attention_shape shape, T *dqkv), (shape, dqkv))
HR_KERNELS(hr_attention_dkv_wide, attention_dkv<wide>,
           (hr__attention_shape shape, T *dqkv), (shape, dqkv))
