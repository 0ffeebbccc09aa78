/* Arithmetic on rows, compiled once an instruction set (vec_base.c, vec_avx2.c, vec_avx512.c) and
 * chosen at run time. Plain loops over memory: no threads, no tensors, no failure. The bits may
 * differ between instruction sets, never between calls. */
#ifndef HR_VEC_H
#define HR_VEC_H
#include "ops/formulas.h" /* hr__adamw_rate */
#include <stdbool.h>
#include <stddef.h>

/* One head of one sequence: T rows of q, k, v `stride` floats apart, of the gradient alike; rows of
 * out and dout `out_stride` apart. `rotary` holds width/2 cosines and width/2 sines a position. */
typedef struct hr__head {
    const float *q, *k, *v;
    float *dq, *dk, *dv; /* backward */
    int64_t stride;
    float *out;
    const float *dout; /* backward */
    int64_t out_stride;
    float *lse; /* [T] */
    const float *rotary;
    int64_t seq_len, width;
    float *scratch; /* attention_scratch() floats, 64-byte aligned */
} hr__head;

typedef struct hr__vec {
    const char *name;
    void (*add)(float *out, const float *a, const float *b, int64_t count);
    void (*widen)(float *to, const hr__bf16 *from, int64_t count);
    void (*narrow)(hr__bf16 *to, const float *from, int64_t count);
    void (*exp)(float *out, const float *x, int64_t count);
    void (*rmsnorm)(float *y, const float *x, const float *g, int64_t rows,
                    int64_t width, float eps);
    /* dg (may be NULL) gets the sum of these rows. */
    void (*rmsnorm_back)(float *dx, float *dg, const float *x, const float *g,
                         const float *dy, int64_t rows, int64_t width, float eps);
    void (*swiglu)(float *y, const float *x, const float *scale, int64_t rows,
                   int64_t width);
    void (*swiglu_back)(float *dx, float *dscale, const float *x, const float *scale,
                        const float *dy, int64_t rows, int64_t width);
    void (*softmax)(float *p, const float *x, int64_t rows, int64_t width);
    void (*log_sum_exp)(float *lse, const float *x, int64_t rows, int64_t width);
    /* dx = factor * (softmax(x) - one at the target); zero rows for target -1. */
    void (*cross_entropy_back)(float *dx, const float *x, const float *lse,
                               const int32_t *targets, float factor, int64_t rows,
                               int64_t width);
    double (*sum_squares)(const float *x, int64_t count);
    void (*adamw)(float *w, const float *g, float *m, float *v, int64_t count,
                  const hr__adamw_rate *rate);
    size_t (*attention_scratch)(int64_t seq_len, int64_t width, bool backward);
    void (*attention)(const hr__head *h);
    void (*attention_back)(const hr__head *h);
} hr__vec;

/* The best one this processor has. */
const hr__vec *hr__vec_best(void);
/* All of them, from the plainest up; NULL where this processor lacks it, or past the end. */
enum { HR__VEC_KINDS = 3 };
const hr__vec *hr__vec_kind(int i);

#endif
