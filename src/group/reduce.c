/* The arithmetic of reductions; see reduce.h. Blocks go through the stack, so that the result
 * may replace one of the sources: block by block, all are read before it is written. */
#include "group/reduce.h"
#include <string.h>

enum { BLOCK = 1024 };

bool hr__reduce_takes(hr_dtype t)
{
    return t == HR_F32 || t == HR_I32 || t == HR_I64;
}

/* Integers wrap around, through the unsigned type. */
#define ADD_FLOAT(T, a, b) ((a) + (b))
#define ADD_I32(T, a, b)   ((int32_t)((uint32_t)(a) + (uint32_t)(b)))
#define ADD_I64(T, a, b)   ((int64_t)((uint64_t)(a) + (uint64_t)(b)))

/* The comparisons with itself are false for integers and find NaN. */
#define DEFINE_REDUCE(T, NAME, ADD)                                                    \
    static void NAME##_step(hr_reduce op, T *restrict acc, const T *restrict x,        \
                            int64_t n)                                                 \
    {                                                                                  \
        switch (op) {                                                                  \
        case HR_SUM:                                                                   \
            for (int64_t i = 0; i < n; i++)                                            \
                acc[i] = ADD(T, acc[i], x[i]);                                         \
            break;                                                                     \
        case HR_MAX:                                                                   \
            for (int64_t i = 0; i < n; i++)                                            \
                acc[i] = acc[i] > x[i] || acc[i] != acc[i] ? acc[i] : x[i];            \
            break;                                                                     \
        case HR_MIN:                                                                   \
            for (int64_t i = 0; i < n; i++)                                            \
                acc[i] = acc[i] < x[i] || acc[i] != acc[i] ? acc[i] : x[i];            \
            break;                                                                     \
        }                                                                              \
    }                                                                                  \
                                                                                       \
    static void NAME(hr_reduce op, T *out, const void *const *in, int n,               \
                     int64_t count)                                                    \
    {                                                                                  \
        T acc[BLOCK];                                                                  \
        for (int64_t at = 0; at < count; at += BLOCK) {                                \
            int64_t len = count - at < BLOCK ? count - at : BLOCK;                     \
            memcpy(acc, (const T *)in[0] + at, (size_t)len * sizeof(T));               \
            for (int r = 1; r < n; r++)                                                \
                NAME##_step(op, acc, (const T *)in[r] + at, len);                      \
            memcpy(out + at, acc, (size_t)len * sizeof(T));                            \
        }                                                                              \
    }

DEFINE_REDUCE(float, reduce_f32, ADD_FLOAT)
DEFINE_REDUCE(int32_t, reduce_i32, ADD_I32)
DEFINE_REDUCE(int64_t, reduce_i64, ADD_I64)

void hr__reduce(hr_dtype t, hr_reduce op, void *out, const void *const *in, int n,
                int64_t count)
{
    if (t == HR_F32)
        reduce_f32(op, out, in, n, count);
    else if (t == HR_I32)
        reduce_i32(op, out, in, n, count);
    else
        reduce_i64(op, out, in, n, count);
}
