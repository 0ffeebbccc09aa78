/* headrace/moe.h: token dispatchers: how tokens reach the experts of other ranks and come back.
 *
 * Experts are spread over the expert group evenly and in order: rank r has experts r*L .. r*L+L-1.
 * The calls below are the insides of a layer's slots; each runs on the current stream:
 *
 *     pre       hr_moe_preprocess   tokens sorted by expert; counts set out on their own stream
 *     dispatch  hr_moe_dispatch     tokens and probabilities to the experts' ranks
 *     mlp       hr_moe_sort, hr_moe_grouped, hr_moe_swiglu, hr_moe_grouped_last, hr_moe_unsort
 *     combine   hr_moe_combine      back, and the sum over a token's choices
 *
 * Two kinds, with the same bits as long as nothing overflows:
 *
 *  - HR_MOE_ALLTOALL: plain tensors of as many rows as come. The host waits for the counts in dispatch.
 *  - HR_MOE_SYMMETRIC: rows go from the sender's tensor straight into a window of the receiver, and are
 *    loaded from there on the way back. Counts stay in device memory and the host waits nowhere; so shapes
 *    are static, with room for `capacity` rows, of which those past the last expert's are slack
 *    that nobody looks at. Rows past the capacity are lost, and hr_dispatcher_check() says so.
 *
 * The symmetric kind has three sorts of buffers, each with a state; a call that a buffer is not ready for
 * is ERR_STATE "buffer_state", naming the buffer, its state and the one that was to be:
 *
 *     F     what combine sends: the last product writes there          FREE > STAGED > INFLIGHT > FREE
 *     B     where gradients land in combine's backward; they are       FREE > LANDING > LANDED > FREE
 *           copied out at once, on the communication stream, and
 *           what dispatch's backward sends                             FREE > STAGED > INFLIGHT > FREE
 *     P     what dispatch delivers, one a (layer, microbatch): the     FREE > RESERVED > LANDING >
 *           first product keeps it for its weight gradient             RECEIVED > FREE
 *
 * Probabilities have a part of their own in P and B (a buffer W for them is of quantised modes, which are
 * not here). F and B are one each, for all layers. Contents mean nothing after INFLIGHT (and are poisoned): nothing
 * that is saved for backward or for a delayed weight gradient refers to them. `pre` and `mlp` must
 * share a stream, and so must `dispatch` and `combine`.
 *
 * An expert, a rank or a batch without tokens is ordinary, and every rank issues the same operations
 * whatever the counts are.
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

typedef enum hr_moe_kind { HR_MOE_ALLTOALL, HR_MOE_SYMMETRIC } hr_moe_kind;

typedef struct hr_dispatcher_opts {
    size_t size;
    int experts, top_k; /* experts: over all ranks; a multiple of the group's size */
    hr_group *tokens;   /* expert group for tokens; retained */
    hr_group *counts;   /* the same ranks, a group of its own for counts; retained */
    hr_stream *counts_stream; /* borrowed, must outlive the dispatcher */
    hr_moe_kind kind;

    /* The rest is of the symmetric kind alone, and the same on all ranks. */
    int64_t max_tokens; /* N of any rank, at most */
    int64_t width;      /* C */
    /* Rows that a rank has room for, over max_tokens * top_k: 1 is enough if all ranks' experts are liked
     * equally; 0: as many as there are ranks, so that nothing can overflow. */
    double capacity_factor;
    int poison;    /* what was consumed: -1 never, 1 always, 0: in debug builds */
    hr_dtype type; /* of the rows: f32 or bf16. The other kind takes either */
} hr_dispatcher_opts;

/* The symmetric kind is collective over `tokens` and makes its buffers on the current stream; more P are
 * made when more are in use at once, in hr_moe_preprocess(), which then is collective too.
 * Errors: ERR_INVALID ("experts_split": experts not a multiple of the ranks; "top_k"; "capacity"; "dtype"),
 * ERR_NOMEM, those of hr_window_create(). */
HR_API HR_RESULT hr_status hr_dispatcher_create(const hr_dispatcher_opts *opts,
                                                hr_dispatcher **out);
HR_API void hr_dispatcher_destroy(hr_dispatcher *d); /* NULL is fine */
HR_API int hr_dispatcher_local_experts(const hr_dispatcher *d);
HR_API hr_moe_kind hr_dispatcher_moe_kind(const hr_dispatcher *d);
HR_API int64_t hr_dispatcher_capacity(const hr_dispatcher *d); /* rows; -1: no limit */

/* The worst overflow since the last check. The same on all ranks. */
typedef struct hr_overflow {
    int layer, microbatch; /* -1: unknown */
    int rank;              /* of the group for tokens, whose experts got too much */
    int64_t needed;        /* rows; 0: none overflowed */
    double factor;         /* capacity factor that would have been enough */
} hr_overflow;
/* Whether rows were lost in what was issued so far; once a step, before its results are used. Blocks.
 * `out` may be NULL. OK for the other kind. Errors: ERR_STATE "overflow", naming layer, rank, what
 * each of its experts got and the capacity needed. */
HR_API HR_RESULT hr_status hr_dispatcher_check(hr_dispatcher *d, hr_overflow *out);
/* After a step that failed (and hr_job_reset()): its routes and tensors are released; the buffers are
 * free again. */
HR_API void hr_dispatcher_reset(hr_dispatcher *d);

/* x [N,C] (f32 or bf16, as all rows from here on), probs [N,K], index [N,K] (of hr_op_router) -> tokens
 * [N*K,C] and permuted probs [N*K] in order of expert. Starts the exchange of counts on their own stream. *route is the caller's. */
HR_API HR_RESULT hr_status hr_moe_preprocess(hr_dispatcher *d, hr_tensor *x,
                                             hr_tensor *probs, hr_tensor *index,
                                             hr_route **route, hr_tensor **tokens,
                                             hr_tensor **permuted_probs);
/* -> [R,C], [R]. All-to-all: blocks the host until the counts are there (forward only; backward reuses
 * them). Symmetric: R is the capacity; tensors over P. */
HR_API HR_RESULT hr_status hr_moe_dispatch(hr_route *route, hr_tensor *tokens,
                                           hr_tensor *probs, hr_tensor **received,
                                           hr_tensor **received_probs);
/* From order of source rank to order of local expert, and back. */
HR_API HR_RESULT hr_status hr_moe_sort(hr_route *route, hr_tensor *received,
                                       hr_tensor *received_probs, hr_tensor **sorted,
                                       hr_tensor **sorted_probs);
/* All-to-all: L+1 numbers, after hr_moe_dispatch(). NULL otherwise. */
HR_API const int64_t *hr_moe_offsets(const hr_route *route);
/* The experts, for either kind, on what sort gave: hr_op_grouped_linear(), hr_op_swiglu(). The product
 * whose result is to be combined is the `last`: it writes F. */
HR_API HR_RESULT hr_status hr_moe_grouped(hr_route *route, hr_tensor *x, hr_tensor *w,
                                          hr_wgrad_queue *queue, hr_tensor **out);
HR_API HR_RESULT hr_status hr_moe_swiglu(hr_route *route, hr_tensor *x,
                                         hr_tensor *scale, hr_tensor **out);
HR_API HR_RESULT hr_status hr_moe_grouped_last(hr_route *route, hr_tensor *x,
                                               hr_tensor *w, hr_wgrad_queue *queue,
                                               hr_tensor **out);
HR_API HR_RESULT hr_status hr_moe_unsort(hr_route *route, hr_tensor *y,
                                         hr_tensor **out);
/* [R,C] -> [N,C]. The input is consumed: its contents mean nothing afterwards. Symmetric: it must lie
 * in F (ERR_INVALID "not_in_f"). */
HR_API HR_RESULT hr_status hr_moe_combine(hr_route *route, hr_tensor *y,
                                          hr_tensor **out);

HR_API hr_route *hr_route_retain(hr_route *route);
HR_API void hr_route_release(hr_route *route); /* NULL is fine */

HR_END_C
#endif
