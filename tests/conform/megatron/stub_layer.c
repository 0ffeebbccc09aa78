/* See stub_layer.h. */
#include "stub_layer.h"

#include <string.h>

const char *const plan_skip[] = {"accum", NULL};

/* ---- operations --------------------------------------------------------------------------- */
typedef struct op_ctx {
    rec *r;
    const char *op; /* interned */
    int n_in;
    hr_wgrad_queue *queue;
    const char *dw[2];
} op_ctx;

static hr_status run_dw(const hr_wgrad_item *it)
{
    rec *r = (rec *)(uintptr_t)it->arg[0];
    rec_add(r, "[s,s,s]", "dw", it->name, rec_current(r));
    return HR_OK;
}

static hr_status op_backward(hr_function *fn, hr_tensor *const *grad_out,
                             hr_tensor **grad_in)
{
    op_ctx *c = hr_function_ctx(fn);
    hr_status st = HR_OK;
    rec_add(c->r, "[s,s,s]", "bwd", c->op, rec_current(c->r));
    for (int i = 0; i < c->n_in && st >= 0; i++)
        if (hr_function_needs(fn, i))
            st = hr_tensor_zeros(HR_F32, 2, (int64_t[]){2, 3}, &grad_in[i]);
    for (int i = 0; c->queue && i < 2 && c->dw[i] && st >= 0; i++)
        st = hr_wgrad_push(c->queue,
                           &(hr_wgrad_item){.run = run_dw,
                                            .name = c->dw[i],
                                            .arg = {(int64_t)(uintptr_t)c->r}});
    return st;
}

static const hr_function_class op_class = {
    .name = "stub", .ctx_bytes = sizeof(op_ctx), .backward = op_backward};

static const char *joined(const char *a, const char *b)
{
    char buf[REC_NAME];
    snprintf(buf, sizeof buf, "%s.%s", a, b);
    return hr_intern(buf);
}

void stub_run(rec *r, const stub_op *op, hr_tensor **out)
{
    const char *name = joined(op->name, op->op);
    hr_function *fn;
    rec_add(r, "[s,s,s]", "fwd", name, rec_current(r));
    rec_need(hr_function_create(&op_class, op->in, op->n_in, &fn), name);
    for (int i = 0; i < op->n_out; i++) {
        rec_need(hr_tensor_zeros(HR_F32, 2, (int64_t[]){2, 3}, &out[i]), name);
        hr_storage_set_symmetric(hr_tensor_storage(out[i]), op->symmetric);
        rec_name(r, out[i], joined(name, op->out_names[i]));
    }
    if (fn)
        *(op_ctx *)hr_function_ctx(fn) =
            (op_ctx){r, name, op->n_in, op->queue, {op->dw[0], op->dw[1]}};
    rec_need(hr_function_finish(fn, out, op->n_out), name);
}

/* ---- the slots ------------------------------------------------------------------------------ */
typedef struct layer_state {
    stub_layer *layer;
    hr_tensor *res, *dprob; /* set aside */
} layer_state;

static void layer_fini(void *state)
{
    stub_layer *l = ((layer_state *)state)->layer;
    if (l)
        rec_add(l->r, "[s,s]", "release", l->name);
}

static hr_status slot_pre(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                          hr_tensor **out, int *n_out)
{
    stub_layer *l = layer;
    layer_state *state = hr_layer_ctx_state(ctx);
    stub_op op = {
        .name = l->name,
        .op = "pre",
        .in = in,
        .n_in = n,
        .queue = hr_layer_ctx_queue(ctx),
        .dw = {joined(l->name, "pre"), l->mtp ? joined(l->name, "eh") : NULL}};
    state->layer = l;
    if (!l->moe) {
        op.out_names = (const char *[]){"h"};
        op.n_out = *n_out = 1;
        stub_run(l->r, &op, out);
        return HR_OK;
    }
    op.out_names = (const char *[]){"tok", "prob", "res"};
    op.n_out = 3;
    stub_run(l->r, &op, out);
    *n_out = 2;
    hr_status st = hr_node_detach(ctx, out[2], &state->res);
    hr_tensor_release(out[2]);
    out[2] = NULL;
    return st;
}

static hr_status slot_dispatch(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in,
                               int n, hr_tensor **out, int *n_out)
{
    stub_layer *l = layer;
    layer_state *state = hr_layer_ctx_state(ctx);
    stub_run(l->r,
             &(stub_op){.name = l->name,
                        .op = "disp",
                        .in = in,
                        .n_in = n,
                        .out_names = (const char *[]){"dtok", "dprob"},
                        .n_out = 2,
                        .symmetric = true},
             out);
    *n_out = 1;
    hr_status st = hr_node_detach(ctx, out[1], &state->dprob);
    hr_tensor_release(out[1]);
    out[1] = NULL;
    return st;
}

static hr_status slot_mlp(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                          hr_tensor **out, int *n_out)
{
    stub_layer *l = layer;
    layer_state *state = hr_layer_ctx_state(ctx);
    hr_tensor *with_probs[] = {in[0], state->dprob};
    stub_run(l->r,
             &(stub_op){.name = l->name,
                        .op = "mlp",
                        .in = with_probs,
                        .n_in = l->moe ? 2 : 1,
                        .out_names = (const char *[]){l->moe ? "exp" : "h"},
                        .n_out = 1,
                        .symmetric = l->moe,
                        .queue = hr_layer_ctx_queue(ctx),
                        .dw = {joined(l->name, "mlp")}},
             out);
    *n_out = 1;
    return HR_OK;
}

static hr_status slot_combine(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in,
                              int n, hr_tensor **out, int *n_out)
{
    stub_layer *l = layer;
    layer_state *state = hr_layer_ctx_state(ctx);
    hr_tensor *with_res[] = {in[0], state->res};
    stub_run(l->r,
             &(stub_op){.name = l->name,
                        .op = "comb",
                        .in = with_res,
                        .n_in = 2,
                        .out_names = (const char *[]){"h"},
                        .n_out = 1},
             out);
    *n_out = 1;
    return hr_tensor_record_stream(state->res, hr_stream_current());
}

static hr_status slot_mtp(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                          hr_tensor **out, int *n_out)
{
    stub_layer *l = layer;
    stub_run(l->r,
             &(stub_op){.name = l->name,
                        .op = "mtp",
                        .in = in,
                        .n_in = n,
                        .out_names = (const char *[]){"h"},
                        .n_out = 1},
             out);
    *n_out = 1;
    return HR_OK;
}

static hr_free_input_facts facts_of(json_t *c, bool moe)
{
    const char *d = json_string_value(json_object_get(c, "dispatcher"));
    hr_free_input_facts f = {HR_INIT(hr_free_input_facts), .moe = moe,
                             .local_experts = case_int(c, "local_experts", 2)};
    if (d == NULL || strcmp(d, "alltoall") == 0)
        return f;
    f.dispatcher =
        strcmp(d, "allgather") == 0 ? HR_DISPATCH_ALLGATHER : HR_DISPATCH_FLEX;
    if (strcmp(d, "deepep") == 0)
        f.backend = HR_FLEX_DEEPEP;
    if (strcmp(d, "hybridep") == 0)
        f.backend = HR_FLEX_HYBRIDEP;
    if (strcmp(d, "ncclep") == 0)
        f.backend = HR_FLEX_NCCLEP;
    return f;
}

/* ---- hooks ------------------------------------------------------------------------------- */
static hr_status wgrad_done(void *layer, hr_layer_ctx *ctx, hr_slot slot)
{
    stub_layer *l = layer;
    rec_add(l->r, "[s,s,s]", "wgrad_hook",
            joined(l->name, slot == HR_SLOT_PRE ? "pre" : "mlp"), rec_current(l->r));
    if (l->mtp && slot == HR_SLOT_PRE)
        rec_add(l->r, "[s,s,s]", "wgrad_hook", joined(l->name, "eh"),
                rec_current(l->r));
    return HR_OK;
}

static hr_status layer_hook(stub_layer *l, const char *which)
{
    rec_add(l->r, "[s,s,s,s]", "layer_hook", l->name, which, rec_current(l->r));
    return HR_OK;
}

static hr_status post_forward(void *layer, hr_layer_ctx *ctx)
{
    return layer_hook(layer, "post_forward");
}

static hr_status post_backward(void *layer, hr_layer_ctx *ctx)
{
    return layer_hook(layer, "post_backward");
}

void stub_describe(stub_layer *layer, rec *r, const char *name, const char *kind,
                   json_t *c, hr_layer_desc *desc)
{
    bool mtp = strcmp(kind, "mtp") == 0;
    hr_free_input_facts facts = facts_of(c, strcmp(kind, "dense") != 0);
    layer->r = r;
    layer->moe = facts.moe;
    layer->mtp = mtp;
    snprintf(layer->name, sizeof layer->name, "%s", name);
    *desc =
        (hr_layer_desc){HR_INIT(hr_layer_desc), .layer = layer, .mtp = mtp,
                        .state_bytes = sizeof(layer_state), .state_fini = layer_fini};
    desc->slot[HR_SLOT_PRE] = slot_pre;
    desc->slot[HR_SLOT_MLP] = slot_mlp;
    desc->slot[HR_SLOT_DISPATCH] = facts.moe ? slot_dispatch : NULL;
    desc->slot[HR_SLOT_COMBINE] = facts.moe ? slot_combine : NULL;
    desc->slot[HR_SLOT_MTP] = mtp ? slot_mtp : NULL;
    desc->wgrad_done = case_has(c, "wgrad_hooks") ? wgrad_done : NULL;
    if (case_has(c, "fsdp")) {
        desc->post_forward = post_forward;
        desc->post_backward = post_backward;
    }
    for (int s = 0; s < HR_SLOTS; s++)
        desc->free_input[s] = hr_free_input_policy((hr_slot)s, &facts);
}

/* ---- the chunk ------------------------------------------------------------------------------ */
static hr_status preprocess(void *chunk, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                            hr_tensor **out, int *n_out)
{
    stub_chunk *s = chunk;
    *(stub_chunk **)hr_layer_ctx_chunk_state(ctx) = s;
    *n_out = 1;
    if (n > 0) { /* no embedding: the received input goes on */
        rec_add(s->r, "[s,s,s]", "fwd", joined(s->name, "prep"), rec_current(s->r));
        out[0] = hr_tensor_retain(in[0]);
        return HR_OK;
    }
    hr_tensor *weight = rec_tensor_make(s->r, joined(s->name, "embedding"), true);
    stub_run(s->r,
             &(stub_op){.name = s->name,
                        .op = "prep",
                        .in = &weight,
                        .n_in = 1,
                        .out_names = (const char *[]){"h"},
                        .n_out = 1},
             out);
    return HR_OK;
}

static hr_status postprocess(void *chunk, hr_layer_ctx *ctx, hr_tensor *const *in,
                             int n, hr_tensor **out, int *n_out)
{
    stub_chunk *s = chunk;
    stub_run(s->r,
             &(stub_op){.name = s->name,
                        .op = "post",
                        .in = in,
                        .n_in = n,
                        .out_names = (const char *[]){"loss"},
                        .n_out = 1},
             out);
    *n_out = 1;
    return HR_OK;
}

static hr_status final_norm(void *chunk, hr_layer_ctx *ctx, hr_tensor *in,
                            hr_tensor **out)
{
    stub_chunk *s = chunk;
    stub_run(s->r,
             &(stub_op){.name = s->name,
                        .op = "norm",
                        .in = &in,
                        .n_in = 1,
                        .out_names = (const char *[]){"h"},
                        .n_out = 1},
             out);
    return HR_OK;
}

static void chunk_fini(void *state)
{
    stub_chunk *s = *(stub_chunk **)state;
    if (s)
        rec_add(s->r, "[s,s]", "release", s->name);
}

void stub_describe_chunk(stub_chunk *s, rec *r, const char *name, json_t *kinds,
                         json_t *c, bool post)
{
    size_t i;
    json_t *kind;
    s->r = r;
    snprintf(s->name, sizeof s->name, "%s", name);
    json_array_foreach(kinds, i, kind)
    {
        char layer[STUB_NAME];
        snprintf(layer, sizeof layer, "%.12s.L%u", name, (unsigned)i);
        stub_describe(&s->layer[i], r, layer, json_string_value(kind), c, &s->desc[i]);
    }
    s->chunk = (hr_chunk_desc){HR_INIT(hr_chunk_desc),
                               .chunk = s,
                               .preprocess = preprocess,
                               .layers = s->desc,
                               .n_layers = (int)json_array_size(kinds),
                               .postprocess = post ? postprocess : NULL,
                               .final_norm = case_has(c, "norm") ? final_norm : NULL,
                               .vp_stage = HR_NO_STAGE,
                               .state_bytes = sizeof(stub_chunk *),
                               .state_fini = chunk_fini};
}

/* ---- cases ---------------------------------------------------------------------------------- */
const char *plan_left_out(json_t *c)
{
    if (case_has(c, "fp8"))
        return "fp8: no low-precision context";
    return NULL;
}

void plan_streams(rec *r, json_t *c)
{
    if (case_int(c, "comm", 1))
        rec_need(hr_set_streams(rec_stream(r, "comm"), false), "comm stream");
}
