/* Parameters of kernels that are structs, and sizes that launchers and kernels of ops share. */
#ifndef HR_CUDA_PARAMS_H
#define HR_CUDA_PARAMS_H
#include <stdint.h>

/* Of all heads of all sequences; what a kernel does not use is NULL. */
typedef struct hr__attention_shape {
    const float *qkv, *dout, *rotary;
    const float *lse, *dot; /* [sequences, heads, T] */
    int64_t seq_len;
    int heads, d;
} hr__attention_shape;

enum {
    HR_TILE = 32,        /* attention: keys (backward: or queries) of a tile */
    HR_BACK_ROWS = 16,   /* rows that a block of its backward works for */
    HR_HEAD_WIDTH = 128, /* at most */
    HR_SIDE = 64,        /* of a tile of a product */
};

#endif
