/* Which instruction set the rows are computed with: the best that the processor has. */
#include "ops/host/vec_kinds.h"

const hr__vec *hr__vec_kind(int i)
{
    if (i == 0)
        return &hr__vec_base;
#if HR_WITH_X86
    if (i == 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &hr__vec_avx2;
    if (i == 2 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return &hr__vec_avx512;
#endif
    return NULL;
}

const hr__vec *hr__vec_best(void)
{
    for (int i = HR__VEC_KINDS - 1; i > 0; i--)
        if (hr__vec_kind(i))
            return hr__vec_kind(i);
    return &hr__vec_base;
}
