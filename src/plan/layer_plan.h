/* A layer's five nodes for one microbatch. Internal to src/plan; the order in which they run is in
 * layer_run.c. */
#ifndef HR_LAYER_PLAN_H
#define HR_LAYER_PLAN_H
#include "plan/slot.h"

struct hr_layer_plan {
    hr_layer_desc desc;
    bool early_attn_release;
    bool released;
    hr_layer_ctx ctx;
    hr__slot_node slot[HR_SLOTS];
};

/* In the caller's zeroed memory, `state` too (desc->state_bytes of it). `norm`: the final norm comes
 * after this layer. */
typedef struct hr__layer_place {
    void *state;
    hr__chunk_ctx *chunk;
    bool norm;
} hr__layer_place;
void hr__layer_plan_init(hr_layer_plan *plan, const hr_layer_desc *desc,
                         const hr_layer_plan_opts *opts, const hr__layer_place *place);

/* Give up everything but the memory; again is harmless. */
void hr__layer_plan_release(hr_layer_plan *plan);

/* hr_layer_plan_run() as a part of a longer run: `x` and `g` go in and come out. */
hr_status hr__layer_run(hr_layer_plan *f, hr_layer_plan *b, hr__flow *x, hr__grads *g,
                        bool is_last_layer_in_bwd);

#endif
