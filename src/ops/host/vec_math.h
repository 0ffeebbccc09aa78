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

/* e^x to 2 units in the last place without a call: x = n ln 2 + r, a polynomial in r (Cephes expf),
 * n added to the exponent. 0 below -87.3; stays at e^88 above 88; NaN stays NaN. */
static inline float vec_exp(float x)
{
    const float low = -87.33F, high = 88.0F, magic = 12582912.0F; /* 1.5 * 2^23 */
    float c = x > high ? high : x;
    c = c < low ? low : c;
    float shifted = c * 1.44269504F + magic; /* its low bits hold n */
    float n = shifted - magic;
    float r = c - n * 0.693359375F - n * -2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * r * r + r + 1.0F;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000U;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return x < low ? 0.0F : p * scale;
}

static inline float vec_sigmoid(float x)
{
    return 1.0F / (1.0F + vec_exp(-x));
}

static inline float vec_max(const float *x, int64_t count)
{
    float most[HR__LANES];
    int64_t i = 0;
    for (int l = 0; l < HR__LANES; l++)
        most[l] = -INFINITY;
    for (; i + HR__LANES <= count; i += HR__LANES)
        for (int l = 0; l < HR__LANES; l++)
            most[l] = x[i + l] > most[l] ? x[i + l] : most[l];
    for (; i < count; i++)
        most[0] = x[i] > most[0] ? x[i] : most[0];
    for (int half = HR__LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            most[l] = most[l + half] > most[l] ? most[l + half] : most[l];
    return most[0];
}

#endif
