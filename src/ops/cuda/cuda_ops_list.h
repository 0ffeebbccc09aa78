/* Every kernel of the .cu files of this room, a list a file. */
#ifndef HR_CUDA_OPS_LIST_H
#define HR_CUDA_OPS_LIST_H

/* For f32, and right after it for bf16 (HR_KERNELS() in cuda_types.cuh). */
#define HR__CUDA_BOTH(X, number, name) X(number, name) X(number##_BF16, name##_bf16)

#define HR__CUDA_ROWS_MAP(X)                                                           \
    HR__CUDA_BOTH(X, ADD, hr_add)                                                      \
    X(WIDEN, hr_widen)                                                                 \
    X(NARROW, hr_narrow)                                                               \
    HR__CUDA_BOTH(X, GATHER, hr_gather)                                                \
    HR__CUDA_BOTH(X, COMBINE, hr_combine)                                              \
    HR__CUDA_BOTH(X, EMBEDDING_BACK, hr_embedding_back)                                \
    X(PERMUTE_PROBS, hr_permute_probs)                                                 \
    HR__CUDA_BOTH(X, RMSNORM, hr_rmsnorm)                                              \
    HR__CUDA_BOTH(X, RMSNORM_DX, hr_rmsnorm_dx)                                        \
    HR__CUDA_BOTH(X, RMSNORM_PART, hr_rmsnorm_part)                                    \
    X(ADD_ROWS, hr_add_rows)                                                           \
    HR__CUDA_BOTH(X, SWIGLU, hr_swiglu)                                                \
    HR__CUDA_BOTH(X, SWIGLU_BACK, hr_swiglu_back)

#define HR__CUDA_LOSS_MAP(X)                                                           \
    HR__CUDA_BOTH(X, LOG_SUM_EXP, hr_log_sum_exp)                                      \
    HR__CUDA_BOTH(X, LOSS_SUM, hr_loss_sum)                                            \
    HR__CUDA_BOTH(X, CROSS_ENTROPY_BACK, hr_cross_entropy_back)                        \
    X(SUM_SQUARES, hr_sum_squares)                                                     \
    X(SUM_PARTS, hr_sum_parts)                                                         \
    X(ADAMW, hr_adamw)

#define HR__CUDA_ROUTING_MAP(X)                                                        \
    HR__CUDA_BOTH(X, SOFTMAX, hr_softmax)                                              \
    X(CHOOSE, hr_choose)                                                               \
    X(BALANCE, hr_balance)                                                             \
    HR__CUDA_BOTH(X, ROUTER_BACK, hr_router_back)                                      \
    X(SORT_CHOICES, hr_sort_choices)

#define HR__CUDA_ATTENTION_MAP(X)                                                      \
    X(ROTARY, hr_rotary)                                                               \
    HR__CUDA_BOTH(X, ATTENTION, hr_attention)                                          \
    HR__CUDA_BOTH(X, ATTENTION_WIDE, hr_attention_wide)                                \
    HR__CUDA_BOTH(X, ATTENTION_DOT, hr_attention_dot)                                  \
    HR__CUDA_BOTH(X, ATTENTION_DQ, hr_attention_dq)                                    \
    HR__CUDA_BOTH(X, ATTENTION_DQ_WIDE, hr_attention_dq_wide)                          \
    HR__CUDA_BOTH(X, ATTENTION_DKV, hr_attention_dkv)                                  \
    HR__CUDA_BOTH(X, ATTENTION_DKV_WIDE, hr_attention_dkv_wide)

#define HR__CUDA_GROUPED_MAP(X)                                                        \
    HR__CUDA_BOTH(X, GROUPED, hr_grouped)                                              \
    HR__CUDA_BOTH(X, GROUPED_DX, hr_grouped_dx)                                        \
    HR__CUDA_BOTH(X, GROUPED_DW, hr_grouped_dw)

#define HR__OPS_CUDA_MAP(X)                                                            \
    HR__CUDA_ROWS_MAP(X)                                                               \
    HR__CUDA_LOSS_MAP(X)                                                               \
    HR__CUDA_ROUTING_MAP(X)                                                            \
    HR__CUDA_ATTENTION_MAP(X)                                                          \
    HR__CUDA_GROUPED_MAP(X)

#endif
