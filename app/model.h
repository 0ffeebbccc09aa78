/* model.h: the byte-level mixture-of-experts GPT: its parameters, its layers, its chunks for plans.
 * One per rank; it holds the stages that lie on the rank, and the rank's share of their experts.
 */
#ifndef HR_APP_MODEL_H
#define HR_APP_MODEL_H
#include "catalog.h"
#include "layer.h"

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

/* One stage of a pipeline. What lies on none of its sides of the model is NULL in it. */
typedef struct hr_app_stage {
    struct hr_app_model *model;
    int stage; /* along the model */
    hr_layout_part part;
    int vp_stage; /* among the rank's, HR_NO_STAGE: it is the only one */
    int first,
        layers; /* in the model's blocks; the last may be that of multi-token prediction */
    /* The hidden states of the main and of the further prediction go through the boundary together,
     * one above the other: [2N,C] in place of [N,C]. */
    bool stacked_in, stacked_out;
} hr_app_stage;

/* What forwards are for: weights of a token and of a sequence's load-balance loss; whether there is
 * multi-token prediction, which is for training alone; and whether the losses beside the main one are added
 * up, which a forward that is done again is not to do. */
typedef struct hr_app_pass {
    float loss_scale, aux_scale;
    bool training, counts;
} hr_app_pass;

typedef struct hr_app_model {
    model_shape shape;
    hr_dtype type; /* of weights and activations */
    hr_app_catalog *catalog;
    hr_app_params params;
    int *param_of; /* index in params by that in the catalog; -1: not on this rank */
    hr_app_stage *stages;
    int n_stages;
    hr_app_block
        *blocks; /* of all stages, each with multi-token prediction behind the others */
    hr_layer_desc *descs;                     /* likewise */
    hr_tensor *embedding, *final_norm, *head; /* head is the embedding where tied */
    hr_dispatcher *dispatcher;                /* NULL: plain model, all experts here */
    hr_tensor *aux_sum; /* f32 [1]: load-balance losses since it was zeroed */
    hr_app_pass pass;
    hr_app_mtp mtp; /* where shape.mtp */
} hr_app_model;

typedef struct hr_app_model_opts {
    size_t size;
    const model_shape *shape;
    uint64_t seed;
    bool train;                /* with gradients */
    hr_dtype type;             /* of weights and activations: f32 or bf16 */
    hr_group *tokens, *counts; /* expert group, twice; both NULL: plain, one rank */
    hr_stream *counts_stream;
    float loss_scale, aux_scale; /* of a token; of a sequence's load-balance loss */
    float mtp_coef;              /* where shape->mtp */
    hr_moe_kind dispatcher;
    int64_t
        tokens_per_microbatch; /* of a rank; this and the next: symmetric kind alone */
    double capacity_factor;
    int64_t most; /* refuse a model of more parameters, ERR_MISMATCH; 0: any */
    /* The stages on this rank, in order, and what of the model is in each. NULL: one, with all. */
    const int *stages;
    const hr_layout_part *parts;
    int n_stages;
} hr_app_model_opts;

/* On the current device and stream; blocks until the values are there. */
hr_status hr_app_model_create(const hr_app_model_opts *opts, hr_app_model **out);
void hr_app_model_destroy(hr_app_model *m); /* NULL is fine */

/* For the forwards from now on. */
void hr_app_model_begin(hr_app_model *m, const hr_app_pass *pass);

/* What a microbatch is for a stage; NULL where it has no use for it: see the two questions below. */
typedef struct hr_app_feed {
    hr_tensor *ids;     /* [N], int32 */
    hr_tensor *targets; /* [N], the byte after each */
    hr_tensor *in;      /* from the stage before */
} hr_app_feed;
bool hr_app_stage_wants_ids(const hr_app_stage *s);
bool hr_app_stage_wants_targets(const hr_app_stage *s);
/* The shape of `in` of any stage for `tokens` of a microbatch. */
void hr_app_stage_in_shape(const model_shape *m, const hr_layout_part *part,
                           int64_t tokens, int64_t shape[2]);

/* The plan of one microbatch on one stage. The output of the last is the loss [1], which is loss_scale
 * times the sum over tokens. The loss of multi-token prediction joins in backward. Tensors are
 * retained. */
hr_status hr_app_stage_plan(hr_app_stage *s, const hr_app_feed *feed,
                            const hr_build_plan_opts *opts, hr_schedule_plan **out);
/* The same of a model of one stage. */
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
/* Two hidden states of one shape, the first above the second, and back. */
hr_status hr_app_stack(hr_tensor *above, hr_tensor *below, hr_tensor **out);
hr_status hr_app_unstack(hr_tensor *both, hr_tensor **above, hr_tensor **below);
/* *sum += loss, for the log: no gradient. */
hr_status hr_app_count_in(hr_tensor **sum, hr_tensor *loss);
/* Head and loss. `ahead` [N,C]: hidden state of multi-token prediction after its own norm; NULL: none. */
hr_status hr_app_loss(hr_app_model *m, hr_tensor *hidden, hr_tensor *ahead,
                      hr_tensor *targets, hr_tensor **loss);

#endif
