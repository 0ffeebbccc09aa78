/* The operators once more: plain loops in double, slow and short. Letters as in headrace/ops.h. */
#ifndef HR_OPS_REFERENCE_H
#define HR_OPS_REFERENCE_H
#include <stdbool.h>
#include <stdint.h>

void ref_linear(const double *x, const double *w, int64_t n, int64_t in, int64_t out,
                double *y);
void ref_rmsnorm(const double *x, const double *g, int64_t n, int64_t c, double eps,
                 double *y);
void ref_attention(const double *qkv, int64_t n, int64_t c, int64_t heads,
                   int64_t seq_len, double base, double *out);
void ref_swiglu(const double *x, const double *scale, int64_t n, int64_t d, double *y);
void ref_softmax(const double *x, int64_t n, double *p);
double ref_cross_entropy(const double *logits, const int32_t *targets, int64_t n,
                         int64_t v, double scale);

struct ref_router {
    int64_t n, experts, top_k, seq_len;
    double aux_scale;
    bool normalize;
};
/* Returns aux_scale times the load-balance losses of all sequences. `index` may be NULL. */
double ref_router(const struct ref_router *r, const double *logits, double *probs,
                  int32_t *index);

#endif
