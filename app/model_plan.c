/* model_plan.c: the model as one chunk: embedding, layers, final norm, head and loss. */
#include "app_try.h"
#include "model.h"

/* What one microbatch carries from one end of the chunk to the other; borrowed from the plan. */
typedef struct carried {
    hr_tensor *targets;
} carried;

static hr_status embed(void *chunk, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                       hr_tensor **out, int *n_out)
{
    hr_app_model *m = chunk;
    ((carried *)hr_layer_ctx_state(ctx))->targets = in[1];
    APP_TRY(hr_op_embedding(m->embedding, in[0], &out[0]));
    *n_out = 1;
    return HR_OK;
}

static hr_status final_norm(void *chunk, hr_layer_ctx *ctx, hr_tensor *in,
                            hr_tensor **out)
{
    return hr_app_norm(in, ((hr_app_model *)chunk)->final_norm, out);
}

static hr_status head_and_loss(void *chunk, hr_layer_ctx *ctx, hr_tensor *const *in,
                               int n, hr_tensor **out, int *n_out)
{
    hr_app_model *m = chunk;
    carried *c = hr_layer_ctx_state(ctx);
    hr_tensor *logits;
    APP_TRY(hr_op_linear(in[0], m->head, NULL, &logits));
    hr_status st = hr_op_cross_entropy(logits, c->targets, m->loss_scale, &out[0]);
    hr_tensor_release(logits);
    if (st >= 0)
        *n_out = 1;
    return st;
}

hr_status hr_app_model_plan(hr_app_model *m, hr_tensor *ids, hr_tensor *targets,
                            const hr_build_plan_opts *opts, hr_schedule_plan **out)
{
    hr_chunk_desc chunk = {HR_INIT(hr_chunk_desc),        .chunk = m,
                           .preprocess = embed,           .layers = m->descs,
                           .n_layers = m->shape.layers,   .postprocess = head_and_loss,
                           .final_norm = final_norm,      .vp_stage = HR_NO_STAGE,
                           .state_bytes = sizeof(carried)};
    return hr_build_schedule_plan(&chunk, (hr_tensor *[]){ids, targets}, 2, opts, out);
}
