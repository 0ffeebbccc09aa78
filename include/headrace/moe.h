/* headrace/moe.h: token dispatchers: how tokens reach the experts of other ranks and come back.
 *
 * Experts are spread over the expert group evenly and in order: rank r has experts r*L .. r*L+L-1.
 * The calls below are the insides of a layer's slots; each runs on the current stream:
 *
 *     pre       hr_moe_preprocess   tokens sorted by expert; counts set out on their own stream
 *     dispatch  hr_moe_dispatch     host waits for the counts; all-to-all of tokens and probabilities
 *     mlp       hr_moe_sort, experts over hr_moe_offsets(), hr_moe_unsort
 *     combine   hr_moe_combine      all-to-all back, sum over a token's choices
 *
 * No token is dropped; an expert, a rank or a batch without tokens is ordinary, and every rank issues
 * the same operations whatever the counts are.
 */
#ifndef HR_MOE_H
#define HR_MOE_H
#include "headrace/group.h"
#include "headrace/ops.h"
HR_BEGIN_C

typedef struct hr_dispatcher hr_dispatcher;

/* What one (layer, microbatch) needs to find its way: maps, counts. Counted; the functions in the
 * graph hold it until their backward. Never kept in the layer: under overlap a new forward begins
 * before an old backward ends. */
typedef struct hr_route hr_route;

typedef struct hr_dispatcher_opts {
    size_t size;
    int experts, top_k; /* experts: over all ranks; a multiple of the group's size */
    hr_group *tokens;   /* expert group for tokens; retained */
    hr_group *counts;   /* the same ranks, a group of its own for counts; retained */
    hr_stream *counts_stream; /* borrowed, must outlive the dispatcher */
} hr_dispatcher_opts;

/* The dropless all-to-all dispatcher. Errors: ERR_INVALID ("experts_split": experts not a multiple of
 * the ranks; "top_k"), ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_dispatcher_create(const hr_dispatcher_opts *opts,
                                                hr_dispatcher **out);
HR_API void hr_dispatcher_destroy(hr_dispatcher *d); /* NULL is fine */
HR_API int hr_dispatcher_local_experts(const hr_dispatcher *d);

/* x [N,C], probs [N,K], index [N,K] (of hr_op_router) -> tokens [N*K,C] and permuted probs [N*K] in
 * order of expert. Starts the exchange of counts on their own stream. *route is the caller's. */
HR_API HR_RESULT hr_status hr_moe_preprocess(hr_dispatcher *d, hr_tensor *x,
                                             hr_tensor *probs, hr_tensor *index,
                                             hr_route **route, hr_tensor **tokens,
                                             hr_tensor **permuted_probs);
/* Blocks the host until the counts are there (forward only; backward reuses them). -> [R,C], [R]. */
HR_API HR_RESULT hr_status hr_moe_dispatch(hr_route *route, hr_tensor *tokens,
                                           hr_tensor *probs, hr_tensor **received,
                                           hr_tensor **received_probs);
/* From order of source rank to order of local expert, and back. */
HR_API HR_RESULT hr_status hr_moe_sort(hr_route *route, hr_tensor *received,
                                       hr_tensor *received_probs, hr_tensor **sorted,
                                       hr_tensor **sorted_probs);
HR_API const int64_t *
hr_moe_offsets(const hr_route *route); /* L+1; after hr_moe_dispatch() */
HR_API HR_RESULT hr_status hr_moe_unsort(hr_route *route, hr_tensor *y,
                                         hr_tensor **out);
/* [R,C] -> [N,C]. The input is consumed: its contents mean nothing afterwards. */
HR_API HR_RESULT hr_status hr_moe_combine(hr_route *route, hr_tensor *y,
                                          hr_tensor **out);

HR_API hr_route *hr_route_retain(hr_route *route);
HR_API void hr_route_release(hr_route *route); /* NULL is fine */

HR_END_C
#endif
