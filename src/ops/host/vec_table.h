/* The table of one instruction set: each of vec_base.c, vec_avx2.c, vec_avx512.c defines HR__LANES
 * and HR__VEC_TABLE, and is this text compiled for it. */
#include "ops/host/vec_attention.h"
#include "ops/host/vec_kinds.h"
#include "ops/host/vec_rows.h"

const hr__vec HR__VEC_TABLE = {
    .name = HR__VEC_NAME,
    .add = vec_add,
    .widen = vec_widen,
    .narrow = vec_narrow,
    .exp = vec_exp_all,
    .rmsnorm = vec_rmsnorm,
    .rmsnorm_back = vec_rmsnorm_back,
    .swiglu = vec_swiglu,
    .swiglu_back = vec_swiglu_back,
    .softmax = vec_softmax,
    .log_sum_exp = vec_log_sum_exp,
    .cross_entropy_back = vec_cross_entropy_back,
    .sum_squares = vec_sum_squares,
    .adamw = vec_adamw,
    .attention_scratch = vec_attention_scratch,
    .attention = vec_attention,
    .attention_back = vec_attention_back,
};
