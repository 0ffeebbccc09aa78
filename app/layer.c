/* layer.c: the slots of a dense and of an MoE layer.
 *
 *     MoE     pre: attention, norm, shared expert, router, permutation     aside: residual, shared
 *             dispatch: transfer                                           aside: probabilities
 *             mlp: experts    combine: transfer back, sum, shared, residual
 *     dense   pre: attention  mlp: norm, SwiGLU, residual
 */
#include "layer.h"
#include "app_try.h"

/* What one (layer, microbatch) sets aside between its slots; sides are borrowed from the plan. */
typedef struct aside {
    hr_route *route;
    hr_tensor *residual, *shared, *probs;
} aside;

static void aside_fini(void *state)
{
    hr_route_release(((aside *)state)->route);
}

static hr_status dense_pre(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                           hr_tensor **out, int *n_out)
{
    hr_app_block *b = layer;
    APP_TRY(hr_app_attention(&b->math, in[0], hr_layer_ctx_queue(ctx), &out[0]));
    *n_out = 1;
    return HR_OK;
}

static hr_status dense_mlp(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                           hr_tensor **out, int *n_out)
{
    hr_app_block *b = layer;
    hr_tensor *norm = NULL, *m = NULL, *h = NULL;
    hr_status st;
    APP_TRY_GOTO(st, hr_app_norm(in[0], b->math.norm2, &norm), done);
    APP_TRY_GOTO(st, hr_app_mlp(&b->math, norm, hr_layer_ctx_queue(ctx), &m), done);
    APP_TRY_GOTO(st, hr_op_add(in[0], m, &h), done);
    out[0] = h;
    *n_out = 1;
done:
    hr_tensor_release(norm);
    hr_tensor_release(m);
    return st;
}

/* Router and permutation of `norm`, into the slot's outputs. */
static hr_status moe_send_off(hr_app_block *b, aside *a, hr_tensor *norm,
                              hr_tensor **out, int *n_out)
{
    hr_tensor *probs = NULL, *index = NULL;
    APP_TRY(hr_app_route(&b->math, norm, &probs, &index));
    hr_status st = hr_moe_preprocess(b->dispatcher, norm, probs, index, &a->route,
                                     &out[0], &out[1]);
    if (st >= 0)
        *n_out = 2;
    hr_tensor_release(probs);
    hr_tensor_release(index);
    return st;
}

static hr_status moe_pre(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                         hr_tensor **out, int *n_out)
{
    hr_app_block *b = layer;
    aside *a = hr_layer_ctx_state(ctx);
    hr_wgrad_queue *q = hr_layer_ctx_queue(ctx);
    hr_tensor *h = NULL, *norm = NULL, *shared = NULL;
    hr_status st;
    APP_TRY_GOTO(st, hr_app_attention(&b->math, in[0], q, &h), done);
    APP_TRY_GOTO(st, hr_app_norm(h, b->math.norm2, &norm), done);
    if (b->math.mlp_in) {
        APP_TRY_GOTO(st, hr_app_mlp(&b->math, norm, q, &shared), done);
        APP_TRY_GOTO(st, hr_node_detach(ctx, shared, &a->shared), done);
    }
    APP_TRY_GOTO(st, hr_node_detach(ctx, h, &a->residual), done);
    APP_TRY_GOTO(st, moe_send_off(b, a, norm, out, n_out), done);
done:
    hr_tensor_release(h);
    hr_tensor_release(norm);
    hr_tensor_release(shared);
    return st;
}

static hr_status moe_dispatch(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in,
                              int n, hr_tensor **out, int *n_out)
{
    aside *a = hr_layer_ctx_state(ctx);
    hr_tensor *probs = NULL, *tokens = NULL;
    APP_TRY(hr_moe_dispatch(a->route, in[0], in[1], &tokens, &probs));
    out[0] = tokens;
    *n_out = 1;
    hr_status st = hr_node_detach(ctx, probs, &a->probs);
    hr_tensor_release(probs);
    return st;
}

/* Rows sorted by expert, each weighed inside by its probability. */
static hr_status experts(const hr_app_layer *l, hr_route *route, hr_tensor *x,
                         hr_tensor *probs, hr_wgrad_queue *q, hr_tensor **out)
{
    hr_tensor *u = NULL, *s = NULL;
    hr_status st;
    APP_TRY_GOTO(st, hr_moe_grouped(route, x, l->expert_in, q, &u), done);
    APP_TRY_GOTO(st, hr_moe_swiglu(route, u, probs, &s), done);
    APP_TRY_GOTO(st, hr_moe_grouped_last(route, s, l->expert_out, q, out), done);
done:
    hr_tensor_release(u);
    hr_tensor_release(s);
    return st;
}

static hr_status moe_mlp(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                         hr_tensor **out, int *n_out)
{
    hr_app_block *b = layer;
    aside *a = hr_layer_ctx_state(ctx);
    hr_tensor *x = NULL, *probs = NULL, *y = NULL;
    hr_status st;
    APP_TRY_GOTO(st, hr_tensor_record_stream(a->probs, hr_stream_current()), done);
    APP_TRY_GOTO(st, hr_moe_sort(a->route, in[0], a->probs, &x, &probs), done);
    APP_TRY_GOTO(st, experts(&b->math, a->route, x, probs, hr_layer_ctx_queue(ctx), &y),
                 done);
    APP_TRY_GOTO(st, hr_moe_unsort(a->route, y, &out[0]), done);
    *n_out = 1;
done:
    hr_tensor_release(x);
    hr_tensor_release(probs);
    hr_tensor_release(y);
    return st;
}

/* *sum = *sum + side. The side's bytes are not needed after that. */
static hr_status add_side(hr_tensor **sum, hr_tensor *side)
{
    hr_tensor *next;
    APP_TRY(hr_tensor_record_stream(side, hr_stream_current()));
    APP_TRY(hr_op_add(*sum, side, &next));
    hr_tensor_release(*sum);
    *sum = next;
    hr_tensor_drop(side, hr_stream_current());
    return HR_OK;
}

static hr_status moe_combine(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in,
                             int n, hr_tensor **out, int *n_out)
{
    aside *a = hr_layer_ctx_state(ctx);
    hr_tensor *sum = NULL;
    hr_status st;
    APP_TRY(hr_moe_combine(a->route, in[0], &sum));
    if (a->shared)
        APP_TRY_GOTO(st, add_side(&sum, a->shared), fail);
    APP_TRY_GOTO(st, add_side(&sum, a->residual), fail);
    out[0] = sum;
    *n_out = 1;
    return HR_OK;
fail:
    hr_tensor_release(sum);
    return st;
}

void hr_app_block_describe(hr_app_block *block, hr_layer_desc *out)
{
    static const hr_slot_fn dense[HR_SLOTS] = {
        [HR_SLOT_PRE] = dense_pre, [HR_SLOT_MLP] = dense_mlp};
    static const hr_slot_fn moe[HR_SLOTS] = {[HR_SLOT_PRE] = moe_pre,
                                             [HR_SLOT_DISPATCH] = moe_dispatch,
                                             [HR_SLOT_MLP] = moe_mlp,
                                             [HR_SLOT_COMBINE] = moe_combine};
    bool is_moe = block->math.moe;
    hr_free_input_facts facts = {
        HR_INIT(hr_free_input_facts), .moe = is_moe, .dispatcher = HR_DISPATCH_ALLTOALL,
        .local_experts = is_moe ? hr_dispatcher_local_experts(block->dispatcher) : 0};
    if (is_moe && hr_dispatcher_moe_kind(block->dispatcher) == HR_MOE_SYMMETRIC) {
        facts.dispatcher = HR_DISPATCH_FLEX; /* what frees as NCCL EP does */
        facts.backend = HR_FLEX_NCCLEP;
    }
    *out = (hr_layer_desc){HR_INIT(hr_layer_desc), .layer = block,
                           .number = block->math.index,
                           .state_bytes = is_moe ? sizeof(aside) : 0,
                           .state_fini = is_moe ? aside_fini : NULL};
    for (int s = 0; s < HR_SLOTS; s++) {
        out->slot[s] = is_moe ? moe[s] : dense[s];
        out->free_input[s] = hr_free_input_policy((hr_slot)s, &facts);
    }
}
