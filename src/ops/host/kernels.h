/* The kernels of the operators on the host, and their arguments. A kernel cuts its work into parts
 * whose limits follow from the shapes alone, so that bits do not depend on the team, and leaves
 * the arithmetic to hr__vec or to the BLAS. Letters as in headrace/ops.h. */
#ifndef HR_KERNELS_H
#define HR_KERNELS_H
#include "headrace/device.h"
#include "ops/host/vec.h"

/* Sizes of a part. */
enum {
    HR__FLAT_ITEMS = 1 << 16, /* of element by element work */
    HR__NORM_ROWS = 256,      /* of rmsnorm backward, whose sums are by part */
};

static inline int64_t hr__parts(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

/* `part` for each of n parts; a single one on the calling thread. */
HR_RESULT hr_status hr__parts_run(hr_team *team, int64_t n, hr_team_part part,
                                  void *arg);

/* `count` numbers in 0..limit-1 (or -1 too, if `or_none`); else ERR_INVALID, naming the first. */
HR_RESULT hr_status hr__indices_check(const char *op, const char *what,
                                      const int32_t *index, int64_t count,
                                      int64_t limit, bool or_none);

/* Memory of the calling thread, 64-byte aligned, at least `bytes`; its contents last until the next
 * call. Freed with the thread. NULL: no memory. */
void *hr__scratch(size_t bytes);

/* Cosines and sines of rotary positions: for each position below `seq_len`, width/2 cosines, then
 * width/2 sines. Made once, kept for the life of the process. */
HR_RESULT hr_status hr__rotary_table(int64_t seq_len, int64_t width, float base,
                                     const float **out);

typedef struct hr__add_args {
    float *out;
    const float *a, *b;
    int64_t count;
} hr__add_args;
hr_status hr__host_add(const void *args, hr_team *team);

/* forward: rows = table[ids]; backward: table[ids] += rows */
typedef struct hr__embedding_args {
    float *table, *rows;
    const int32_t *ids;
    int64_t n, width, vocabulary;
} hr__embedding_args;
hr_status hr__host_embedding(const void *args, hr_team *team);
hr_status hr__host_embedding_back(const void *args, hr_team *team);

typedef struct hr__rmsnorm_args {
    const float *x, *g, *dy;
    float *y;       /* dx in backward */
    float *dg;      /* added to; NULL: not wanted */
    float *partial; /* [parts, width], if dg */
    int64_t n, width;
    float eps;
} hr__rmsnorm_args;
hr_status hr__host_rmsnorm(const void *args, hr_team *team);
hr_status hr__host_rmsnorm_back(const void *args, hr_team *team);

/* c [m,n] = a [m,k] b [k,n], or c += it; a_across: a is stored as [k,m]; b_across: as [n,k] */
typedef struct hr__gemm_args {
    float *c;
    const float *a, *b;
    int64_t m, n, k;
    bool a_across, b_across, add;
} hr__gemm_args;
hr_status hr__host_gemm(const void *args, hr_team *team);

/* y = x w^T; dx: x = y w; dw: w += y^T x; by expert over rows offsets[l]..offsets[l+1]-1 */
typedef struct hr__grouped_args {
    float *x, *w, *y;
    const int64_t *offsets;
    int64_t experts, in, out;
} hr__grouped_args;
hr_status hr__host_grouped(const void *args, hr_team *team);
hr_status hr__host_grouped_dx(const void *args, hr_team *team);
hr_status hr__host_grouped_dw(const void *args, hr_team *team);

/* Numbers of the host, carried to the device in stream order. */
enum { HR__NUMBERS = 14 };
typedef struct hr__numbers_args {
    int64_t *to;
    int64_t count;
    int64_t number[HR__NUMBERS];
} hr__numbers_args;
hr_status hr__host_numbers(const void *args, hr_team *team);

typedef struct hr__attention_args {
    const float *qkv, *dout, *rotary;
    float *dqkv, *out;
    float *lse; /* [sequences, heads, T] */
    int64_t sequences, seq_len, heads, head_width;
} hr__attention_args;
hr_status hr__host_attention(const void *args, hr_team *team);
hr_status hr__host_attention_back(const void *args, hr_team *team);

typedef struct hr__swiglu_args {
    const float *x, *scale, *dy;
    float *y; /* dx in backward */
    float *dscale;
    int64_t n, width;
    const int64_t *live; /* device memory: rows that there are; NULL: n */
} hr__swiglu_args;
hr_status hr__host_swiglu(const void *args, hr_team *team);
hr_status hr__host_swiglu_back(const void *args, hr_team *team);

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
hr_status hr__host_router(const void *args, hr_team *team);
hr_status hr__host_router_back(const void *args, hr_team *team);

typedef struct hr__sort_args {
    const int32_t *index;
    int32_t *source, *slot, *counts;
    int64_t n, top_k, experts;
} hr__sort_args;
hr_status hr__host_sort_choices(const void *args, hr_team *team);

/* gather: out[i] = x[map[i]]; combine: out[i] = sum over k of x[map[i,k]], in order */
typedef struct hr__rows_args {
    const float *x;
    float *out;
    const int32_t *map;
    int64_t n, top_k, from, width;
} hr__rows_args;
hr_status hr__host_gather(const void *args, hr_team *team);
hr_status hr__host_combine(const void *args, hr_team *team);

typedef struct hr__probs_args {
    float *choices, *slots;
    const int32_t *slot;
    int64_t count;
    bool back;
} hr__probs_args;
hr_status hr__host_permute_probs(const void *args, hr_team *team);

typedef struct hr__cross_entropy_args {
    const float *logits;
    const int32_t *targets;
    float *lse, *loss; /* backward: the loss's gradient */
    float *dlogits;
    int64_t n, vocabulary;
    float scale;
} hr__cross_entropy_args;
hr_status hr__host_cross_entropy(const void *args, hr_team *team);
hr_status hr__host_cross_entropy_back(const void *args, hr_team *team);

typedef struct hr__sum_squares_args {
    const float *x;
    double *sum, *partial;
    int64_t count;
} hr__sum_squares_args;
hr_status hr__host_sum_squares(const void *args, hr_team *team);

typedef struct hr__adamw_args {
    float *w;
    const float *g;
    float *m, *v;
    int64_t count;
    hr__adamw_rate rate;
} hr__adamw_args;
hr_status hr__host_adamw(const void *args, hr_team *team);

#endif
