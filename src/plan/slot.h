/* A node in a plan, with what is set aside from it and its queue of weight gradients; and what the
 * functions of a layer are given. Internal to src/plan. */
#ifndef HR_PLAN_SLOT_H
#define HR_PLAN_SLOT_H
#include "headrace/plan.h"
#include "pipeline/node.h"

extern const hr__node_names hr__slot_names[HR_SLOTS];
extern const hr__node_names hr__preprocess_names, hr__postprocess_names;

/* What the layers of one (chunk, microbatch) share. */
typedef struct hr__chunk_ctx {
    void *state;
    void *chunk;
    hr_status (*final_norm)(void *chunk, hr_layer_ctx *ctx, hr_tensor *in,
                            hr_tensor **out);
    struct hr__wgrad_batch
        *batch; /* where weight gradients are left; NULL: in the plan */
} hr__chunk_ctx;

/* When a slot's function is wrapped in the final norm. */
typedef enum hr__norm { HR__NORM_NONE, HR__NORM_OUTPUT, HR__NORM_INPUT } hr__norm;

typedef struct hr__slot_node {
    hr_layer_ctx *ctx;
    hr_slot slot; /* HR_SLOTS: pre- and postprocess */
    hr_slot_fn fn;
    void *layer; /* first argument of fn */
    hr_status (*wgrad_done)(void *layer, hr_layer_ctx *ctx, hr_slot slot);
    hr_status (*post_forward)(void *layer, hr_layer_ctx *ctx);
    hr_status (*post_backward)(void *layer, hr_layer_ctx *ctx);
    hr__norm norm;
    bool delay_wgrad;
    hr_wgrad_queue *queue; /* made when the slot asks for it */
    int n_side;
    hr_tensor *before[HR_NODE_MAX]; /* in this node's graph */
    hr_tensor *side[HR_NODE_MAX];   /* detached; gets the gradient for `before` */
    hr_node node;
} hr__slot_node;

struct hr_layer_ctx {
    hr__chunk_ctx *chunk; /* NULL for a layer plan of its own */
    void *state;
    int microbatch;
    hr__slot_node *running; /* while a forward function runs */
};

/* How the slots of a plan are made. */
typedef struct hr__slot_opts {
    const hr__node_names *names;
    hr_event *event;
    hr_stream *(*stream_fn)(void *ctx);
    bool free_input, zero_copy, delay_wgrad;
    int number; /* of the layer; -1: none */
} hr__slot_opts;

/* The caller has filled ctx, slot, fn, layer, the hooks and norm; the rest is zero. fn NULL makes a
 * noop. */
void hr__slot_init(hr__slot_node *sn, const hr__slot_opts *opts);
void hr__slot_fini(hr__slot_node *sn);

/* Run the delayed weight gradients, or leave them in the batch of the plan. */
hr_status hr__slot_wgrad(hr__slot_node *sn);
/* Make `to` a node that has the delayed weight gradients of `from` and nothing else, with `ctx` in
 * place of the plan's; `from` has none afterwards. */
void hr__slot_move_wgrad(hr__slot_node *from, hr_layer_ctx *ctx, hr__slot_node *to);

hr_stream *hr__comp_stream(void *ctx);
hr_stream *hr__comm_stream(void *ctx);

/* Between nodes forward: borrowed from the node before. */
typedef struct hr__flow {
    hr_tensor *const *t;
    int n;
} hr__flow;
hr_status hr__slot_forward(hr__slot_node *sn, hr__flow *x);

/* Between nodes backward: one reference each. Both leave `g` empty after a failure. */
typedef struct hr__grads {
    hr_tensor *t[HR_NODE_MAX];
    int n;
} hr__grads;
hr_status hr__slot_backward(hr__slot_node *sn, hr__grads *g);
void hr__grads_drop(hr__grads *g);

#endif
