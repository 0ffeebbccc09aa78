/* The four slots of a layer around the dispatcher, each a piece of the graph of its own, as
 * schedule nodes have them: forward hands a detached alias on, backward takes its gradient. */
#ifndef HR_MOE_FLOW_H
#define HR_MOE_FLOW_H
#include "headrace/moe.h"
#include "unit/moe/moe_case.h"

/* What a rank has. */
typedef struct moe_rank {
    const moe_case *c;
    hr_group *world, *tokens, *counts;
    hr_stream *compute, *comm, *counts_stream; /* compute and comm may be one */
    hr_dispatcher *dispatcher;
    hr_tensor *w1, *w2; /* [L,2D,C], [L,C,D] */
} moe_rank;

/* `two_streams`: comm is a stream of its own. */
hr_status rank_begin(const moe_case *c, hr_group *world, int two_streams, moe_rank *r);
void rank_end(moe_rank *r);

/* One microbatch on its way. `in` are what a slot got, `out` what it gave. */
enum { SLOT_PRE, SLOT_DISPATCH, SLOT_MLP, SLOT_COMBINE, SLOTS };
typedef struct moe_flow {
    moe_rank *rank;
    int b,
        whole; /* whole: slots are not cut apart, and backward is one run of the engine */
    hr_event *done;        /* after the latest slot */
    hr_wgrad_queue *queue; /* the caller's; NULL: weight gradients within backward */
    hr_route *route;
    hr_tensor *index;
    hr_tensor *in[SLOTS][2], *out[SLOTS][2]; /* rows, probabilities */
    hr_tensor *grad;                         /* of the output of combine */
} moe_flow;

hr_status flow_begin(moe_rank *r, int b, moe_flow *f);
hr_status flow_forward(moe_flow *f, int slot);
hr_status flow_backward(moe_flow *f, int slot); /* whole: SLOT_COMBINE does it all */
hr_status flow_read(moe_flow *f, moe_result *into); /* out, dx, dprobs; blocks */
void flow_end(moe_flow *f);

/* Gradients of this rank's experts. ERR_STATE if one is absent. */
hr_status rank_read(moe_rank *r, moe_result *into);

#endif
