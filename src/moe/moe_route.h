/* moe/moe_route.h: what the files of this room share: the dispatcher, and the route of one
 * (layer, microbatch). Start reading at dispatcher.c.
 *
 * Letters: P ranks, E experts over all ranks, L experts of this rank, N tokens of this rank,
 * K choices a token, M = N*K rows sent, R rows received, C width.
 */
#ifndef HR_MOE_ROUTE_H
#define HR_MOE_ROUTE_H
#include "headrace/moe.h"
#include "moe/zero_copy_buffer.h"

struct hr_dispatcher {
    int refs; /* the caller's, and one a route that is in use */
    int experts, top_k, ranks, rank, local;
    hr_group *tokens, *counts;
    hr_stream *counts_stream;
    hr_event *counted; /* recorded and waited for within one call: serves all routes */
    hr_route *spare;   /* routes that nobody uses, for the next microbatch */
    hr__zero_copy *zc; /* NULL: the all-to-all kind */
};

/* The order of rows on the way:
 *
 *     x [N] --source, slot--> [M] by expert --all-to-all--> [R] by rank, then expert
 *           --order_source, order_slot--> [R] by expert, then rank
 */
struct hr_route {
    hr_dispatcher *owner;
    hr_route *next; /* while spare */
    int refs;
    bool known;                           /* the host has the counts and what follows */
    hr_event *ready;                      /* counts have reached the host */
    hr_tensor *source, *slot;             /* [M], [N,K] */
    hr_tensor *order_source, *order_slot; /* [R], [R,1]; made by the first sort */
    int32_t *device_counts;               /* [P][E], memory of the counts stream */
    int64_t sent, received;               /* M, R */
    int64_t *send, *recv, *offsets;       /* [P], [P], [L+1] */
    int32_t *counts;                      /* [P][E], written by the counts stream */
    /* Symmetric kind; `received` is the capacity, the arrays of the host are not used. */
    hr_tensor *limits;    /* i64 [L+1]: the experts' rows among those received */
    hr__buffer *reserved; /* P, until dispatch */
};

/* A route of `d` with one reference, spare or new. */
hr_status hr__route_take(hr_dispatcher *d, hr_route **out);

/* Give up one reference to the dispatcher; the last one frees it and its spare routes. */
void hr__dispatcher_unref(hr_dispatcher *d);

/* Block the host until the counts are there and derive from them what the host needs. What
 * any stream is given afterwards comes after them. */
hr_status hr__route_learn(hr_route *r);

/* The symmetric kind's dispatch and combine; the arguments are checked. */
hr_status hr__zero_copy_dispatch(hr_route *r, hr_tensor *tokens, hr_tensor *probs,
                                 hr_tensor **received, hr_tensor **received_probs);
/* -> [M,C], still to be summed over a token's choices. */
hr_status hr__zero_copy_combine(hr_route *r, hr_tensor *y, hr_tensor **back);

/* ERR_STATE unless the counts are known; `call` names who asks. */
hr_status hr__route_check_known(const hr_route *r, const char *call);

/* The current stream uses `t` from here on: its memory waits for it, too. */
void hr__use_here(hr_tensor *t);

/* ERR_INVALID unless `t` is [rows,C] (ndim 2), f32 or bf16, or [rows] (ndim 1), f32. */
hr_status hr__check_rows(const hr_tensor *t, int ndim, int64_t rows, const char *call,
                         const char *what);

#endif
