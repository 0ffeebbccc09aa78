/* model.h: the byte-level mixture-of-experts GPT: its parameters, its layers, its chunk for a
 * plan. One per rank; it holds a rank's share of the experts.
 */
#ifndef HR_APP_MODEL_H
#define HR_APP_MODEL_H
#include "layer.h"

enum { APP_VOCAB = 256 };

/* Multi-token prediction, one layer deep (DeepSeek-V3, section 2.2): after the final norm, the hidden
 * state of a byte and the embedding of the next one make the input of one more layer, and the same
 * head guesses the byte after the next. For training alone. */
typedef struct hr_app_mtp {
    hr_tensor *embedding_norm, *hidden_norm; /* [C] */
    /* Halves of the matrix [C,2C] that meets both side by side ("eh"): a product each, and their sum, is
     * the same without a copy. */
    hr_tensor *eh_embedding, *eh_hidden;
    hr_tensor *final_norm; /* [C] */
    float coef;            /* weight of its loss beside the main one */
    hr_tensor *sum;        /* f32 [1]: its losses since it was zeroed, as they weigh */
    hr_slot_fn layer_pre;  /* of the transformer layer in it */
} hr_app_mtp;

typedef struct hr_app_model {
    model_shape shape;
    hr_app_params params;
    hr_app_block *blocks; /* shape.layers, then that of multi-token prediction */
    hr_layer_desc *descs; /* likewise */
    hr_tensor *embedding, *final_norm, *head; /* head is the embedding where tied */
    hr_dispatcher *dispatcher;                /* NULL: plain model, all experts here */
    hr_tensor *aux_sum; /* f32 [1]: load-balance losses since it was zeroed */
    float loss_scale;   /* of a token in the loss; may change between microbatches */
    hr_app_mtp mtp;     /* where shape.mtp */
} hr_app_model;

typedef struct hr_app_model_opts {
    size_t size;
    const model_shape *shape;
    uint64_t seed;
    bool train;                /* with gradients and optimiser state */
    hr_group *tokens, *counts; /* expert group, twice; both NULL: plain, one rank */
    hr_stream *counts_stream;
    float loss_scale, aux_scale; /* of a token; of a sequence's load-balance loss */
    float mtp_coef;              /* where shape->mtp */
    hr_moe_kind dispatcher;
    int64_t
        tokens_per_microbatch; /* of a rank; this and the next: symmetric kind alone */
    double capacity_factor;
    int64_t most; /* refuse a model of more parameters, ERR_MISMATCH; 0: any */
} hr_app_model_opts;

/* On the current device and stream; blocks until the values are there. */
hr_status hr_app_model_create(const hr_app_model_opts *opts, hr_app_model **out);
void hr_app_model_destroy(hr_app_model *m); /* NULL is fine */

/* The plan of one microbatch: int32 ids [N] and the byte after each, targets [N]. Its output is the loss
 * [1], which is loss_scale times the sum over tokens. The loss of multi-token prediction joins in
 * backward; in grad mode off there is none. Tensors are retained. */
hr_status hr_app_model_plan(hr_app_model *m, hr_tensor *ids, hr_tensor *targets,
                            const hr_build_plan_opts *opts, hr_schedule_plan **out);

/* Without nodes, groups or streams beside the current one: logits [N,V] of `ids` [N], which are
 * whole sequences of shape.seq. For a plain model. Blocks to learn how many tokens an expert got. */
hr_status hr_app_model_plain(hr_app_model *m, hr_tensor *ids, hr_tensor **logits);
/* Likewise what the plan puts out. */
hr_status hr_app_model_plain_loss(hr_app_model *m, hr_tensor *ids, hr_tensor *targets,
                                  hr_tensor **loss);

/* ---- what plans and the plain model share ---- */
/* Input of the layer of multi-token prediction: `hidden` [N,C] after the final norm, `next` [N] the bytes
 * that follow. */
hr_status hr_app_mtp_input(const hr_app_model *m, hr_tensor *hidden, hr_tensor *next,
                           hr_wgrad_queue *q, hr_tensor **out);
/* Make of a transformer layer's description that of multi-token prediction. */
void hr_app_mtp_describe(hr_app_model *m, hr_layer_desc *desc);
/* Head and loss. `ahead` [N,C]: hidden state of multi-token prediction after its own norm; NULL: none. */
hr_status hr_app_loss(hr_app_model *m, hr_tensor *hidden, hr_tensor *ahead,
                      hr_tensor *targets, hr_tensor **loss);

#endif
