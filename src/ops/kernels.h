/* The kernels of the operators, and their arguments. Each has a form for host devices (ops/host/) and one
 * for CUDA (ops/cuda/), which take the same struct; kernel_table.c puts them together. Letters as in
 * headrace/ops.h. */
#ifndef HR_KERNELS_H
#define HR_KERNELS_H
#include "device/kernel.h"
#include "ops/formulas.h"

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
    float *out;
    const float *a, *b;
    int64_t count;
} hr__add_args;

/* forward: rows = table[ids]; backward: table[ids] += rows */
typedef struct hr__embedding_args {
    float *table, *rows;
    const int32_t *ids;
    int64_t n, width, vocabulary;
} hr__embedding_args;

typedef struct hr__rmsnorm_args {
    const float *x, *g, *dy;
    float *y;       /* dx in backward */
    float *dg;      /* added to; NULL: not wanted */
    float *partial; /* [parts, width], if dg */
    int64_t n, width;
    float eps;
} hr__rmsnorm_args;

/* c [m,n] = a [m,k] b [k,n], or c += it; a_across: a is stored as [k,m]; b_across: as [n,k] */
typedef struct hr__gemm_args {
    float *c;
    const float *a, *b;
    int64_t m, n, k;
    bool a_across, b_across, add;
} hr__gemm_args;

/* y = x w^T; dx: x = y w; dw: w += y^T x; by expert over rows offsets[l]..offsets[l+1]-1 */
typedef struct hr__grouped_args {
    float *x, *w, *y;
    const int64_t *offsets;
    int64_t rows, experts, in, out; /* rows: room for them, in x and y */
} hr__grouped_args;

typedef struct hr__attention_args {
    const float *qkv, *dout;
    float *dqkv, *out;
    float *lse; /* [sequences, heads, T] */
    int64_t sequences, seq_len, heads, head_width;
    float rope_base;
} hr__attention_args;

typedef struct hr__swiglu_args {
    const float *x, *scale, *dy;
    float *y; /* dx in backward */
    float *dscale;
    int64_t n, width;
    const int64_t *live; /* device memory: rows that there are; NULL: n */
} hr__swiglu_args;

typedef struct hr__router_args {
    const float *logits;
    float *probs; /* backward: their gradient */
    int32_t *index;
    float *dlogits;
    float *aux_sum, *losses; /* losses by sequence, then added to aux_sum; or NULL */
    int64_t n, experts, top_k, seq_len;
    float aux_scale;
    bool normalize;
} hr__router_args;

typedef struct hr__sort_args {
    const int32_t *index;
    int32_t *source, *slot, *counts;
    int64_t n, top_k, experts;
} hr__sort_args;

/* gather: out[i] = x[map[i]]; combine: out[i] = sum over k of x[map[i,k]], in order */
typedef struct hr__rows_args {
    const float *x;
    float *out;
    const int32_t *map;
    int64_t n, top_k, from, width;
} hr__rows_args;

typedef struct hr__probs_args {
    float *choices, *slots;
    const int32_t *slot;
    int64_t count;
    bool back;
} hr__probs_args;

typedef struct hr__cross_entropy_args {
    const float *logits;
    const int32_t *targets;
    float *lse, *loss; /* backward: the loss's gradient */
    float *dlogits;
    int64_t n, vocabulary;
    float scale;
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
    X(sum_squares)                                                                     \
    X(adamw)

#define HR__KERNEL_FORMS(name)                                                         \
    hr_status hr__host_##name(const void *args, hr_team *team);                        \
    hr_status hr__cuda_##name(hr_stream *s, const void *args);                         \
    extern const hr__kernel hr__k_##name;
HR__OP_KERNELS(HR__KERNEL_FORMS)
#undef HR__KERNEL_FORMS

#endif
