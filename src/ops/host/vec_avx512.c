/* Arithmetic on rows with AVX-512 (F, DQ, BW, VL). */
#define HR__LANES     16
#define HR__VEC_TABLE hr__vec_avx512
#define HR__VEC_NAME  "avx512"
#include "ops/host/vec_table.h"
