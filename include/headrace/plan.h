/* headrace/plan.h: plans made of nodes: a transformer layer in five slots, a chunk of a model, and a
 * training step without pipeline that runs one microbatch's forward beside another's backward.
 *
 * Nothing here knows a model: a layer is a description with a function a slot.
 *
 *     static hr_status mlp(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
 *                          hr_tensor **out, int *n_out);
 *     hr_layer_desc layers[] = {{HR_INIT(hr_layer_desc), .layer = &block0, .number = 0,
 *         .slot = {[HR_SLOT_PRE] = attention, [HR_SLOT_MLP] = mlp}}};
 *     hr_chunk_desc chunk = {HR_INIT(hr_chunk_desc), .chunk = model, .preprocess = embed,
 *         .layers = layers, .n_layers = 1, .postprocess = logits, .vp_stage = HR_NO_STAGE};
 *     hr_build_schedule_plan(&chunk, inputs, n, &opts, &plan);
 *     hr_schedule_plan_run(plan, previous_plan, grad, NULL, &output);
 *
 * Slots run on two streams that an event a plan keeps in order: PRE, MLP and MTP on the compute
 * stream (what is current when the plan is first run), DISPATCH and COMBINE on the communication
 * stream of the device (hr_set_streams).
 */
#ifndef HR_PLAN_H
#define HR_PLAN_H
#include "headrace/pipeline.h"
HR_BEGIN_C

typedef enum hr_slot {
    HR_SLOT_PRE, /* "pre_dispatch_computation": attention, norm, router, permutation */
    HR_SLOT_DISPATCH, /* "moe_dispatch": transfer only */
    HR_SLOT_MLP,      /* "mlp": experts, or the dense MLP */
    HR_SLOT_COMBINE,  /* "moe_combine": transfer back, residual */
    HR_SLOT_MTP,      /* "mtp_post_process": multi-token prediction only */
    HR_SLOTS
} hr_slot;
HR_API const char *hr_slot_name(hr_slot slot);

/* What a running slot may ask: one for each (layer, microbatch). */
typedef struct hr_layer_ctx hr_layer_ctx;

/* As hr_node_forward_fn: in[] detached and borrowed, out[] one reference each, *n_out set (0 before;
 * at most HR_NODE_MAX). The outputs of a slot are the inputs of the next slot that is there. */
typedef hr_status (*hr_slot_fn)(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in,
                                int n, hr_tensor **out, int *n_out);

/* The user's state of this (layer, microbatch): `state_bytes`, zeroed; finished with the plan. NULL
 * if there is none. In pre- and postprocess: the chunk's. */
HR_API void *hr_layer_ctx_state(hr_layer_ctx *ctx);
/* The state of this (chunk, microbatch), from any layer of it. NULL if there is none. */
HR_API void *hr_layer_ctx_chunk_state(hr_layer_ctx *ctx);
/* Where the weight products of the running slot go: NULL (now) unless weight gradients are delayed.
 * Then MLP's run while the dispatch's backward is under way, those of the other slots after PRE's
 * backward (hr_op_linear() takes the queue as it is). NULL in MTP, pre- and postprocess. */
HR_API hr_wgrad_queue *hr_layer_ctx_queue(hr_layer_ctx *ctx);
HR_API int hr_layer_ctx_microbatch(const hr_layer_ctx *ctx);
/* HR_SLOTS: pre- or postprocess. */
HR_API hr_slot hr_layer_ctx_slot(const hr_layer_ctx *ctx);

/* Set `t` of the running slot's graph aside for a later slot: *side is detached, and its gradient
 * joins in the running slot's own backward (Megatron: TransformerLayerNode.detach).
 *
 * Owner:   `t` is retained; *side is borrowed, valid until that backward. A later slot on
 *          another stream marks it: hr_tensor_record_stream(side, hr_stream_current()), and may
 *          give up its bytes when it was the last to use it: hr_tensor_drop(side, ...).
 * Errors:  ERR_INVALID "side_count" past HR_NODE_MAX; ERR_STATE outside a slot's forward. */
HR_API HR_RESULT hr_status hr_node_detach(hr_layer_ctx *ctx, hr_tensor *t,
                                          hr_tensor **side);

/* ---- which slots may free their inputs ----------------------------------------------------- */
typedef enum hr_dispatcher_kind {
    HR_DISPATCH_ALLTOALL,
    HR_DISPATCH_ALLGATHER,
    HR_DISPATCH_FLEX
} hr_dispatcher_kind;
typedef enum hr_flex_backend {
    HR_FLEX_NONE,
    HR_FLEX_DEEPEP,
    HR_FLEX_HYBRIDEP,
    HR_FLEX_NCCLEP
} hr_flex_backend;

typedef struct hr_free_input_facts {
    size_t size;
    bool moe;
    hr_dispatcher_kind dispatcher;
    hr_flex_backend backend;
    bool quantized;    /* fp8 or fp4 */
    int local_experts; /* of this rank */
    /* Router and preprocess of dispatch are in a captured graph. */
    bool preprocess_captured;
} hr_free_input_facts;
HR_API bool hr_free_input_policy(hr_slot slot, const hr_free_input_facts *facts);

/* ---- a layer ----------------------------------------------------------------------------- */
typedef struct hr_layer_desc {
    size_t size;
    void *layer;               /* given to the functions below */
    hr_slot_fn slot[HR_SLOTS]; /* NULL: what goes in comes out, without trace */
    bool free_input[HR_SLOTS]; /* see hr_free_input_policy() */
    int number;                /* for the timeline */
    bool mtp;                  /* not a decoder layer: after the final norm */
    size_t state_bytes;        /* hr_layer_ctx_state() */
    void (*state_fini)(void *state);
    /* After the delayed weight gradients of a slot have been issued, on its stream: a place to
     * start their reduction. May be NULL. */
    hr_status (*wgrad_done)(void *layer, hr_layer_ctx *ctx, hr_slot slot);
    /* Layer-level release hooks (Megatron: those of its sharded layers), on the stream that is current
     * around the plan: after the forward of the layer's last slot, MTP aside; after the backward of its
     * first slot or, delayed, its weight gradients. May be NULL. */
    hr_status (*post_forward)(void *layer, hr_layer_ctx *ctx);
    hr_status (*post_backward)(void *layer, hr_layer_ctx *ctx);
} hr_layer_desc;

typedef struct hr_layer_plan_opts {
    size_t size;
    hr_event *event; /* borrowed, shared with the plan's other nodes */
    int microbatch;
    bool delay_wgrad;
    /* PRE's backward before the forward of MLP and COMBINE, not after. */
    bool early_attn_release;
    bool serial; /* all slots on the compute stream */
    bool ncclep_zero_copy;
} hr_layer_plan_opts;

typedef struct hr_layer_plan hr_layer_plan;
/* `desc` is copied. */
HR_API HR_RESULT hr_status hr_layer_plan_create(const hr_layer_desc *desc,
                                                const hr_layer_plan_opts *opts,
                                                hr_layer_plan **out);
HR_API void hr_layer_plan_destroy(hr_layer_plan *plan); /* NULL is fine */

/* Interleave the forward of `f` with the backward of `b`; either may be NULL. Where
 * `is_last_layer_in_bwd` the weight gradients of PRE are left for hr_layer_plan_wgrad().
 *
 * Owner:   *f_out borrowed from `f` until its backward; *b_grad_out the caller's, one
 *          reference (NULL: none). */
HR_API HR_RESULT hr_status hr_layer_plan_run(hr_layer_plan *f, hr_layer_plan *b,
                                             hr_tensor *f_input, hr_tensor *b_grad,
                                             bool is_last_layer_in_bwd,
                                             hr_tensor **f_out, hr_tensor **b_grad_out);
HR_API HR_RESULT hr_status hr_layer_plan_wgrad(hr_layer_plan *b); /* PRE's, left over */

/* ---- stored weight gradients ----------------------------------------------------------------
 * A zero-bubble schedule splits backward in two: the plan's run gives the gradient of the input, and
 * leaves each slot's delayed weight gradients in a store, one batch a (chunk, microbatch), for a later
 * call. They run in the order in which the plan would have run them, on the slot's stream, with its
 * range, wgrad_done and post_backward; the plan, and so the layer's and the chunk's state, are gone
 * by then (NULL). What a batch needs it keeps by claims of its own.
 *
 * A run of a plan or of a batch that fails empties the store. */
typedef struct hr_wgrad_store hr_wgrad_store;
/* `stage` is for messages; HR_NO_STAGE for none. */
HR_API HR_RESULT hr_status hr_wgrad_store_create(int stage, hr_wgrad_store **out);
/* Drops what was not run; NULL is fine. */
HR_API void hr_wgrad_store_destroy(hr_wgrad_store *store);

/* Run, once, what the backward of this microbatch left. `chunk` is the chunk's vp_stage, 0 where that is
 * HR_NO_STAGE. A chunk without weight gradients has an empty batch, which counts like any other.
 * Errors: ERR_STATE "wgrad_empty", naming stage, chunk and microbatch; what the work returns. */
HR_API HR_RESULT hr_status hr_wgrad_store_run(hr_wgrad_store *store, int chunk,
                                              int microbatch);
HR_API int hr_wgrad_store_pending(const hr_wgrad_store *store); /* batches */
/* ERR_STATE "wgrad_left", naming the first, if there is one; empty afterwards. */
HR_API HR_RESULT hr_status hr_wgrad_store_end_step(hr_wgrad_store *store);
/* After a step that failed elsewhere. */
HR_API void hr_wgrad_store_clear(hr_wgrad_store *store);

/* ---- a chunk of a model -------------------------------------------------------------------- */
typedef struct hr_chunk_desc {
    size_t size;
    void *chunk; /* given to the functions below */
    /* in[] are the inputs given to hr_build_schedule_plan(), not detached; out[0] is the first layer's
     * input. A stage that receives its input returns it, retained: its gradient is then in
     * hr_tensor_grad(input) after the backward. NULL does that with the first input. */
    hr_slot_fn preprocess;
    const hr_layer_desc *layers; /* decoder layers, then those of MTP; copied */
    int n_layers;
    /* in[0] is the last layer's output. NULL: that is the chunk's output. */
    hr_slot_fn postprocess;
    /* The norm after the last decoder layer; only on the chunk that has it. Runs in the last real
     * slot of the last decoder layer, or, where the chunk has none, before postprocess. */
    hr_status (*final_norm)(void *chunk, hr_layer_ctx *ctx, hr_tensor *in,
                            hr_tensor **out);
    int vp_stage;       /* given to hooks; HR_NO_STAGE for none */
    size_t state_bytes; /* hr_layer_ctx_chunk_state() */
    void (*state_fini)(void *state);
} hr_chunk_desc;

typedef struct hr_build_plan_opts {
    size_t size;
    int microbatch;
    bool delay_wgrad;        /* weight gradients fill the gaps of the plan */
    bool early_attn_release; /* as in hr_layer_plan_opts */
    bool serial;             /* the same nodes, all issued to the compute stream */
    bool ncclep_zero_copy;
    /* Borrowed; weight gradients are delayed and left there, not run by the plan. NULL: none is. */
    hr_wgrad_store *wgrad_store;
} hr_build_plan_opts;

/* The plan of one microbatch on the current device: all nodes, in one block, with one event. Run it
 * with hr_schedule_plan_run(), once forward and once backward. `inputs` are retained; at most
 * HR_NODE_MAX. The description's pointers must outlive the plan. */
HR_API HR_RESULT hr_status hr_build_schedule_plan(const hr_chunk_desc *chunk,
                                                  hr_tensor *const *inputs, int n,
                                                  const hr_build_plan_opts *opts,
                                                  hr_schedule_plan **out);
/* Layers of a plan of hr_build_schedule_plan() that are not yet released. */
HR_API int hr_chunk_plan_layers_left(const hr_schedule_plan *plan);

/* ---- a step without pipeline --------------------------------------------------------------- */
typedef enum hr_loss_mode {
    HR_LOSS_SUM,             /* never divided */
    HR_LOSS_MEAN_MICROBATCH, /* over the microbatch's tokens, then over the microbatches */
    HR_LOSS_MEAN_TOKEN       /* not divided here: `final` gets the step's tokens */
} hr_loss_mode;

typedef struct hr_loss {
    /* One element, in the graph of `output`; one reference, the library's. */
    hr_tensor *loss;
    int64_t tokens; /* that it sums over; -1: unknown */
} hr_loss;

typedef struct hr_no_pipelining_opts {
    size_t size;
    /* With 0 one is run all the same, as in Megatron: number 0 overlapped, else -1. */
    int microbatches;
    bool overlap; /* forward of one microbatch beside the backward of the one before */
    bool forward_only;  /* no backward, no plan beside another */
    bool high_priority; /* of the communication stream, if it is not chosen yet */
    hr_loss_mode loss_mode;
    void *ctx; /* of all that follow; those marked (opt) may be NULL */

    /* A plan for microbatch m, built serial unless `overlap`. The library destroys it. */
    hr_status (*plan)(void *ctx, int m, bool overlap, hr_schedule_plan **plan);
    /* The loss of m from the plan's output (detached, unless forward only). Runs on the compute
     * stream in the node "loss_func", after the plan. Keep what is to be reported here. */
    hr_status (*loss)(void *ctx, int m, hr_tensor *output, hr_loss *out);
    /* (opt) Divide the loss in place, where loss_mode says so. Without it the caller's `loss` has the
     * divisor inside. */
    hr_status (*divide)(void *ctx, int m, hr_tensor *loss, int64_t divisor);
    /* (opt) On before all microbatches but the last, off before the last, and where a step fails in
     * between: gradients need no reduction there. */
    hr_status (*no_sync)(void *ctx, bool on);
    /* (opt) After the last backward: gradients are complete. `tokens` is their sum over the
     * microbatches in HR_LOSS_MEAN_TOKEN, else -1. */
    hr_status (*final)(void *ctx, int64_t tokens);
} hr_no_pipelining_opts;

/* One step of all microbatches on this rank; gradients accumulate in order of microbatch either way,
 * so overlapped and serial agree to the bit. Issues only: hr_device_synchronize() for the end.
 * Errors: ERR_INVALID "microbatches"; what plans, nodes and callbacks return. */
HR_API HR_RESULT hr_status
hr_forward_backward_no_pipelining(const hr_no_pipelining_opts *opts);

HR_END_C
#endif
