/* Parameters of kernels that are structs, and sizes that launchers and kernels of ops share. */
#ifndef HR_CUDA_PARAMS_H
#define HR_CUDA_PARAMS_H
#include <stdint.h>

/* Of all heads of all sequences; what a kernel does not use is NULL. */
typedef struct hr__attention_shape {
    const void *qkv, *dout; /* of the kernel's type */
    const float *rotary;
    const float *lse, *dot; /* [sequences, heads, T] */
    int64_t seq_len;
    int heads, d;
} hr__attention_shape;

enum {
    HR_TILE = 32,        /* attention: keys (backward: or queries) of a tile */
    HR_PASS = 128,       /* its columns that are looked at together */
    HR_HEAD_WIDTH = 256, /* at most */
    /* Rows that a block of it works for, forward and backward; and where heads are wider than a pass. */
    HR_ROWS = 32,
    HR_BACK_ROWS = 16,
    HR_WIDE_ROWS = 16,
    HR_WIDE_BACK_ROWS = 8,
    HR_SIDE = 64, /* of a tile of a product */
};

#endif
