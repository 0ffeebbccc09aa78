/* headrace/ops.h: differentiable operators, and the optimiser's kernels.
 *
 * Letters: N rows (tokens), C width, T tokens of a sequence, V vocabulary, E experts, K choices a
 * token, D hidden width, R rows received by this rank's experts, L local experts. Tensors are
 * dense, indices i32; inputs may be views.
 *
 * Types: activations and weights (x, a, b, w, g, qkv, logits) are f32, or all those of one call
 * bf16, and so are the result and their gradients. What is bf16 is computed with as f32, sums
 * included, and rounded once, when it is stored: to the nearest, ties to even, NaN stays NaN.
 * Always f32 are the gradients of weights (hr_grad_buffer()), the router's probabilities and rows'
 * scales, losses, statistics kept for backward, and all that the optimiser reads and
 * writes: bf16 weights have masters in f32, and are made of them by hr_op_convert().
 *
 * Each launches on the current stream and returns at once. *out is the caller's, one reference;
 * it requires grad where an input does. Gradients of weights (w, g) are added to
 * hr_grad_buffer() of the weight, always by the same path; `queue` (may be NULL) takes the
 * product for later. Zero rows are ordinary everywhere.
 * Errors: ERR_INVALID naming operator, operand and both shapes; ERR_STATE "freed"; ERR_NOMEM.
 */
#ifndef HR_OPS_H
#define HR_OPS_H
#include "headrace/autograd.h"
HR_BEGIN_C

/* x in another shape, as a view of it. */
HR_API HR_RESULT hr_status hr_op_view(hr_tensor *x, int ndim, const int64_t *shape,
                                      hr_tensor **out);

/* a + b, same shapes. */
HR_API HR_RESULT hr_status hr_op_add(hr_tensor *a, hr_tensor *b, hr_tensor **out);

/* out[n] = w[ids[n]]: w [V,C], ids [N] -> [N,C]. An id outside 0..V-1 fails the device. */
HR_API HR_RESULT hr_status hr_op_embedding(hr_tensor *w, hr_tensor *ids,
                                           hr_tensor **out);

/* x / sqrt(mean(x^2) + eps) * g, by row: x [N,C], g [C] (Zhang & Sennrich 2019). */
HR_API HR_RESULT hr_status hr_op_rmsnorm(hr_tensor *x, hr_tensor *g, float eps,
                                         hr_tensor **out);

/* x w^T: x [N,I], w [O,I] -> [N,O]. */
HR_API HR_RESULT hr_status hr_op_linear(hr_tensor *x, hr_tensor *w,
                                        hr_wgrad_queue *queue, hr_tensor **out);

/* Causal self-attention with rotary positions (Su et al. 2021; pairs (i, i + half)), in blocks with
 * an online softmax, so that no T x T matrix is kept: qkv [N,3C] holds q, k, v side by side,
 * N = sequences * T, C = heads * an even head width -> [N,C]. ERR_UNSUPPORTED "head_width", which fails
 * the device: on CUDA a head over 256 wide. */
HR_API HR_RESULT hr_status hr_op_attention(hr_tensor *qkv, int heads, int64_t seq_len,
                                           float rope_base, hr_tensor **out);

/* silu(a) * b where x = [a | b]: x [N,2D] -> [N,D] (Shazeer 2020). `scale` [N] (may be NULL)
 * multiplies each row, and gets its gradient. */
HR_API HR_RESULT hr_status hr_op_swiglu(hr_tensor *x, hr_tensor *scale,
                                        hr_tensor **out);

/* One product an expert over sorted rows: x [R,I], w [L,O,I]; rows offsets[l]..offsets[l+1]-1
 * meet w[l] -> [R,O]. `offsets` (L+1 host numbers, 0 first, R last, never falling) is copied. */
HR_API HR_RESULT hr_status hr_op_grouped_linear(hr_tensor *x, hr_tensor *w,
                                                const int64_t *offsets,
                                                hr_wgrad_queue *queue, hr_tensor **out);

/* ---- where only device memory knows how many rows there are --------------------------------
 * x has room for R rows, and `offsets` (I64 [L+1] in device memory, on a stream that is ordered before)
 * says which there are; what lies past the last one is slack, neither read nor written. */
/* As hr_op_grouped_linear(). With `into` ([R,O], may be NULL) the result lies there, and *out is an
 * alias of it with the graph; the graph itself keeps nothing of it. */
HR_API HR_RESULT hr_status hr_op_grouped_linear_slack(hr_tensor *x, hr_tensor *w,
                                                      hr_tensor *offsets,
                                                      hr_wgrad_queue *queue,
                                                      hr_tensor *into, hr_tensor **out);
/* As hr_op_swiglu(). */
HR_API HR_RESULT hr_status hr_op_swiglu_slack(hr_tensor *x, hr_tensor *scale,
                                              hr_tensor *offsets, hr_tensor **out);

/* ---- routing -------------------------------------------------------------------------- */
typedef struct hr_router_opts {
    size_t size;
    int top_k;       /* 1..E; ties go to the lower expert */
    bool normalize;  /* the chosen probabilities of a token are made to sum to 1 */
    int64_t seq_len; /* T: the load-balance loss is computed by sequence */
    float aux_scale; /* weight of that loss of one sequence in the gradient; 0: none */
    /* f32 [1], may be NULL: aux_scale times the loss is added to it. */
    hr_tensor *aux_sum;
} hr_router_opts;

/* Softmax over the experts, then the top K: logits [N,E] -> probs [N,K] (differentiable) and
 * index [N,K]. The load-balance loss of a sequence is E / (K T) * sum_e count_e * mean_t p_te
 * (Switch Transformer eq. 4; Megatron's seq_aux_loss); its gradient joins in backward. */
HR_API HR_RESULT hr_status hr_op_router(hr_tensor *logits, const hr_router_opts *opts,
                                        hr_tensor **probs, hr_tensor **index);

/* Where each (token, choice) goes when the N*K copies are sorted by `index` (value, then token, then
 * choice; stable). No gradient. source [M]: token of slot j; slot [N,K]: slot of choice (n,k);
 * counts [E]. */
HR_API HR_RESULT hr_status hr_op_sort_choices(hr_tensor *index, int experts,
                                              hr_tensor **source, hr_tensor **slot,
                                              hr_tensor **counts);

/* out[j] = x[source[j]]: x [N,C] -> [M,C]; backward adds over a token's choices in order. */
HR_API HR_RESULT hr_status hr_op_permute(hr_tensor *x, hr_tensor *source,
                                         hr_tensor *slot, hr_tensor **out);
/* out[n] = sum over k of x[slot[n,k]], in order: x [M,C] -> [N,C]; the reverse of permute. */
HR_API HR_RESULT hr_status hr_op_unpermute(hr_tensor *x, hr_tensor *source,
                                           hr_tensor *slot, hr_tensor **out);
/* out[slot[n,k]] = p[n,k]: p [N,K] -> [M]. */
HR_API HR_RESULT hr_status hr_op_permute_probs(hr_tensor *p, hr_tensor *slot,
                                               hr_tensor **out);

/* ---- loss ------------------------------------------------------------------------------ */
/* scale * sum over n of -log softmax(logits[n])[targets[n]], where targets[n] is not -1 ->
 * f32 [1]. logits [N,V]. The library divides nowhere else. Another target outside 0..V-1 fails the
 * device. */
HR_API HR_RESULT hr_status hr_op_cross_entropy(hr_tensor *logits, hr_tensor *targets,
                                               float scale, hr_tensor **loss);

/* ---- optimiser (no graph) --------------------------------------------------------------- */
/* Sum of squares of f32 `g`, added in fixed order to double `*sum` in device memory. */
HR_API HR_RESULT hr_status hr_op_sum_squares(hr_tensor *g, double *sum);

typedef struct hr_adamw_opts {
    size_t size;
    float lr, beta1, beta2, eps;
    float weight_decay; /* decoupled: w -= lr * weight_decay * w */
    int64_t step;       /* from 1, for the bias corrections */
    float grad_scale;   /* every gradient is multiplied by it (clipping) */
} hr_adamw_opts;
/* One step (Loshchilov & Hutter 2019), in place; all of one shape. */
HR_API HR_RESULT hr_status hr_op_adamw(hr_tensor *w, hr_tensor *g, hr_tensor *m,
                                       hr_tensor *v, const hr_adamw_opts *opts);

/* to = from, of one shape, each f32 or bf16. */
HR_API HR_RESULT hr_status hr_op_convert(hr_tensor *from, hr_tensor *to);

HR_END_C
#endif
