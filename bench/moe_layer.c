/* moe_layer.c: see moe_layer.h. */
#include "moe_layer.h"
#include "bench.h"

/* What one microbatch sets aside between the slots. */
typedef struct aside {
    hr_route *route;
    hr_tensor *residual, *probs;
} aside;

static void aside_fini(void *state)
{
    hr_route_release(((aside *)state)->route);
}

static hr_tensor *weight(int ndim, const int64_t *shape)
{
    hr_tensor *w;
    ok(hr_tensor_zeros(HR_F32, ndim, shape, &w));
    ok(hr_tensor_set_requires_grad(w, true));
    return w;
}

void moe_layer_make(moe_layer *l, hr_dispatcher *d)
{
    int64_t local = hr_dispatcher_local_experts(d);
    *l = (moe_layer){
        .dispatcher = d,
        .norm1 = weight(1, (const int64_t[]){C}),
        .qkv = weight(2, (const int64_t[]){3 * C, C}),
        .proj = weight(2, (const int64_t[]){C, C}),
        .norm2 = weight(1, (const int64_t[]){C}),
        .router = weight(2, (const int64_t[]){E, C}),
        .expert_in = weight(3, (const int64_t[]){local, 2 * D, C}),
        .expert_out = weight(3, (const int64_t[]){local, C, D}),
    };
}

void moe_layer_drop(moe_layer *l)
{
    hr_tensor *all[] = {l->norm1,  l->qkv,       l->proj,      l->norm2,
                        l->router, l->expert_in, l->expert_out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        hr_tensor_release(all[i]);
}

/* ---- the slots --------------------------------------------------------------------------- */
static hr_tensor *attention(const moe_layer *l, hr_tensor *x, hr_wgrad_queue *q)
{
    hr_tensor *n, *qkv, *a, *p, *h;
    ok(hr_op_rmsnorm(x, l->norm1, 1e-5F, &n));
    ok(hr_op_linear(n, l->qkv, q, &qkv));
    ok(hr_op_attention(qkv, H, SEQ, 1e4F, &a));
    ok(hr_op_linear(a, l->proj, q, &p));
    ok(hr_op_add(x, p, &h));
    hr_tensor_release(n);
    hr_tensor_release(qkv);
    hr_tensor_release(a);
    hr_tensor_release(p);
    return h;
}

static hr_status pre(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                     hr_tensor **out, int *n_out)
{
    moe_layer *l = layer;
    aside *a = hr_layer_ctx_state(ctx);
    hr_router_opts opts = {HR_INIT(hr_router_opts), .top_k = K};
    hr_tensor *h = attention(l, in[0], hr_layer_ctx_queue(ctx));
    hr_tensor *norm, *logits, *probs, *index;
    ok(hr_op_rmsnorm(h, l->norm2, 1e-5F, &norm));
    ok(hr_node_detach(ctx, h, &a->residual));
    ok(hr_op_linear(norm, l->router, NULL, &logits));
    ok(hr_op_router(logits, &opts, &probs, &index));
    hr_tensor_release(logits);
    ok(hr_moe_preprocess(l->dispatcher, norm, probs, index, &a->route, &out[0],
                         &out[1]));
    hr_tensor_release(probs);
    hr_tensor_release(index);
    hr_tensor_release(norm);
    hr_tensor_release(h);
    *n_out = 2;
    return HR_OK;
}

static hr_status dispatch(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                          hr_tensor **out, int *n_out)
{
    aside *a = hr_layer_ctx_state(ctx);
    hr_tensor *probs;
    ok(hr_moe_dispatch(a->route, in[0], in[1], &out[0], &probs));
    ok(hr_node_detach(ctx, probs, &a->probs));
    hr_tensor_release(probs);
    *n_out = 1;
    return HR_OK;
}

static hr_status mlp(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                     hr_tensor **out, int *n_out)
{
    moe_layer *l = layer;
    aside *a = hr_layer_ctx_state(ctx);
    hr_wgrad_queue *q = hr_layer_ctx_queue(ctx);
    hr_tensor *x, *probs, *u, *s, *y;
    ok(hr_tensor_record_stream(a->probs, hr_stream_current()));
    ok(hr_moe_sort(a->route, in[0], a->probs, &x, &probs));
    ok(hr_moe_grouped(a->route, x, l->expert_in, q, &u));
    ok(hr_moe_swiglu(a->route, u, probs, &s));
    ok(hr_moe_grouped_last(a->route, s, l->expert_out, q, &y));
    hr_tensor_release(x);
    hr_tensor_release(probs);
    hr_tensor_release(u);
    hr_tensor_release(s);
    ok(hr_moe_unsort(a->route, y, &out[0]));
    hr_tensor_release(y);
    *n_out = 1;
    return HR_OK;
}

static hr_status combine(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                         hr_tensor **out, int *n_out)
{
    aside *a = hr_layer_ctx_state(ctx);
    hr_tensor *sum;
    ok(hr_moe_combine(a->route, in[0], &sum));
    ok(hr_tensor_record_stream(a->residual, hr_stream_current()));
    ok(hr_op_add(sum, a->residual, &out[0]));
    hr_tensor_release(sum);
    hr_tensor_drop(a->residual, hr_stream_current());
    *n_out = 1;
    return HR_OK;
}

void moe_layer_describe(moe_layer *l, bool frees, hr_layer_desc *out)
{
    hr_free_input_facts facts = {
        HR_INIT(hr_free_input_facts), .moe = true, .dispatcher = HR_DISPATCH_ALLTOALL,
        .local_experts = hr_dispatcher_local_experts(l->dispatcher)};
    if (hr_dispatcher_moe_kind(l->dispatcher) == HR_MOE_SYMMETRIC) {
        facts.dispatcher = HR_DISPATCH_FLEX; /* what frees as NCCL EP does */
        facts.backend = HR_FLEX_NCCLEP;
    }
    *out = (hr_layer_desc){HR_INIT(hr_layer_desc), .layer = l,
                           .state_bytes = sizeof(aside), .state_fini = aside_fini,
                           .slot = {[HR_SLOT_PRE] = pre,
                                    [HR_SLOT_DISPATCH] = dispatch,
                                    [HR_SLOT_MLP] = mlp,
                                    [HR_SLOT_COMBINE] = combine}};
    for (int s = 0; s < HR_SLOTS; s++)
        out->free_input[s] = frees && hr_free_input_policy((hr_slot)s, &facts);
}
