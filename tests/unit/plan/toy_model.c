/* See toy_model.h. */
#include "toy_model.h"

#include <string.h>

#include "base/try.h"

/* ---- the slots ------------------------------------------------------------------------------ */
typedef struct layer_state {
    toy_model *model;
    hr_tensor *residual; /* set aside by pre */
} layer_state;

static void state_fini(void *state)
{
    layer_state *s = state;
    if (s->model)
        s->model->states--;
}

/* y = bend(w x) */
static hr_status block(hr_tensor *x, hr_tensor *w, hr_wgrad_queue *queue,
                       hr_tensor **out)
{
    hr_tensor *scaled;
    HR_TRY(toy_scale(x, w, queue, &scaled));
    hr_status st = toy_bend(scaled, out);
    hr_tensor_release(scaled);
    return st;
}

static hr_status pre(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                     hr_tensor **out, int *n_out)
{
    toy_layer *l = layer;
    layer_state *s = hr_layer_ctx_state(ctx);
    hr_tensor *h;
    s->model = l->model;
    s->model->states++;
    *n_out = 1;
    HR_TRY(block(in[0], l->w_pre, hr_layer_ctx_queue(ctx), &h));
    hr_status st = hr_node_detach(ctx, h, &s->residual);
    if (st >= 0)
        st = toy_bend(h, &out[0]);
    hr_tensor_release(h);
    return st;
}

/* Tells the exchanges of a step apart; not 0. */
static int tag_of(const toy_layer *l, const hr_layer_ctx *ctx, int which)
{
    int layer = (int)(l - l->model->layer);
    return 16 * (hr_layer_ctx_microbatch(ctx) + 1) + 2 * layer + which;
}

static hr_status dispatch(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                          hr_tensor **out, int *n_out)
{
    toy_layer *l = layer;
    *n_out = 1;
    return toy_exchange(l->model->group, in[0], tag_of(l, ctx, 0), &out[0]);
}

static hr_status mlp(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                     hr_tensor **out, int *n_out)
{
    toy_layer *l = layer;
    *n_out = 1;
    return block(in[0], l->w_mlp, hr_layer_ctx_queue(ctx), &out[0]);
}

static hr_status add_residual(hr_layer_ctx *ctx, hr_tensor *x, hr_tensor **out)
{
    layer_state *s = hr_layer_ctx_state(ctx);
    HR_TRY(toy_add(x, s->residual, out));
    HR_TRY(hr_tensor_record_stream(s->residual, hr_stream_current()));
    hr_tensor_drop(s->residual, hr_stream_current());
    return HR_OK;
}

static hr_status combine(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                         hr_tensor **out, int *n_out)
{
    toy_layer *l = layer;
    hr_tensor *back;
    *n_out = 1;
    HR_TRY(toy_exchange(l->model->group, in[0], tag_of(l, ctx, 1), &back));
    hr_status st = add_residual(ctx, back, &out[0]);
    hr_tensor_release(back);
    return st;
}

static hr_status dense_mlp(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                           hr_tensor **out, int *n_out)
{
    hr_tensor *y[1];
    *n_out = 1;
    HR_TRY(mlp(layer, ctx, in, n, y, n_out));
    hr_status st = add_residual(ctx, y[0], &out[0]);
    hr_tensor_release(y[0]);
    return st;
}

static hr_status final_norm(void *chunk, hr_layer_ctx *ctx, hr_tensor *in,
                            hr_tensor **out)
{
    toy_model *m = chunk;
    return toy_scale(in, m->weight[TOY_WEIGHTS - 1], NULL, out);
}

/* ---- the model -------------------------------------------------------------------------------- */
static void describe(toy_model *m, int i)
{
    bool moe = i % 2 == 0;
    hr_free_input_facts facts = {HR_INIT(hr_free_input_facts), .moe = moe,
                                 .local_experts = 2};
    m->layer[i] =
        (toy_layer){m, m->weight[2 * (size_t)i], m->weight[2 * (size_t)i + 1]};
    m->desc[i] =
        (hr_layer_desc){HR_INIT(hr_layer_desc), .layer = &m->layer[i], .number = i,
                        .state_bytes = sizeof(layer_state), .state_fini = state_fini};
    m->desc[i].slot[HR_SLOT_PRE] = pre;
    m->desc[i].slot[HR_SLOT_DISPATCH] = moe ? dispatch : NULL;
    m->desc[i].slot[HR_SLOT_MLP] = moe ? mlp : dense_mlp;
    m->desc[i].slot[HR_SLOT_COMBINE] = moe ? combine : NULL;
    for (int s = 0; s < HR_SLOTS; s++)
        m->desc[i].free_input[s] = hr_free_input_policy((hr_slot)s, &facts);
}

static hr_status filled(int64_t rows, float first, float step, hr_tensor **out)
{
    float v[TOY_ROWS * TOY_WIDTH];
    for (int i = 0; i < rows * TOY_WIDTH; i++)
        v[i] = first + step * (float)(i * 7 % 11);
    int64_t shape[] = {rows, TOY_WIDTH};
    HR_TRY(hr_tensor_create(HR_F32, 2, shape, out));
    return hr_tensor_write(*out, v, (size_t)rows * TOY_WIDTH * sizeof(float));
}

hr_status toy_model_init(toy_model *m, hr_group *group, bool norm)
{
    memset(m, 0, sizeof *m);
    m->group = group;
    m->rank = hr_group_rank(group);
    for (int i = 0; i < TOY_WEIGHTS; i++) {
        HR_TRY(filled(1, 0.6F + 0.03F * (float)i, 0.02F, &m->weight[i]));
        HR_TRY(hr_tensor_set_requires_grad(m->weight[i], true));
    }
    for (int i = 0; i < TOY_LAYERS; i++)
        describe(m, i);
    m->chunk = (hr_chunk_desc){HR_INIT(hr_chunk_desc),
                               .chunk = m,
                               .layers = m->desc,
                               .n_layers = TOY_LAYERS,
                               .final_norm = norm ? final_norm : NULL,
                               .vp_stage = HR_NO_STAGE};
    return HR_OK;
}

void toy_model_fini(toy_model *m)
{
    for (int i = 0; i < TOY_WEIGHTS; i++)
        hr_tensor_release(m->weight[i]);
}

void toy_model_make_dense(toy_model *m)
{
    for (int i = 0; i < TOY_LAYERS; i++) {
        hr_layer_desc *d = &m->desc[i];
        d->slot[HR_SLOT_DISPATCH] = d->slot[HR_SLOT_COMBINE] = NULL;
        d->slot[HR_SLOT_MLP] = dense_mlp;
        memset(d->free_input, 0, sizeof d->free_input);
    }
}

hr_status toy_input(const toy_model *m, int microbatch, hr_tensor **out)
{
    HR_TRY(filled(TOY_ROWS, 0.1F + 0.05F * (float)microbatch + 0.2F * (float)m->rank,
                  0.04F, out));
    return hr_tensor_set_requires_grad(*out, true);
}

/* ---- a step ------------------------------------------------------------------------------------- */
typedef struct step {
    toy_model *m;
    const toy_step_opts *opts;
    hr_wgrad_store *store; /* NULL: weight gradients in the plan */
    hr_tensor *loss[TOY_MICROBATCHES];
} step;

static hr_status make_plan(void *ctx, int mb, bool overlap, hr_schedule_plan **plan)
{
    step *s = ctx;
    hr_tensor *x;
    HR_TRY(toy_input(s->m, mb, &x));
    hr_status st = hr_build_schedule_plan(
        &s->m->chunk, &x, 1,
        &(hr_build_plan_opts){HR_INIT(hr_build_plan_opts), .microbatch = mb,
                              .delay_wgrad = s->opts->delay_wgrad,
                              .early_attn_release = s->opts->early, .serial = !overlap,
                              .wgrad_store = s->store},
        plan);
    hr_tensor_release(x);
    return st;
}

static hr_status loss(void *ctx, int mb, hr_tensor *output, hr_loss *out)
{
    step *s = ctx;
    HR_TRY(toy_loss(output, &out->loss));
    s->loss[mb] = hr_tensor_retain(out->loss);
    return HR_OK;
}

static hr_status read_result(step *s, toy_result *out)
{
    for (int i = 0; i < TOY_MICROBATCHES; i++)
        HR_TRY(hr_tensor_read(s->loss[i], &out->loss[i], sizeof(float)));
    for (int i = 0; i < TOY_WEIGHTS; i++) {
        float *to = &out->grad[(size_t)i * TOY_WIDTH];
        memset(to, 0, TOY_WIDTH * sizeof(float));
        if (hr_tensor_grad(s->m->weight[i]))
            HR_TRY(hr_tensor_read(hr_tensor_grad(s->m->weight[i]), to,
                                  TOY_WIDTH * sizeof(float)));
    }
    return HR_OK;
}

static hr_status run_stored(step *s)
{
    for (int mb = 0; s->store && mb < TOY_MICROBATCHES; mb++)
        HR_TRY(hr_wgrad_store_run(s->store, 0, mb));
    return hr_wgrad_store_end_step(s->store);
}

hr_status toy_step(toy_model *m, const toy_step_opts *opts, toy_result *out)
{
    step s = {.m = m, .opts = opts};
    for (int i = 0; i < TOY_WEIGHTS; i++)
        HR_TRY(hr_tensor_set_grad(m->weight[i], NULL));
    if (opts->stored)
        HR_TRY(hr_wgrad_store_create(HR_NO_STAGE, &s.store));
    hr_status st = hr_forward_backward_no_pipelining(&(hr_no_pipelining_opts){
        HR_INIT(hr_no_pipelining_opts), .microbatches = TOY_MICROBATCHES,
        .overlap = opts->overlap, .ctx = &s, .plan = make_plan, .loss = loss});
    if (st >= 0)
        st = run_stored(&s);
    if (st >= 0)
        st = hr_device_synchronize(hr_device_current());
    if (st >= 0)
        st = read_result(&s, out);
    for (int i = 0; i < TOY_MICROBATCHES; i++)
        hr_tensor_release(s.loss[i]);
    hr_wgrad_store_destroy(s.store);
    return st;
}
