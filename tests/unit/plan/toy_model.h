/* A toy model: `layers` blocks, every second one with "experts" behind an all-to-all, and a step over
 * several microbatches whose result is one number a weight. */
#ifndef TOY_MODEL_H
#define TOY_MODEL_H
#include "toy_ops.h"

enum {
    TOY_LAYERS = 3,
    TOY_ROWS = 6,
    TOY_WEIGHTS = 2 * TOY_LAYERS + 1,
    TOY_MICROBATCHES = 5
};

typedef struct toy_layer {
    struct toy_model *model;
    hr_tensor *w_pre, *w_mlp; /* borrowed from the model */
} toy_layer;

typedef struct toy_model {
    hr_group *group;
    int rank;
    hr_tensor *weight[TOY_WEIGHTS]; /* two a layer, then the norm's */
    toy_layer layer[TOY_LAYERS];
    hr_layer_desc desc[TOY_LAYERS];
    hr_chunk_desc chunk;
    int states; /* live user states of layers: up at first use, down at fini */
} toy_model;

/* `norm`: with a final norm. */
hr_status toy_model_init(toy_model *m, hr_group *group, bool norm);
void toy_model_make_dense(toy_model *m); /* all layers, before any plan */
void toy_model_fini(toy_model *m);

/* Input of a microbatch, the same on every run; the caller's. */
hr_status toy_input(const toy_model *m, int microbatch, hr_tensor **out);

typedef struct toy_step_opts {
    bool overlap, delay_wgrad, early;
    bool stored; /* weight gradients run at the step's end */
} toy_step_opts;
typedef struct toy_result {
    float loss[TOY_MICROBATCHES];
    float grad[TOY_WEIGHTS * TOY_WIDTH];
} toy_result;
/* A whole step from zero gradients; waits for its end. */
hr_status toy_step(toy_model *m, const toy_step_opts *opts, toy_result *out);

#endif
