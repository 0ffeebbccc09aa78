/* The kernels of the operators, and their arguments. Each has a form for host devices (ops/host/) and one
 * for CUDA (ops/cuda/), which take the same struct; kernel_table.c puts them together. Letters as in
 * headrace/ops.h.
 *
 * What is `hr__real *` points at numbers of the arguments' `type`, f32 or bf16; what is `float *` at f32 in
 * either case. */
#ifndef HR_KERNELS_H
#define HR_KERNELS_H
#include "device/kernel.h"
#include "headrace/tensor.h" /* hr_dtype */
#include "ops/formulas.h"

typedef float hr__real; /* to be followed only where `type` is HR_F32 */

/* Sizes of a part. */
enum {
    HR__FLAT_ITEMS = 1 << 16, /* of element by element work */
    HR__NORM_ROWS = 256,      /* of rmsnorm backward, whose sums are by part */
};

static inline int64_t hr__parts(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

typedef struct hr__add_args {
    hr__real *out;
    const hr__real *a, *b;
    int64_t count;
    hr_dtype type;
} hr__add_args;

/* forward: rows = table[ids]; backward: table[ids] += rows, where table is f32 */
typedef struct hr__embedding_args {
    hr__real *table, *rows;
    const int32_t *ids;
    int64_t n, width, vocabulary;
    hr_dtype type;
} hr__embedding_args;

typedef struct hr__rmsnorm_args {
    const hr__real *x, *g, *dy;
    hr__real *y;    /* dx in backward */
    float *dg;      /* added to; NULL: not wanted */
    float *partial; /* [parts, width], if dg */
    int64_t n, width;
    float eps;
    hr_dtype type;
} hr__rmsnorm_args;

/* c [m,n] = a [m,k] b [k,n], or c += it; a_across: a is stored as [k,m]; b_across: as [n,k]. c is of
 * `c_type`: of the operands', or f32. */
typedef struct hr__gemm_args {
    hr__real *c;
    const hr__real *a, *b;
    int64_t m, n, k;
    bool a_across, b_across, add;
    hr_dtype type, c_type;
} hr__gemm_args;

/* y = x w^T; dx: x = y w; dw: w += y^T x, where w is f32; by expert over rows offsets[l]..offsets[l+1]-1 */
typedef struct hr__grouped_args {
    hr__real *x, *w, *y;
    const int64_t *offsets;
    int64_t rows, experts, in, out; /* rows: room for them, in x and y */
    hr_dtype type;
} hr__grouped_args;

typedef struct hr__attention_args {
    const hr__real *qkv, *dout;
    hr__real *dqkv, *out;
    float *lse; /* [sequences, heads, T] */
    int64_t sequences, seq_len, heads, head_width;
    float rope_base;
    hr_dtype type;
} hr__attention_args;

typedef struct hr__swiglu_args {
    const hr__real *x, *dy;
    const float *scale;
    hr__real *y; /* dx in backward */
    float *dscale;
    int64_t n, width;
    const int64_t *live; /* device memory: rows that there are; NULL: n */
    hr_dtype type;
} hr__swiglu_args;

typedef struct hr__router_args {
    const hr__real *logits;
    float *probs; /* backward: their gradient */
    int32_t *index;
    hr__real *dlogits;
    float *aux_sum, *losses; /* losses by sequence, then added to aux_sum; or NULL */
    int64_t n, experts, top_k, seq_len;
    float aux_scale;
    bool normalize;
    hr_dtype type;
} hr__router_args;

typedef struct hr__sort_args {
    const int32_t *index;
    int32_t *source, *slot, *counts;
    int64_t n, top_k, experts;
} hr__sort_args;

/* gather: out[i] = x[map[i]]; combine: out[i] = sum over k of x[map[i,k]], in order */
typedef struct hr__rows_args {
    const hr__real *x;
    hr__real *out;
    const int32_t *map;
    int64_t n, top_k, from, width;
    hr_dtype type;
} hr__rows_args;

typedef struct hr__probs_args {
    float *choices, *slots;
    const int32_t *slot;
    int64_t count;
    bool back;
} hr__probs_args;

typedef struct hr__cross_entropy_args {
    const hr__real *logits;
    const int32_t *targets;
    float *lse, *loss; /* backward: the loss's gradient */
    hr__real *dlogits;
    int64_t n, vocabulary;
    float scale;
    hr_dtype type;
} hr__cross_entropy_args;

typedef struct hr__sum_squares_args {
    const float *x;
    double *sum, *partial;
    int64_t count;
} hr__sum_squares_args;

typedef struct hr__adamw_args {
    float *w;
    const float *g;
    float *m, *v;
    int64_t count;
    hr__adamw_rate rate;
} hr__adamw_args;

/* to = from, of which one is f32 and the other bf16 */
typedef struct hr__convert_args {
    void *to;
    const void *from;
    int64_t count;
    hr_dtype type; /* of `to` */
} hr__convert_args;

/* ---- which there are -------------------------------------------------------------------- */
/* hr__k_NAME is launched; hr__host_NAME and hr__cuda_NAME are its forms. */
#define HR__OP_KERNELS(X)                                                              \
    X(add)                                                                             \
    X(embedding)                                                                       \
    X(embedding_back)                                                                  \
    X(rmsnorm)                                                                         \
    X(rmsnorm_back)                                                                    \
    X(gemm)                                                                            \
    X(grouped)                                                                         \
    X(grouped_dx)                                                                      \
    X(grouped_dw)                                                                      \
    X(attention)                                                                       \
    X(attention_back)                                                                  \
    X(swiglu)                                                                          \
    X(swiglu_back)                                                                     \
    X(router)                                                                          \
    X(router_back)                                                                     \
    X(sort_choices)                                                                    \
    X(gather)                                                                          \
    X(combine)                                                                         \
    X(permute_probs)                                                                   \
    X(cross_entropy)                                                                   \
    X(cross_entropy_back)                                                              \
    X(convert)                                                                         \
    X(sum_squares)                                                                     \
    X(adamw)

#define HR__KERNEL_FORMS(name)                                                         \
    hr_status hr__host_##name(const void *args, hr_team *team);                        \
    hr_status hr__cuda_##name(hr_stream *s, const void *args);                         \
    extern const hr__kernel hr__k_##name;
HR__OP_KERNELS(HR__KERNEL_FORMS)
#undef HR__KERNEL_FORMS

#endif
