/* The kernels of moe, and their arguments: plain C that is C++ too, for .cu files. P ranks, E experts, L local
 * ones, R rows received. */
#ifndef HR_MOE_KERNELS_H
#define HR_MOE_KERNELS_H
#include <stdint.h>

/* The greatest overflow that was noted. */
typedef struct hr__overflow_record {
    int64_t needed; /* rows; 0: none */
    int32_t layer, microbatch, rank, unused;
    int32_t counts[]; /* [L] */
} hr__overflow_record;

/* Maps between rows as they arrive (by rank, then by expert) and as experts take them (by expert, then by
 * rank); see expert_order.c. */
typedef struct hr__map_args {
    const int32_t *counts;  /* [P][E] */
    int32_t *source, *slot; /* [R]: arrived row of a sorted one, and the reverse */
    int32_t ranks, experts, first, local;
} hr__map_args;

/* Where each expert's rows end, and the worst overflow of all ranks; see capacity.c. */
typedef struct hr__limits_args {
    const int32_t *counts; /* [P][E] */
    int64_t *limits;       /* [L+1] */
    hr__overflow_record *worst;
    int64_t capacity;
    int32_t ranks, experts, rank, local, layer, microbatch;
} hr__limits_args;

/* A copy of the rows that there are; `rows` is how many there may be. */
typedef struct hr__live_args {
    void *to;
    const void *from;
    const int64_t *live; /* device memory: how many rows */
    int64_t width, rows;
    int32_t item; /* bytes of a number: 2 or 4 */
} hr__live_args;

#ifndef __cplusplus
#include "device/kernel.h"
/* CUDA forms, where they are built (cuda/launch_moe.c). */
hr_status hr__cuda_moe_map(hr_stream *s, const void *args);
hr_status hr__cuda_moe_limits(hr_stream *s, const void *args);
hr_status hr__cuda_moe_live(hr_stream *s, const void *args);
#endif

#endif
