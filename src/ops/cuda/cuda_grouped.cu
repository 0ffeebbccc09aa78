/* Products by expert over sorted rows, whose limits only the device knows: y = x w^T, x = y w, w += y^T x.
 * R rows, I and O width in and out, L experts. A block makes a tile of HR_SIDE x HR_SIDE, a thread 4 x 4 of
 * it. Single products are cuBLAS's (launch_gemm.c). */
#include "ops/cuda/cuda_params.h"
#include "ops/cuda/cuda_types.cuh"

enum { DEPTH = 16, EACH = 4, APART = HR_SIDE + 4, COLS = HR_SIDE / EACH };

/* An operand as rows (of the result: rows of a, columns of b) by depth. `deep`: neighbours in memory are
 * neighbours in depth. */
template <class T> struct operand {
    const T *at;
    int64_t stride; /* between rows, if deep; else between depths */
    int64_t rows, first;
};

template <bool DEEP, class T>
HR_INLINE void load(float (*to)[APART], const operand<T> &x, int64_t depth,
                    int64_t from)
{
    for (int i = (int)threadIdx.x; i < HR_SIDE * DEPTH; i += HR_THREADS) {
        int row = DEEP ? i / DEPTH : i % HR_SIDE, k = DEEP ? i % DEPTH : i / HR_SIDE;
        int64_t r = x.first + row, at = from + k;
        float value = 0;
        if (r < x.rows && at < depth)
            value = hr__f32(DEEP ? x.at[r * x.stride + at] : x.at[at * x.stride + r]);
        to[k][row] = value;
    }
}

/* The tile of c at (a.first, b.first); c has rows `width` apart. */
template <bool A_DEEP, bool B_DEEP, class C, class T>
HR_INLINE void product(C *c, int64_t width, const operand<T> &a, const operand<T> &b,
                       int64_t depth, bool add)
{
    __shared__ float left[DEPTH][APART], right[DEPTH][APART];
    int down = (int)threadIdx.x / COLS * EACH, across = (int)threadIdx.x % COLS * EACH;
    float sum[EACH][EACH] = {{0}};
    for (int64_t k = 0; k < depth; k += DEPTH) {
        load<A_DEEP>(left, a, depth, k);
        load<B_DEEP>(right, b, depth, k);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < DEPTH; i++)
#pragma unroll
            for (int r = 0; r < EACH; r++)
#pragma unroll
                for (int j = 0; j < EACH; j++)
                    sum[r][j] += left[i][down + r] * right[i][across + j];
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < EACH; r++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            int64_t row = a.first + down + r, col = b.first + across + j;
            C *to = c + row * width + col;
            if (row < a.rows && col < b.rows)
                hr__put(to, (add ? hr__f32(*to) : 0) + sum[r][j]);
        }
}

/* Which expert's which tile of rows this block has: experts' tiles follow each other along y, and blocks past
 * the last of them have none. */
struct turn {
    int64_t expert, begin, rows, first;
};

HR_INLINE bool my_turn(const int64_t *offsets, int64_t experts, turn *t)
{
    int64_t at = blockIdx.y;
    for (int64_t l = 0; l < experts; l++) {
        int64_t rows = offsets[l + 1] - offsets[l];
        int64_t tiles = (rows + HR_SIDE - 1) / HR_SIDE;
        if (at < tiles) {
            t->expert = l;
            t->begin = offsets[l];
            t->rows = rows;
            t->first = at * HR_SIDE;
            return true;
        }
        at -= tiles;
    }
    return false;
}

template <class T>
HR_INLINE void grouped(T *y, const T *x, const T *w, const int64_t *offsets,
                       int64_t experts, int64_t in, int64_t out)
{
    turn t;
    if (!my_turn(offsets, experts, &t))
        return;
    operand<T> a = {x + t.begin * in, in, t.rows, t.first};
    operand<T> b = {w + t.expert * out * in, in, out, (int64_t)blockIdx.x * HR_SIDE};
    product<true, true>(y + t.begin * out, out, a, b, in, false);
}
HR_KERNELS(hr_grouped, grouped,
           (T *y, const T *x, const T *w, const int64_t *offsets, int64_t experts,
            int64_t in, int64_t out),
           (y, x, w, offsets, experts, in, out))

template <class T>
HR_INLINE void grouped_dx(T *x, const T *y, const T *w, const int64_t *offsets,
                          int64_t experts, int64_t in, int64_t out)
{
    turn t;
    if (!my_turn(offsets, experts, &t))
        return;
    operand<T> a = {y + t.begin * out, out, t.rows, t.first};
    operand<T> b = {w + t.expert * out * in, in, in, (int64_t)blockIdx.x * HR_SIDE};
    product<true, false>(x + t.begin * in, in, a, b, out, false);
}
HR_KERNELS(hr_grouped_dx, grouped_dx,
           (T *x, const T *y, const T *w, const int64_t *offsets, int64_t experts,
            int64_t in, int64_t out),
           (x, y, w, offsets, experts, in, out))

/* Grid: tiles of I, tiles of O, experts. */
template <class T>
HR_INLINE void grouped_dw(float *w, const T *y, const T *x, const int64_t *offsets,
                          int64_t in, int64_t out)
{
    int64_t l = blockIdx.z, begin = offsets[l], rows = offsets[l + 1] - begin;
    if (rows == 0)
        return;
    operand<T> a = {y + begin * out, out, out, (int64_t)blockIdx.y * HR_SIDE};
    operand<T> b = {x + begin * in, in, in, (int64_t)blockIdx.x * HR_SIDE};
    product<false, false>(w + l * out * in, in, a, b, rows, true);
}
HR_KERNELS(hr_grouped_dw, grouped_dw,
           (float *w, const T *y, const T *x, const int64_t *offsets, int64_t in,
            int64_t out),
           (w, y, x, offsets, in, out))
