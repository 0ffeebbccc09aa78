/* Kernels of causal attention in tiles, with an online softmax; the formulas stand in
 * ops/host/vec_attention.h. qkv [N,3C], heads side by side; T tokens of a sequence, d width of a head, at
 * most HR_HEAD_WIDTH.
 *
 * A block has some rows of its own (queries, or in backward also keys), spread over its warps, and goes over
 * tiles of HR_TILE of the others: in products of rows a lane takes one of these, in sums over them a lane
 * takes every 32nd column. Tiles follow each other through one buffer, whose rows are d + 1 apart so that
 * lanes do not meet on a bank. */
#include "device/cuda/cuda_code.cuh"
#include "ops/cuda/cuda_params.h"
#include "ops/formulas.h"

enum { CHUNKS = HR_HEAD_WIDTH / HR_WARP }; /* columns of a lane */

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
struct head {
    const float *q, *k, *v, *dout, *rotary;
    const float *lse, *dot; /* [T] of this head */
    int64_t row, stride, width; /* of qkv, and of what has C columns */
    int t, d;
    float scale;
};

HR_INLINE head head_at(const hr__attention_shape &s)
{
    int64_t sequence = blockIdx.x / s.heads, at = blockIdx.x % s.heads;
    int64_t row = sequence * s.seq_len, width = (int64_t)s.heads * s.d;
    head h = {};
    h.row = row;
    h.stride = 3 * width;
    h.width = width;
    h.q = s.qkv + row * h.stride + at * s.d;
    h.k = h.q + width;
    h.v = h.k + width;
    if (s.dout) { /* backward */
        h.dout = s.dout + row * width + at * s.d;
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
/* Rows first.. of T into `to`, rows `apart` there; zeros past the end. */
HR_INLINE void load(float *to, int apart, const float *from, int64_t stride, int first,
                    int rows, const head &h)
{
    for (int at = (int)threadIdx.x; at < rows * h.d; at += HR_THREADS) {
        int r = at / h.d, c = at % h.d;
        to[r * apart + c] =
            first + r < h.t ? from[(int64_t)(first + r) * stride + c] : 0;
    }
}

/* The same, turned by their positions and scaled. */
HR_INLINE void load_turned(float *to, int apart, const float *from, int64_t stride,
                           int first, int rows, const head &h, float scale)
{
    int half = h.d / 2;
    for (int at = (int)threadIdx.x; at < rows * half; at += HR_THREADS) {
        int r = at / half, i = at % half, t = first + r;
        float a = 0, b = 0;
        if (t < h.t) {
            const float *x = from + (int64_t)t * stride + i;
            const float *turn = h.rotary + (int64_t)t * h.d + i;
            a = scale * hr__turned(x[0], x[half], turn[0], turn[half]);
            b = scale * hr__turned(x[half], x[0], turn[0], -turn[half]);
        }
        to[r * apart + i] = a;
        to[r * apart + i + half] = b;
    }
}

/* Back: gradients of what load_turned() made; `from` has rows `h.d` apart. */
HR_INLINE void store_turned(float *to, int64_t stride, const float *from, int first,
                            int rows, const head &h, float scale)
{
    int half = h.d / 2;
    for (int at = (int)threadIdx.x; at < rows * half; at += HR_THREADS) {
        int r = at / half, i = at % half, t = first + r;
        if (t >= h.t)
            continue;
        const float *x = from + r * h.d + i;
        const float *turn = h.rotary + (int64_t)t * h.d + i;
        float *y = to + (int64_t)t * stride + i;
        y[0] = scale * hr__turned(x[0], x[half], turn[0], -turn[half]);
        y[half] = scale * hr__turned(x[half], x[0], turn[0], turn[half]);
    }
}

/* ---- products ---- */
/* A row of the block with this lane's row of the tile. */
HR_INLINE float product(const float *row, const float *tile, int d)
{
    const float *other = tile + hr_lane() * (d + 1);
    float sum = 0;
    for (int i = 0; i < d; i++)
        sum += row[i] * other[i];
    return sum;
}

/* sum[c] += weight[j] * tile[j][c] over the tile's rows */
HR_INLINE void add_rows(float *sum, const float *weight, const float *tile, int d)
{
    for (int j = 0; j < HR_TILE; j++) {
        const float *row = tile + j * (d + 1);
        float w = weight[j];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            if (c * HR_WARP + hr_lane() < d)
                sum[c] += w * row[c * HR_WARP + hr_lane()];
    }
}

HR_INLINE void put(float *to, const float *sum, int d, float factor)
{
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        if (c * HR_WARP + hr_lane() < d)
            to[c * HR_WARP + hr_lane()] = sum[c] * factor;
}

/* ---- forward ---- */
enum { ROWS = HR_TILE / HR_WARPS }; /* queries of a warp */

/* Grid: heads of all sequences, tiles of queries. Shared: queries, tile, weights. */
HR_KERNEL hr_attention(hr__attention_shape shape, float *out, float *lse)
{
    HR_DYNAMIC_SHARED(float, shared);
    head h = head_at(shape);
    int d = h.d, first = (int)blockIdx.y * HR_TILE;
    float *q = shared, *tile = q + HR_TILE * d, *weights = tile + HR_TILE * (d + 1);
    float most[ROWS], all[ROWS], sum[ROWS][CHUNKS];
    for (int r = 0; r < ROWS; r++) {
        most[r] = -INFINITY;
        all[r] = 0;
        for (int c = 0; c < CHUNKS; c++)
            sum[r][c] = 0;
    }
    load_turned(q, d, h.q, h.stride, first, HR_TILE, h, h.scale);
    for (int keys = 0; keys <= first; keys += HR_TILE) {
        __syncthreads();
        load_turned(tile, d + 1, h.k, h.stride, keys, HR_TILE, h, 1);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int row = hr_warp() * ROWS + r, key = keys + hr_lane();
            bool seen = key <= first + row && key < h.t;
            float s = product(q + row * d, tile, d);
            float now = fmaxf(most[r], hr_warp_max(seen ? s : -INFINITY));
            float p = seen ? expf(s - now) : 0, shrink = expf(most[r] - now);
            most[r] = now;
            all[r] = all[r] * shrink + hr_warp_sum(p);
            weights[row * HR_TILE + hr_lane()] = p;
            for (int c = 0; c < CHUNKS; c++)
                sum[r][c] *= shrink;
        }
        __syncthreads();
        load(tile, d + 1, h.v, h.stride, keys, HR_TILE, h);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            add_rows(sum[r], weights + (hr_warp() * ROWS + r) * HR_TILE, tile, d);
    }
    int64_t at = (h.q - shape.qkv) % h.stride;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int t = first + hr_warp() * ROWS + r;
        if (t >= h.t)
            continue;
        put(out + (h.row + t) * h.width + at, sum[r], d, 1.0F / all[r]);
        if (hr_lane() == 0)
            lse[(int64_t)blockIdx.x * h.t + t] = most[r] + logf(all[r]);
    }
}

/* ---- backward ---- */
/* dot [heads of all sequences, T] = sum over a head's columns of dout * out: a warp takes one. */
HR_KERNEL hr_attention_dot(float *dot, const float *dout, const float *out,
                           int64_t rows, int heads, int d, int64_t seq_len)
{
    int64_t at = hr_row(), row = at / heads, head = at % heads;
    if (row >= rows)
        return;
    float sum = 0;
    const float *a = dout + at * d, *b = out + at * d;
    for (int c = hr_lane(); c < d; c += HR_WARP)
        sum += a[c] * b[c];
    sum = hr_warp_sum(sum);
    if (hr_lane() == 0)
        dot[(row / seq_len * heads + head) * seq_len + row % seq_len] = sum;
}

enum { BACK_ROWS = HR_BACK_ROWS / HR_WARPS }; /* of a warp */

/* Grid: heads, runs of queries. Shared: q, dout [HR_BACK_ROWS, d], tile, weights. */
HR_KERNEL hr_attention_dq(hr__attention_shape shape, float *dqkv)
{
    HR_DYNAMIC_SHARED(float, shared);
    head h = head_at(shape);
    int d = h.d, first = (int)blockIdx.y * HR_BACK_ROWS, last = first + HR_BACK_ROWS - 1;
    float *q = shared, *dout = q + HR_BACK_ROWS * d, *tile = dout + HR_BACK_ROWS * d;
    float *weights = tile + HR_TILE * (d + 1);
    float p[BACK_ROWS], sum[BACK_ROWS][CHUNKS] = {{0}};
    load_turned(q, d, h.q, h.stride, first, HR_BACK_ROWS, h, h.scale);
    load(dout, d, h.dout, h.width, first, HR_BACK_ROWS, h);
    for (int keys = 0; keys <= last && keys < h.t; keys += HR_TILE) {
        __syncthreads();
        load(tile, d + 1, h.v, h.stride, keys, HR_TILE, h);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < BACK_ROWS; r++)
            p[r] = product(dout + (hr_warp() * BACK_ROWS + r) * d, tile, d);
        __syncthreads();
        load_turned(tile, d + 1, h.k, h.stride, keys, HR_TILE, h, 1);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < BACK_ROWS; r++) {
            int row = hr_warp() * BACK_ROWS + r, t = first + row, key = keys + hr_lane();
            float s = product(q + row * d, tile, d), ds = 0;
            if (key <= t && t < h.t)
                ds = expf(s - h.lse[t]) * (p[r] - h.dot[t]);
            weights[row * HR_TILE + hr_lane()] = ds;
        }
        __syncwarp();
#pragma unroll
        for (int r = 0; r < BACK_ROWS; r++)
            add_rows(sum[r], weights + (hr_warp() * BACK_ROWS + r) * HR_TILE, tile, d);
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < BACK_ROWS; r++)
        put(q + (hr_warp() * BACK_ROWS + r) * d, sum[r], d, 1);
    __syncthreads();
    store_turned(dqkv + (h.q - shape.qkv), h.stride, q, first, HR_BACK_ROWS, h, h.scale);
}

/* Grid: heads, runs of keys. Shared: k, v [HR_BACK_ROWS, d], tile, weights. */
HR_KERNEL hr_attention_dkv(hr__attention_shape shape, float *dqkv)
{
    HR_DYNAMIC_SHARED(float, shared);
    head h = head_at(shape);
    int d = h.d, first = (int)blockIdx.y * HR_BACK_ROWS;
    float *k = shared, *v = k + HR_BACK_ROWS * d, *tile = v + HR_BACK_ROWS * d;
    float *weights = tile + HR_TILE * (d + 1);
    float p[BACK_ROWS], dk[BACK_ROWS][CHUNKS] = {{0}}, dv[BACK_ROWS][CHUNKS] = {{0}};
    load_turned(k, d, h.k, h.stride, first, HR_BACK_ROWS, h, 1);
    load(v, d, h.v, h.stride, first, HR_BACK_ROWS, h);
    for (int queries = first / HR_TILE * HR_TILE; queries < h.t; queries += HR_TILE) {
        int t = queries + hr_lane();
        float lse = t < h.t ? h.lse[t] : 0, dot = t < h.t ? h.dot[t] : 0;
        __syncthreads();
        load_turned(tile, d + 1, h.q, h.stride, queries, HR_TILE, h, h.scale);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < BACK_ROWS; r++) {
            int row = hr_warp() * BACK_ROWS + r;
            float s = product(k + row * d, tile, d);
            p[r] = first + row <= t && t < h.t ? expf(s - lse) : 0;
            weights[row * HR_TILE + hr_lane()] = p[r];
        }
        __syncthreads();
        load(tile, d + 1, h.dout, h.width, queries, HR_TILE, h);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < BACK_ROWS; r++) {
            int row = hr_warp() * BACK_ROWS + r;
            add_rows(dv[r], weights + row * HR_TILE, tile, d);
            p[r] *= product(v + row * d, tile, d) - dot;
        }
        __syncthreads();
        load_turned(tile, d + 1, h.q, h.stride, queries, HR_TILE, h, h.scale);
#pragma unroll
        for (int r = 0; r < BACK_ROWS; r++)
            weights[(hr_warp() * BACK_ROWS + r) * HR_TILE + hr_lane()] = p[r];
        __syncthreads();
#pragma unroll
        for (int r = 0; r < BACK_ROWS; r++)
            add_rows(dk[r], weights + (hr_warp() * BACK_ROWS + r) * HR_TILE, tile, d);
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < BACK_ROWS; r++) {
        int row = hr_warp() * BACK_ROWS + r;
        put(k + row * d, dk[r], d, 1);
        if (first + row < h.t)
            put(dqkv + (h.v - shape.qkv) + (int64_t)(first + row) * h.stride, dv[r], d, 1);
    }
    __syncthreads();
    store_turned(dqkv + (h.k - shape.qkv), h.stride, k, first, HR_BACK_ROWS, h, 1);
}
