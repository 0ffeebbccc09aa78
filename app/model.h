/* model.h: the byte-level mixture-of-experts GPT: its parameters, its layers, its chunk for a
 * plan. One per rank; it holds a rank's share of the experts.
 */
#ifndef HR_APP_MODEL_H
#define HR_APP_MODEL_H
#include "layer.h"

enum { APP_VOCAB = 256 };

typedef struct hr_app_model {
    model_shape shape;
    hr_app_params params;
    hr_app_block *blocks; /* shape.layers */
    hr_layer_desc *descs;
    hr_tensor *embedding, *final_norm, *head; /* head is the embedding where tied */
    hr_dispatcher *dispatcher;                /* NULL: plain model, all experts here */
    hr_tensor *aux_sum; /* f32 [1]: load-balance losses since it was zeroed */
    float loss_scale;   /* of a token in the loss; may change between microbatches */
} hr_app_model;

typedef struct hr_app_model_opts {
    size_t size;
    const model_shape *shape;
    uint64_t seed;
    bool train;                /* with gradients and optimiser state */
    hr_group *tokens, *counts; /* expert group, twice; both NULL: plain, one rank */
    hr_stream *counts_stream;
    float loss_scale, aux_scale; /* of a token; of a sequence's load-balance loss */
} hr_app_model_opts;

/* On the current device and stream; blocks until the values are there. */
hr_status hr_app_model_create(const hr_app_model_opts *opts, hr_app_model **out);
void hr_app_model_destroy(hr_app_model *m); /* NULL is fine */

/* The plan of one microbatch: int32 ids [N] and targets [N]. Its output is the loss [1], which is
 * loss_scale times the sum over tokens. Tensors are retained. */
hr_status hr_app_model_plan(hr_app_model *m, hr_tensor *ids, hr_tensor *targets,
                            const hr_build_plan_opts *opts, hr_schedule_plan **out);

/* Without nodes, groups or streams beside the current one: logits [N,V] of `ids` [N], which are
 * whole sequences of shape.seq. For a plain model. Blocks to learn how many tokens an expert got. */
hr_status hr_app_model_plain(hr_app_model *m, hr_tensor *ids, hr_tensor **logits);

#endif
