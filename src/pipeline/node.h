/* What a node is made of; for src/pipeline and src/plan, which makes the nodes of a plan in one
 * block. Start reading at node_run.c. */
#ifndef HR_PIPELINE_NODE_H
#define HR_PIPELINE_NODE_H
#include "headrace/pipeline.h"

/* Live as long as the program. */
typedef struct hr__node_names {
    const char *name, *forward, *backward, *wgrad; /* "mlp", "mlp forward", ... */
} hr__node_names;

struct hr_node {
    bool noop;
    bool has_inputs; /* stored by a forward, also by one that failed */
    bool has_output; /* a forward has finished, once */
    bool spent;
    bool wgrad_run;
    bool asked; /* stream_fn */
    int n_in, n_out;
    hr_tensor *in[HR_NODE_MAX]; /* the node's own detached copies */
    hr_tensor *out[HR_NODE_MAX];
    int layer, microbatch;
    hr_stream *stream;
    hr__node_names names;
    hr_schedule_node_opts opts; /* wgrads: after the node itself, if it has any */
};

/* A node in the caller's memory; `opts` is trusted, its wgrads are kept by address. fini gives up
 * what the node holds. */
void hr__node_init(hr_node *node, const hr_schedule_node_opts *opts,
                   const hr__node_names *names);
void hr__node_init_noop(hr_node *node);
void hr__node_fini(hr_node *node);

/* Give up inputs, outputs and functions: what backward does at its end. */
void hr__node_release_state(hr_node *node);
void hr__node_drop_inputs(hr_node *node);
void hr__node_drop_outputs(hr_node *node);

/* Run the engine from the outputs, and from `n_side` tensors that were set aside, with their gradients.
 * `used` gets all those gradients. */
typedef struct hr__node_sides {
    hr_tensor *const *root, *const *grad;
    int n;
} hr__node_sides;
hr_status hr__node_engine(hr_node *node, hr_tensor *const *grads, int n,
                          const hr__node_sides *sides, hr_tensor **used, int *n_used);

/* Whether a failed callback has said why; if not, say it. `what` is "forward", ... */
hr_status hr__node_callback_failed(const hr_node *node, const char *what, hr_status st);

#endif
