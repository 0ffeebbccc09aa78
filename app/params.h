/* params.h: the parameters of the model: named leaves over a few flat buffers.
 *
 * What is trained alike lies side by side, so that one optimiser step serves a whole region:
 *
 *     DECAYED   matrices that every rank has     reduced over dp, weight decay
 *     PLAIN     norm gains, embeddings           reduced over dp, no weight decay
 *     EXPERT    this rank's experts              reduced over dp / ep, weight decay
 *
 * Values come from a counter (seed, name, index in the whole parameter), so that they depend
 * neither on the number of ranks nor on the order of creation.
 */
#ifndef HR_APP_PARAMS_H
#define HR_APP_PARAMS_H
#include "headrace/autograd.h"

typedef enum hr_app_region { DECAYED, PLAIN, EXPERT, REGIONS } hr_app_region;

/* A whole parameter, all ranks together. */
typedef struct hr_app_spec {
    char name[48];
    hr_app_region region;
    int ndim;
    int64_t shape[HR_MAX_DIMS]; /* an expert's first dimension is experts */
    float std; /* of the normal distribution it starts from; 0: all ones */
} hr_app_spec;

/* What a rank has of it. */
typedef struct hr_app_param {
    char name[48];
    hr_app_region region;
    int ndim;
    int64_t shape[HR_MAX_DIMS];
    int64_t offset; /* in its region, elements */
    int64_t first;  /* index of its first element in the whole parameter */
    float std;
    int entry;    /* in the list of the whole model */
    hr_tensor *w; /* leaf; its gradient is a part of the region's */
} hr_app_param;

typedef struct hr_app_params {
    hr_app_param *list;
    int n, cap;
    int64_t count[REGIONS];
    hr_tensor *w[REGIONS], *g[REGIONS]; /* flat, f32 */
    /* Where the model's numbers are bf16: what the leaves are parts of, made of `w` by
     * hr_app_params_round(). Else NULL, and they are parts of `w`. */
    hr_tensor *rounded[REGIONS];
} hr_app_params;

/* Declare a parameter; returns its index, or -1 without memory. Of experts this rank has part `rank`
 * of `ranks`. */
int hr_app_params_add(hr_app_params *p, const hr_app_spec *whole, int rank, int ranks);

/* Allocate on the current stream, fill with start values, zero gradients. `train` 0: no gradients. `type` is
 * that of the leaves. Blocks until done. */
HR_RESULT hr_status hr_app_params_build(hr_app_params *p, uint64_t seed, int train,
                                        hr_dtype type);
/* After `w` has been written: leaves have its values. */
HR_RESULT hr_status hr_app_params_round(const hr_app_params *p);
HR_RESULT hr_status hr_app_params_zero_grad(hr_app_params *p);
void hr_app_params_fini(hr_app_params *p);
int64_t hr_app_param_count(const hr_app_param *p);
/* A tensor over `count` elements of a flat f32 one from `at` on, with a claim of its own. */
HR_RESULT hr_status hr_app_flat_part(hr_tensor *flat, int64_t at, int64_t count,
                                     hr_tensor **out);

#endif
