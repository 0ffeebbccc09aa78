/* Every kernel of the .cu files of this room, a list a file. */
#ifndef HR_CUDA_OPS_LIST_H
#define HR_CUDA_OPS_LIST_H

#define HR__CUDA_ROWS_MAP(X)                                                           \
    X(ADD, hr_add)                                                                     \
    X(GATHER, hr_gather)                                                               \
    X(COMBINE, hr_combine)                                                             \
    X(EMBEDDING_BACK, hr_embedding_back)                                               \
    X(PERMUTE_PROBS, hr_permute_probs)                                                 \
    X(RMSNORM, hr_rmsnorm)                                                             \
    X(RMSNORM_DX, hr_rmsnorm_dx)                                                       \
    X(RMSNORM_PART, hr_rmsnorm_part)                                                   \
    X(ADD_ROWS, hr_add_rows)                                                           \
    X(SWIGLU, hr_swiglu)                                                               \
    X(SWIGLU_BACK, hr_swiglu_back)

#define HR__CUDA_LOSS_MAP(X)                                                           \
    X(LOG_SUM_EXP, hr_log_sum_exp)                                                     \
    X(LOSS_SUM, hr_loss_sum)                                                           \
    X(CROSS_ENTROPY_BACK, hr_cross_entropy_back)                                       \
    X(SUM_SQUARES, hr_sum_squares)                                                     \
    X(SUM_PARTS, hr_sum_parts)                                                         \
    X(ADAMW, hr_adamw)

#define HR__CUDA_ROUTING_MAP(X)                                                        \
    X(SOFTMAX, hr_softmax)                                                             \
    X(CHOOSE, hr_choose)                                                               \
    X(BALANCE, hr_balance)                                                             \
    X(ROUTER_BACK, hr_router_back)                                                     \
    X(SORT_CHOICES, hr_sort_choices)

#define HR__CUDA_ATTENTION_MAP(X)                                                      \
    X(ROTARY, hr_rotary)                                                               \
    X(ATTENTION, hr_attention)                                                         \
    X(ATTENTION_DOT, hr_attention_dot)                                                 \
    X(ATTENTION_DQ, hr_attention_dq)                                                   \
    X(ATTENTION_DKV, hr_attention_dkv)

#define HR__CUDA_GROUPED_MAP(X)                                                        \
    X(GROUPED, hr_grouped)                                                             \
    X(GROUPED_DX, hr_grouped_dx)                                                       \
    X(GROUPED_DW, hr_grouped_dw)

#define HR__OPS_CUDA_MAP(X)                                                            \
    HR__CUDA_ROWS_MAP(X)                                                               \
    HR__CUDA_LOSS_MAP(X)                                                               \
    HR__CUDA_ROUTING_MAP(X)                                                            \
    HR__CUDA_ATTENTION_MAP(X)                                                          \
    HR__CUDA_GROUPED_MAP(X)

#endif
