/* One node of a plan: how a slot's function becomes a schedule node, and what it may ask for
 * while it runs. */
#include "autograd/lend_grad.h"
#include "base/try.h"
#include "plan/wgrad_batch.h"

void *hr_layer_ctx_state(hr_layer_ctx *ctx)
{
    return ctx->state;
}

void *hr_layer_ctx_chunk_state(hr_layer_ctx *ctx)
{
    return ctx->chunk ? ctx->chunk->state : NULL;
}

/* Without memory for a queue the work is done at once: the same bits, only sooner. */
hr_wgrad_queue *hr_layer_ctx_queue(hr_layer_ctx *ctx)
{
    hr__slot_node *sn = ctx->running;
    if (sn == NULL || !sn->delay_wgrad)
        return NULL;
    if (sn->queue == NULL && hr_wgrad_queue_create(&sn->queue) >= 0)
        sn->node.opts.wgrad_queue = sn->queue;
    return sn->queue;
}

int hr_layer_ctx_microbatch(const hr_layer_ctx *ctx)
{
    return ctx->microbatch;
}

hr_slot hr_layer_ctx_slot(const hr_layer_ctx *ctx)
{
    return ctx->running ? ctx->running->slot : HR_SLOTS;
}

/* ---- tensors set aside ------------------------------------------------------------------- */
hr_status hr_node_detach(hr_layer_ctx *ctx, hr_tensor *t, hr_tensor **side)
{
    hr__slot_node *sn = ctx->running;
    hr_tensor *viewless, *made = NULL;
    *side = NULL;
    if (sn == NULL)
        return hr_fail(HR_ERR_STATE, "no_slot",
                       "hr_node_detach: no slot's forward is running");
    if (sn->n_side == HR_NODE_MAX)
        return hr_fail(HR_ERR_INVALID, "side_count",
                       "hr_node_detach: slot '%s' sets more than %d tensors aside",
                       sn->node.names.name, HR_NODE_MAX);
    HR_TRY(hr_make_viewless(t, &viewless));
    hr_status st = hr_tensor_detach(viewless, &made);
    hr_tensor_release(viewless);
    if (st >= 0)
        st = hr_tensor_set_requires_grad(made, hr_tensor_requires_grad(t));
    if (st < 0) {
        hr_tensor_release(made);
        return st;
    }
    hr__grad_may_share(made);
    sn->before[sn->n_side] = hr_tensor_retain(t);
    sn->side[sn->n_side++] = made;
    *side = made;
    return HR_OK;
}

static void drop_sides(hr__slot_node *sn)
{
    for (int i = 0; i < sn->n_side; i++) {
        hr_tensor_release(sn->before[i]);
        hr_tensor_release(sn->side[i]);
    }
    sn->n_side = 0;
}

/* ---- the node's functions ------------------------------------------------------------------ */
static hr_status call_norm(hr__slot_node *sn, hr_tensor *in, hr_tensor **out)
{
    const hr__chunk_ctx *chunk = sn->ctx->chunk;
    *out = NULL;
    return chunk->final_norm(chunk->chunk, sn->ctx, in, out);
}

static hr_status call(hr__slot_node *sn, hr_tensor *const *in, int n, hr_tensor **out,
                      int *n_out)
{
    if (sn->norm != HR__NORM_INPUT)
        return sn->fn(sn->layer, sn->ctx, in, n, out, n_out);
    hr_tensor *first[HR_NODE_MAX];
    for (int i = 0; i < n; i++)
        first[i] = in[i];
    HR_TRY(call_norm(sn, in[0], &first[0]));
    hr_status st = sn->fn(sn->layer, sn->ctx, first, n, out, n_out);
    hr_tensor_release(first[0]);
    return st;
}

static hr_status node_forward(void *ctx, hr_node *node, hr_tensor *const *in, int n,
                              hr_tensor **out, int *n_out)
{
    hr__slot_node *sn = ctx;
    drop_sides(sn);
    sn->ctx->running = sn;
    hr_status st = call(sn, in, n, out, n_out);
    if (st >= 0 && sn->norm == HR__NORM_OUTPUT) {
        hr_tensor *plain = out[0];
        st = call_norm(sn, plain, &out[0]);
        hr_tensor_release(plain);
    }
    sn->ctx->running = NULL;
    return st;
}

static hr_status node_backward(void *ctx, hr_node *node, hr_tensor *const *outputs,
                               hr_tensor *const *grads, int n, hr_tensor **used,
                               int *n_used)
{
    hr__slot_node *sn = ctx;
    hr_tensor *side_grad[HR_NODE_MAX];
    for (int i = 0; i < sn->n_side; i++)
        side_grad[i] = hr_tensor_grad(sn->side[i]);
    return hr__node_engine(node, grads, n,
                           &(hr__node_sides){sn->before, side_grad, sn->n_side}, used,
                           n_used);
}

static hr_status node_wgrad_done(void *ctx)
{
    hr__slot_node *sn = ctx;
    return sn->wgrad_done(sn->layer, sn->ctx, sn->slot);
}

static hr_status node_post_forward(void *ctx)
{
    hr__slot_node *sn = ctx;
    return sn->post_forward(sn->layer, sn->ctx);
}

static hr_status node_post_backward(void *ctx)
{
    hr__slot_node *sn = ctx;
    return sn->post_backward(sn->layer, sn->ctx);
}

hr_stream *hr__comp_stream(void *ctx)
{
    return hr_get_comp_stream();
}

hr_stream *hr__comm_stream(void *ctx)
{
    return hr_get_comm_stream();
}

/* ---- life, and passing on ------------------------------------------------------------------ */
/* The rest of these, MTP's head among them, compute their weight gradients in their own backward. */
static bool may_delay(hr_slot slot)
{
    return slot < HR_SLOT_MTP;
}

void hr__slot_init(hr__slot_node *sn, const hr__slot_opts *opts)
{
    if (sn->fn == NULL) {
        hr__node_init_noop(&sn->node);
        return;
    }
    sn->delay_wgrad = opts->delay_wgrad && may_delay(sn->slot);
    hr_schedule_node_opts o = {
        HR_INIT(hr_schedule_node_opts),
        .forward = node_forward,
        .backward = node_backward,
        .ctx = sn,
        .stream_fn = opts->stream_fn,
        .event = opts->event,
        .free_input = opts->free_input,
        .ncclep_zero_copy = opts->zero_copy,
        .wgrad_done = sn->wgrad_done ? node_wgrad_done : NULL,
        .post_forward = sn->post_forward ? node_post_forward : NULL,
        .post_backward = sn->post_backward ? node_post_backward : NULL,
    };
    hr__node_init(&sn->node, &o, opts->names);
    hr_node_set_mark(&sn->node, opts->number, sn->ctx->microbatch);
}

void hr__slot_move_wgrad(hr__slot_node *from, hr_layer_ctx *ctx, hr__slot_node *to)
{
    hr_schedule_node_opts o = from->node.opts;
    *to = (hr__slot_node){.ctx = ctx,
                          .slot = from->slot,
                          .layer = from->layer,
                          .wgrad_done = from->wgrad_done,
                          .post_backward = from->post_backward,
                          .queue = from->queue};
    o.ctx = to;
    o.stream = from->node.stream;
    o.stream_fn = NULL;
    hr__node_init(&to->node, &o, &from->node.names);
    hr_node_set_mark(&to->node, from->node.layer, from->node.microbatch);
    from->queue = from->node.opts.wgrad_queue = NULL;
}

hr_status hr__slot_wgrad(hr__slot_node *sn)
{
    struct hr__wgrad_batch *batch = sn->ctx->chunk ? sn->ctx->chunk->batch : NULL;
    if (batch && sn->queue)
        return hr__wgrad_batch_take(batch, sn);
    return hr_node_backward_dw(&sn->node);
}

void hr__slot_fini(hr__slot_node *sn)
{
    drop_sides(sn);
    hr__node_fini(&sn->node);
    hr_wgrad_queue_destroy(sn->queue);
    sn->queue = NULL;
}

hr_status hr__slot_forward(hr__slot_node *sn, hr__flow *x)
{
    hr_tensor *const *out;
    int n;
    HR_TRY(hr_node_forward(&sn->node, x->t, x->n, &out, &n));
    *x = (hr__flow){out, n};
    return HR_OK;
}

void hr__grads_drop(hr__grads *g)
{
    for (int i = 0; i < g->n; i++)
        hr_tensor_release(g->t[i]);
    g->n = 0;
}

hr_status hr__slot_backward(hr__slot_node *sn, hr__grads *g)
{
    hr__grads next = {.n = 0};
    hr_status st = hr_node_backward(&sn->node, g->t, g->n, next.t, &next.n);
    hr__grads_drop(g);
    if (st < 0)
        return st;
    drop_sides(sn);
    *g = next;
    return HR_OK;
}
