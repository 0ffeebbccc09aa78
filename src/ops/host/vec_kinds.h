/* The tables of vec.h that are built in. HR_WITH_X86 is set on x86-64. */
#ifndef HR_VEC_KINDS_H
#define HR_VEC_KINDS_H
#include "ops/host/vec.h"

extern const hr__vec hr__vec_base;
#if HR_WITH_X86
extern const hr__vec hr__vec_avx2;
extern const hr__vec hr__vec_avx512;
#endif

#endif
