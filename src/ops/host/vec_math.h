/* For the files compiled once an instruction set: exp and reductions that vectorise. HR__LANES is
 * the number of floats in a register there. */
#ifndef HR_VEC_MATH_H
#define HR_VEC_MATH_H
#include "ops/host/vec.h"
#include <math.h>
#include <string.h>

#define HR__SIMD          _Pragma("omp simd")
#define HR__SIMD_SUM(...) HR__PRAGMA(omp simd reduction(+ : __VA_ARGS__))
#define HR__PRAGMA(x)     _Pragma(#x)

/* e^x for x up to 88 to 2 units in the last place, without a call: x = n ln 2 + r, a polynomial in r
 * (fitted to the least greatest relative error, 1.05e-7), times 2^n. 0 below -87.3; NaN stays NaN.
 * What lies outside is computed like the rest and then not taken. */
static inline float vec_exp(float x)
{
    const float low = -87.33F, magic = 12582912.0F; /* 1.5 * 2^23 */
    float shifted = x * 1.44269504F + magic;        /* its low bits hold n */
    float n = shifted - magic;
    float r = x - n * 0.693359375F - n * -2.12194440e-4F;
    float p = 8.31250126e-3F;
    p = p * r + 4.18903315e-2F;
    p = p * r + 1.66671154e-1F;
    p = p * r + 4.99992303e-1F;
    p = p * r + 1.0F;
    uint32_t bits;
    float scale;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000U;
    memcpy(&scale, &bits, sizeof scale);
    return x < low ? 0.0F : p * r * scale + scale;
}

static inline float vec_sigmoid(float x)
{
    float y = x < -88.0F ? -88.0F : x;
    return 1.0F / (1.0F + vec_exp(-y));
}

/* Bits of a float, as a number that is ordered as the floats are; the reverse is the same. */
static inline int32_t vec_ordered(int32_t bits)
{
    return bits < 0 ? bits ^ INT32_MAX : bits;
}

/* As integers, because compilers split only those maxima over lanes. -INFINITY for none. */
static inline float vec_max(const float *x, int64_t count)
{
    const float none = -INFINITY;
    int32_t bits, most;
    memcpy(&bits, &none, sizeof bits);
    most = vec_ordered(bits);
    for (int64_t i = 0; i < count; i++) {
        memcpy(&bits, x + i, sizeof bits);
        bits = vec_ordered(bits);
        most = bits > most ? bits : most;
    }
    float result;
    bits = vec_ordered(most);
    memcpy(&result, &bits, sizeof result);
    return result;
}

#endif
