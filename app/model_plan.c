/* model_plan.c: a stage of the model as one chunk: embedding, layers, final norm, head and loss, as far as
 * they lie on it. */
#include "app_try.h"
#include "model.h"

/* What one microbatch carries from one end of the chunk to the other; borrowed from the plan. */
typedef struct carried {
    hr_app_model *model;
    hr_tensor *targets;
    /* After the final norm, past the layer of multi-token prediction; NULL: there is none. */
    hr_tensor *hidden;
} carried;

bool hr_app_stage_wants_ids(const hr_app_stage *s)
{
    return s->part.embedding;
}

bool hr_app_stage_wants_targets(const hr_app_stage *s)
{
    return s->part.loss || (s->part.mtp > 0 && s->model->pass.training);
}

/* in[]: ids, or what the stage before put out; targets where they are wanted. */
static hr_status begin(void *chunk, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                       hr_tensor **out, int *n_out)
{
    const hr_app_stage *s = chunk;
    *(carried *)hr_layer_ctx_state(ctx) =
        (carried){.model = s->model, .targets = n > 1 ? in[1] : NULL};
    if (s->part.embedding)
        APP_TRY(hr_op_embedding(s->model->embedding, in[0], &out[0]));
    else
        out[0] = hr_tensor_retain(in[0]);
    *n_out = 1;
    return HR_OK;
}

static hr_status final_norm(void *chunk, hr_layer_ctx *ctx, hr_tensor *in,
                            hr_tensor **out)
{
    return hr_app_norm(in, ((hr_app_stage *)chunk)->model->final_norm, out);
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
    const hr_app_stage *s = chunk;
    const carried *c = hr_layer_ctx_state(ctx);
    hr_tensor *above = NULL, *below = NULL, *hidden = c->hidden ? c->hidden : in[0],
              *ahead = c->hidden ? in[0] : NULL;
    if (s->stacked_in) {
        APP_TRY(hr_app_unstack(in[0], &above, &below));
        hidden = above;
        ahead = s->model->pass.training ? below : NULL;
    }
    hr_status st = hr_app_loss(s->model, hidden, ahead, c->targets, &out[0]);
    hr_tensor_release(above);
    hr_tensor_release(below);
    APP_TRY(st);
    *n_out = 1;
    return HR_OK;
}

/* In an evaluation there is nothing below; what stands there is not looked at. */
static hr_status stack_up(void *chunk, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                          hr_tensor **out, int *n_out)
{
    const carried *c = hr_layer_ctx_state(ctx);
    APP_TRY(hr_app_stack(c->hidden ? c->hidden : in[0], in[0], &out[0]));
    *n_out = 1;
    return HR_OK;
}

hr_status hr_app_stage_plan(hr_app_stage *s, const hr_app_feed *feed,
                            const hr_build_plan_opts *opts, hr_schedule_plan **out)
{
    const hr_layout_part *part = &s->part;
    bool mtp = part->mtp > 0 && s->model->pass.training;
    hr_tensor *in[2] = {part->embedding ? feed->ids : feed->in, feed->targets};
    hr_chunk_desc chunk = {HR_INIT(hr_chunk_desc),
                           .chunk = s,
                           .preprocess = begin,
                           .layers = s->model->descs + s->first,
                           .n_layers = part->layers + (mtp ? part->mtp : 0),
                           .postprocess = part->loss      ? head_and_loss
                                          : part->mtp > 0 ? stack_up
                                                          : NULL,
                           .vp_stage = s->vp_stage,
                           .state_bytes = sizeof(carried)};
    if (part->layers > 0 && part->first_layer + part->layers == s->model->shape.layers)
        chunk.final_norm = final_norm;
    return hr_build_schedule_plan(&chunk, in, hr_app_stage_wants_targets(s) ? 2 : 1,
                                  opts, out);
}

hr_status hr_app_model_plan(hr_app_model *m, hr_tensor *ids, hr_tensor *targets,
                            const hr_build_plan_opts *opts, hr_schedule_plan **out)
{
    return hr_app_stage_plan(&m->stages[0],
                             &(hr_app_feed){.ids = ids, .targets = targets}, opts, out);
}
