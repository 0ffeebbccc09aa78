/* Arithmetic on rows with what every processor of the architecture has. */
#define HR__LANES     4
#define HR__VEC_TABLE hr__vec_base
#define HR__VEC_NAME  "base"
#include "ops/host/vec_table.h"
