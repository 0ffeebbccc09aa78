/* Arithmetic on rows with AVX2 and FMA. */
#define HR__LANES     8
#define HR__VEC_TABLE hr__vec_avx2
#define HR__VEC_NAME  "avx2"
#include "ops/host/vec_table.h"
