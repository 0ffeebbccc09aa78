/* The plan of a model chunk for one microbatch. Internal to src/plan; it is run by chunk_run.c. */
#ifndef HR_CHUNK_PLAN_H
#define HR_CHUNK_PLAN_H
#include "plan/layer_plan.h"
#include "plan/wgrad_batch.h"

typedef struct hr__chunk_plan {
    hr_schedule_plan base; /* first: this is the object that callers hold */
    size_t bytes;          /* of all this */
    bool serial;
    bool released;
    int vp_stage;
    hr_wgrad_store *wgrad_store; /* borrowed; NULL: weight gradients in the plan */
    hr_slot_fn preprocess, postprocess;
    void (*state_fini)(void *state);
    int n_inputs;
    hr_tensor *inputs[HR_NODE_MAX];
    hr__chunk_ctx chunk;
    hr_layer_ctx ctx;        /* of pre- and postprocess */
    hr__slot_node pre, post; /* post is a noop where there is none */
    int n_layers;
    int layers_left;        /* not yet released; those are the first ones */
    hr_layer_plan layers[]; /* then the states, each 16-aligned */
} hr__chunk_plan;

extern const hr_schedule_plan_ops hr__chunk_plan_ops;

/* Give up all but the memory and the event. */
void hr__chunk_plan_release(hr__chunk_plan *plan);

/* Are the tensors that a run's hooks are given those that leave the chunk? post_forward's: there is no
 * postprocess. post_backward's, asked after the forward: preprocess handed on what came. */
bool hr__plan_ends_with_layers(const hr_schedule_plan *plan);
bool hr__plan_begins_with_layers(const hr_schedule_plan *plan);

hr_status hr__chunk_plan_run(hr_schedule_plan *f, hr_schedule_plan *b, hr_tensor *grad,
                             const hr_plan_hooks *hooks, hr_tensor **output);

#endif
