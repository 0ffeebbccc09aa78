/* tensor/bf16.h: numbers of type HR_BF16, the upper half of an f32, written once for the host and for CUDA
 * kernels. Plain C that is C++ too. */
#ifndef HR_BF16_NUMBERS_H
#define HR_BF16_NUMBERS_H
#include <stdint.h>
#include <string.h>

/* A function whose text both share. */
#ifdef HR_CUDA_CODE /* device/cuda/cuda_code.cuh */
#define HR__FORMULA static __device__ __forceinline__
#else
#define HR__FORMULA static inline
#endif

typedef struct hr__bf16 {
    uint16_t bits;
} hr__bf16;

HR__FORMULA float hr__bf16_wide(hr__bf16 x)
{
    uint32_t bits = (uint32_t)x.bits << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The nearest, of two as near the one whose last bit is 0; beyond the greatest, infinity. NaN stays one, quiet,
 * with its sign and the upper bits of what it carries. */
HR__FORMULA hr__bf16 hr__bf16_near(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t nearest = bits + 0x7fffU + ((bits >> 16) & 1U);
    uint32_t quiet = bits | 0x400000U;
    hr__bf16 x;
    x.bits = (uint16_t)(((bits & 0x7fffffffU) > 0x7f800000U ? quiet : nearest) >> 16);
    return x;
}

#ifdef __cplusplus
/* The same for kernels that are written for either type. */
HR__FORMULA float hr__f32(float x)
{
    return x;
}

HR__FORMULA float hr__f32(hr__bf16 x)
{
    return hr__bf16_wide(x);
}

HR__FORMULA void hr__put(float *to, float x)
{
    *to = x;
}

HR__FORMULA void hr__put(hr__bf16 *to, float x)
{
    *to = hr__bf16_near(x);
}
#endif

#endif
