/* model.c: a rank's part of the MoE GPT: its stages, their parameters, and the place of these in the
 * layers. */
#include "model.h"
#include "app_try.h"
#include <stdlib.h>

/* The parameter that entry `i` of the catalog became; NULL: not on this rank, or no such thing. */
static hr_tensor *leaf(const hr_app_model *m, int i)
{
    return i < 0 || m->param_of[i] < 0 ? NULL : m->params.list[m->param_of[i]].w;
}

/* ---- stages --------------------------------------------------------------------------------- */

/* Behind the stage with multi-token prediction, before the end of the loss. */
static bool is_stacked(const model_shape *m, const hr_layout_part *part)
{
    return m->mtp && part->mtp == 0 && part->first_mtp > 0;
}

void hr_app_stage_in_shape(const model_shape *m, const hr_layout_part *part,
                           int64_t tokens, int64_t shape[2])
{
    shape[0] = is_stacked(m, part) ? 2 * tokens : tokens;
    shape[1] = m->width;
}

static void init_stage(hr_app_model *m, int i, int stage, const hr_layout_part *part)
{
    hr_app_stage *s = &m->stages[i];
    const hr_app_stage *before = i > 0 ? s - 1 : NULL;
    *s = (hr_app_stage){.model = m,
                        .stage = stage,
                        .part = *part,
                        .vp_stage = m->n_stages > 1 ? i : HR_NO_STAGE,
                        .first = before ? before->first + before->layers : 0,
                        .layers = part->layers + part->mtp,
                        .stacked_in = is_stacked(&m->shape, part)};
    s->stacked_out = !part->loss && (s->stacked_in || part->mtp > 0);
}

static hr_status init_stages(hr_app_model *m, const hr_app_model_opts *o)
{
    hr_layout_part all = {.embedding = true,
                          .loss = true,
                          .layers = m->shape.layers,
                          .mtp = m->shape.mtp};
    m->n_stages = o->parts ? o->n_stages : 1;
    m->stages = calloc((size_t)m->n_stages + 1, sizeof *m->stages);
    if (!m->stages)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d stages", m->n_stages);
    int layers = 0;
    for (int i = 0; i < m->n_stages; i++) {
        init_stage(m, i, o->parts ? o->stages[i] : 0, o->parts ? &o->parts[i] : &all);
        layers += m->stages[i].layers;
    }
    m->blocks = calloc((size_t)layers + 1, sizeof *m->blocks);
    m->descs = calloc((size_t)layers + 1, sizeof *m->descs);
    return m->blocks && m->descs
               ? HR_OK
               : hr_fail(HR_ERR_NOMEM, NULL, "no memory for a model of %d layers",
                         layers);
}

/* Does a stage of this rank need entry `i`? */
static bool is_held(const hr_app_model *m, int i)
{
    for (int k = 0; k < m->n_stages; k++)
        if (hr_app_catalog_in(m->catalog, i, &m->stages[k].part))
            return true;
    return false;
}

static hr_status declare(hr_app_model *m, int rank, int ranks)
{
    m->param_of = calloc((size_t)m->catalog->n, sizeof *m->param_of);
    for (int i = 0; i < m->catalog->n; i++) {
        bool held = is_held(m, i);
        int at = -1;
        if (m->param_of && held)
            at = hr_app_params_add(&m->params, &m->catalog->list[i].spec, rank, ranks);
        if (!m->param_of || (held && at < 0))
            return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the list of parameters");
        m->param_of[i] = at;
        if (at < 0)
            continue;
        m->params.list[at].entry = i;
    }
    return HR_OK;
}

/* ---- layers --------------------------------------------------------------------------------- */

static void place_layer(hr_app_model *m, int block, int layer)
{
    const hr_app_layer_index *at = &m->catalog->layers[layer];
    hr_app_block *b = &m->blocks[block];
    b->dispatcher = m->dispatcher;
    b->math = (hr_app_layer){.shape = &m->shape,
                             .index = layer,
                             .moe = hr_app_is_moe(&m->shape, layer),
                             .norm1 = leaf(m, at->norm1),
                             .qkv = leaf(m, at->qkv),
                             .proj = leaf(m, at->proj),
                             .norm2 = leaf(m, at->norm2),
                             .router = leaf(m, at->router),
                             .expert_in = leaf(m, at->expert_in),
                             .expert_out = leaf(m, at->expert_out),
                             .mlp_in = leaf(m, at->mlp_in),
                             .mlp_out = leaf(m, at->mlp_out)};
}

/* A plain model has no plans, hence nothing to describe. */
static void place_layers(hr_app_model *m, bool plans)
{
    for (int k = 0; k < m->n_stages; k++) {
        const hr_app_stage *s = &m->stages[k];
        for (int i = 0; i < s->layers; i++) {
            bool mtp = i >= s->part.layers;
            int block = s->first + i;
            place_layer(m, block, mtp ? m->shape.layers : s->part.first_layer + i);
            if (plans)
                hr_app_block_describe(&m->blocks[block], &m->descs[block]);
            if (plans && mtp)
                hr_app_mtp_describe(m, &m->descs[block]);
        }
    }
}

static void place_mtp(hr_app_model *m, float coef)
{
    const hr_app_catalog *c = m->catalog;
    hr_app_mtp *p = &m->mtp;
    p->embedding_norm = leaf(m, c->mtp_embedding_norm);
    p->hidden_norm = leaf(m, c->mtp_hidden_norm);
    p->eh_embedding = leaf(m, c->eh_embedding);
    p->eh_hidden = leaf(m, c->eh_hidden);
    p->final_norm = leaf(m, c->mtp_final_norm);
    p->coef = coef;
}

void hr_app_model_begin(hr_app_model *m, const hr_app_pass *pass)
{
    const hr_app_stage *last = &m->stages[m->n_stages - 1];
    m->pass = *pass;
    for (int i = 0; i < last->first + last->layers; i++) {
        hr_app_layer *l = &m->blocks[i].math;
        l->aux_scale = pass->aux_scale;
        l->aux_sum = pass->counts ? m->aux_sum : NULL;
    }
}

/* ---- making ----------------------------------------------------------------------------------- */

static hr_status check_size(const hr_app_params *p, int64_t most)
{
    int64_t sum = 0;
    for (int i = 0; i < p->n; i++)
        sum += hr_app_param_count(&p->list[i]);
    return most == 0 || sum <= most
               ? HR_OK
               : hr_fail(HR_ERR_MISMATCH, "model_size",
                         "a model of %lld parameters, but there are values for %lld",
                         (long long)sum, (long long)most);
}

/* The same decision on all ranks of the expert group, which hold the same stages. */
static bool has_moe(const hr_app_model *m)
{
    for (int k = 0; k < m->n_stages; k++) {
        const hr_layout_part *part = &m->stages[k].part;
        if (part->layers > 0 &&
            hr_app_is_moe(&m->shape, part->first_layer + part->layers - 1))
            return true;
        if (part->mtp > 0 && hr_app_is_moe(&m->shape, m->shape.layers))
            return true;
    }
    return false;
}

static hr_status open_dispatcher(hr_app_model *m, const hr_app_model_opts *o)
{
    if (!o->tokens || !has_moe(m))
        return HR_OK;
    return hr_dispatcher_create(
        &(hr_dispatcher_opts){
            HR_INIT(hr_dispatcher_opts), .experts = m->shape.experts,
            .top_k = m->shape.top_k, .tokens = o->tokens, .counts = o->counts,
            .counts_stream = o->counts_stream, .kind = o->dispatcher,
            .max_tokens = o->tokens_per_microbatch, .width = m->shape.width,
            .capacity_factor = o->capacity_factor, .type = m->type},
        &m->dispatcher);
}

static hr_status build(hr_app_model *m, const hr_app_model_opts *o)
{
    int ranks = o->tokens ? hr_group_size(o->tokens) : 1;
    int rank = o->tokens ? hr_group_rank(o->tokens) : 0;
    APP_TRY(hr_app_catalog_create(&m->shape, &m->catalog));
    APP_TRY(init_stages(m, o));
    APP_TRY(open_dispatcher(m, o));
    APP_TRY(declare(m, rank, ranks));
    APP_TRY(check_size(&m->params, o->most));
    APP_TRY(hr_app_params_build(&m->params, o->seed, o->train, m->type));
    APP_TRY(hr_tensor_zeros(HR_F32, 1, (int64_t[]){1}, &m->aux_sum));
    m->embedding = leaf(m, m->catalog->embedding);
    m->final_norm = leaf(m, m->catalog->final_norm);
    m->head = leaf(m, m->catalog->head);
    place_layers(m, o->tokens != NULL);
    hr_app_model_begin(m, &(hr_app_pass){o->loss_scale, o->aux_scale, true, true});
    if (!m->shape.mtp)
        return HR_OK;
    place_mtp(m, o->mtp_coef);
    return hr_tensor_zeros(HR_F32, 1, (int64_t[]){1}, &m->mtp.sum);
}

hr_status hr_app_model_create(const hr_app_model_opts *opts, hr_app_model **out)
{
    *out = NULL;
    hr_app_model *m = calloc(1, sizeof *m);
    if (!m)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a model");
    m->shape = *opts->shape;
    m->type = opts->type;
    hr_status st = build(m, opts);
    if (st < 0) {
        hr_app_model_destroy(m);
        return st;
    }
    *out = m;
    return HR_OK;
}

void hr_app_model_destroy(hr_app_model *m)
{
    if (!m)
        return;
    hr_dispatcher_destroy(m->dispatcher);
    hr_app_params_fini(&m->params);
    hr_tensor_release(m->aux_sum);
    hr_tensor_release(m->mtp.sum);
    hr_app_catalog_destroy(m->catalog);
    free(m->param_of);
    free(m->stages);
    free(m->blocks);
    free(m->descs);
    free(m);
}
