/* model_plan.c: the model as one chunk: embedding, layers, final norm, head and loss. */
#include "app_try.h"
#include "model.h"

/* What one microbatch carries from one end of the chunk to the other; borrowed from the plan. */
typedef struct carried {
    hr_app_model *model;
    hr_tensor *targets;
    /* After the final norm, past the layer of multi-token prediction; NULL: there is none. */
    hr_tensor *hidden;
} carried;

static hr_status embed(void *chunk, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                       hr_tensor **out, int *n_out)
{
    hr_app_model *m = chunk;
    *(carried *)hr_layer_ctx_state(ctx) = (carried){.model = m, .targets = in[1]};
    APP_TRY(hr_op_embedding(m->embedding, in[0], &out[0]));
    *n_out = 1;
    return HR_OK;
}

static hr_status final_norm(void *chunk, hr_layer_ctx *ctx, hr_tensor *in,
                            hr_tensor **out)
{
    return hr_app_norm(in, ((hr_app_model *)chunk)->final_norm, out);
}

/* The head wants the hidden state, too: its gradient comes back through the one set aside. */
static hr_status mtp_pre(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                         hr_tensor **out, int *n_out)
{
    carried *c = hr_layer_ctx_chunk_state(ctx);
    hr_tensor *x;
    APP_TRY(hr_node_detach(ctx, in[0], &c->hidden));
    APP_TRY(hr_app_mtp_input(c->model, in[0], c->targets, hr_layer_ctx_queue(ctx), &x));
    hr_status st = c->model->mtp.layer_pre(layer, ctx, &x, 1, out, n_out);
    hr_tensor_release(x);
    return st;
}

static hr_status mtp_post(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                          hr_tensor **out, int *n_out)
{
    const carried *c = hr_layer_ctx_chunk_state(ctx);
    APP_TRY(hr_app_norm(in[0], c->model->mtp.final_norm, &out[0]));
    *n_out = 1;
    return HR_OK;
}

void hr_app_mtp_describe(hr_app_model *m, hr_layer_desc *desc)
{
    m->mtp.layer_pre = desc->slot[HR_SLOT_PRE];
    desc->mtp = true;
    desc->slot[HR_SLOT_PRE] = mtp_pre;
    desc->slot[HR_SLOT_MTP] = mtp_post;
}

static hr_status head_and_loss(void *chunk, hr_layer_ctx *ctx, hr_tensor *const *in,
                               int n, hr_tensor **out, int *n_out)
{
    const carried *c = hr_layer_ctx_state(ctx);
    hr_tensor *hidden = c->hidden ? c->hidden : in[0];
    APP_TRY(hr_app_loss(chunk, hidden, c->hidden ? in[0] : NULL, c->targets, &out[0]));
    *n_out = 1;
    return HR_OK;
}

hr_status hr_app_model_plan(hr_app_model *m, hr_tensor *ids, hr_tensor *targets,
                            const hr_build_plan_opts *opts, hr_schedule_plan **out)
{
    bool mtp = m->shape.mtp && hr_grad_mode();
    hr_chunk_desc chunk = {HR_INIT(hr_chunk_desc),
                           .chunk = m,
                           .preprocess = embed,
                           .layers = m->descs,
                           .n_layers = m->shape.layers + (mtp ? 1 : 0),
                           .postprocess = head_and_loss,
                           .final_norm = final_norm,
                           .vp_stage = HR_NO_STAGE,
                           .state_bytes = sizeof(carried)};
    return hr_build_schedule_plan(&chunk, (hr_tensor *[]){ids, targets}, 2, opts, out);
}
