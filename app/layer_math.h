/* layer_math.h: what a transformer layer computes, in pieces, without streams, nodes or ranks. The slots of
 * layer.c and the plain model of plain.c are made of the same pieces.
 *
 * Letters: N tokens, C width, E experts, L experts of this rank, D hidden width of an expert.
 */
#ifndef HR_APP_LAYER_MATH_H
#define HR_APP_LAYER_MATH_H
#include "headrace/ops.h"
#include "options.h"
#include "params.h"

/* Weights are borrowed from the parameters; those that a kind of layer lacks are NULL. */
typedef struct hr_app_layer {
    const model_shape *shape;
    int index;
    bool moe;
    hr_tensor *norm1, *qkv, *proj;     /* [C], [3C,C], [C,C] */
    hr_tensor *norm2;                  /* [C] */
    hr_tensor *router;                 /* [E,C] */
    hr_tensor *expert_in, *expert_out; /* [L,2D,C], [L,C,D] */
    hr_tensor *mlp_in, *mlp_out;       /* dense layer or shared expert: [2F,C], [C,F] */
    float aux_scale;    /* load-balance loss of one sequence in the gradient */
    hr_tensor *aux_sum; /* [1], for the log; may be NULL */
} hr_app_layer;

/* x + attention(norm(x)). */
hr_status hr_app_attention(const hr_app_layer *l, hr_tensor *x, hr_wgrad_queue *q,
                           hr_tensor **out);
/* SwiGLU of the dense layer or the shared expert, on what norm2 gave. */
hr_status hr_app_mlp(const hr_app_layer *l, hr_tensor *n, hr_wgrad_queue *q,
                     hr_tensor **out);
/* Probabilities and experts [N,K] of what norm2 gave. */
hr_status hr_app_route(const hr_app_layer *l, hr_tensor *n, hr_tensor **probs,
                       hr_tensor **index);
/* Rows sorted by expert, each weighed inside by its probability; in the plain model. */
hr_status hr_app_experts(const hr_app_layer *l, hr_tensor *x, hr_tensor *probs,
                         const int64_t *offsets, hr_wgrad_queue *q, hr_tensor **out);
hr_status hr_app_norm(hr_tensor *x, hr_tensor *gain, hr_tensor **out);

#endif
