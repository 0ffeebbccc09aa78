/* Small products for one instruction set: blocks that lie in a thread's scratch, rows of whole
 * registers, no packing. Large ones are the BLAS's. */
#ifndef HR_VEC_PRODUCT_H
#define HR_VEC_PRODUCT_H
#include "ops/host/vec_math.h"

enum { PAD = 16, TILE = 8 }; /* rows are padded to PADs; a tile has TILE of them */

typedef float lanes __attribute__((vector_size(4 * HR__LANES), may_alias));
typedef float quad __attribute__((vector_size(16), may_alias));

static inline float lanes_sum(lanes v)
{
    quad part[HR__LANES / 4];
    memcpy(part, &v, sizeof part);
    for (int i = 1; i < HR__LANES / 4; i++)
        part[0] += part[i];
    return (part[0][0] + part[0][1]) + (part[0][2] + part[0][3]);
}

/* 4 x 4 at a time: from rows `in` floats apart to rows `out` floats apart. */
static inline void transpose_quad(float *to, int64_t out, const float *from, int64_t in)
{
    quad a = *(const quad *)from, b = *(const quad *)(from + in);
    quad c = *(const quad *)(from + 2 * in), d = *(const quad *)(from + 3 * in);
    quad ab01 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    quad ab23 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    quad cd01 = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    quad cd23 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(quad *)to = __builtin_shufflevector(ab01, cd01, 0, 1, 4, 5);
    *(quad *)(to + out) = __builtin_shufflevector(ab01, cd01, 2, 3, 6, 7);
    *(quad *)(to + 2 * out) = __builtin_shufflevector(ab23, cd23, 0, 1, 4, 5);
    *(quad *)(to + 3 * out) = __builtin_shufflevector(ab23, cd23, 2, 3, 6, 7);
}

/* A strided left operand: element (m, k) is at[m * down + k * across]. */
struct left {
    const float *at;
    int64_t down, across;
};

/* TILE rows and `wide` registers of c (+)= a b; b and c are rows of whole registers. */
static inline __attribute__((always_inline)) void tile(float *c, int64_t ldc,
                                                       struct left a, const float *b,
                                                       int64_t ldb, int64_t k,
                                                       const int wide, bool add)
{
    lanes sum[TILE][2];
    for (int r = 0; r < TILE; r++)
        for (int w = 0; w < wide; w++)
            sum[r][w] = add ? *(lanes *)(c + r * ldc + w * HR__LANES) : (lanes){0};
    for (int64_t i = 0; i < k; i++) {
        lanes right[2];
        for (int w = 0; w < wide; w++)
            right[w] = *(const lanes *)(b + i * ldb + w * HR__LANES);
        for (int r = 0; r < TILE; r++) {
            float x = a.at[r * a.down + i * a.across];
            for (int w = 0; w < wide; w++)
                sum[r][w] += x * right[w];
        }
    }
    for (int r = 0; r < TILE; r++)
        for (int w = 0; w < wide; w++)
            *(lanes *)(c + r * ldc + w * HR__LANES) = sum[r][w];
}

/* c [TILE, n] (+)= a b; n is a multiple of PAD. */
static void strip(float *c, int64_t ldc, struct left a, const float *b, int64_t ldb,
                  int64_t n, int64_t k, bool add)
{
    int64_t j = 0;
    for (; j + 2 * HR__LANES <= n; j += 2 * HR__LANES)
        tile(c + j, ldc, a, b + j, ldb, k, 2, add);
    for (; j < n; j += HR__LANES)
        tile(c + j, ldc, a, b + j, ldb, k, 1, add);
}

#endif
