/* model.c: parameters of the MoE GPT, and their place in the layers. */
#include "model.h"
#include "app_try.h"
#include <math.h>
#include <stdlib.h>

/* Indices into the parameter list, -1: this layer has none. */
typedef struct layer_index {
    int norm1, qkv, proj, norm2, router, expert_in, expert_out, mlp_in, mlp_out;
} layer_index;

typedef struct model_index {
    int embedding, head, final_norm;
    int mtp_embedding_norm, mtp_hidden_norm, eh_embedding, eh_hidden, mtp_final_norm;
} model_index;

/* A matrix [out,in] whose products keep the size of what goes in. */
static int add_matrix(hr_app_params *p, int64_t out, int64_t in, double gain,
                      const char *owner, const char *name)
{
    float std = (float)(gain / sqrt((double)in));
    return hr_app_params_add(p, DECAYED, 0, std, 2, (int64_t[]){out, in}, "%s%s", owner,
                             name);
}

static int add_gain(hr_app_params *p, int64_t n, const char *owner, const char *name)
{
    return hr_app_params_add(p, PLAIN, 0, 0, 1, &n, "%s%s", owner, name);
}

/* The layer of multi-token prediction, which comes after the others, is as the last of them. */
static bool is_moe(const model_shape *s, int i)
{
    return (i < s->layers ? i : s->layers - 1) >= s->dense_layers;
}

/* With that of multi-token prediction. */
static int all_layers(const model_shape *s)
{
    return s->layers + (s->mtp ? 1 : 0);
}

/* SwiGLU layers write [a | b] from `in`, and read their product with `out`. */
static void add_layer(hr_app_model *m, int i, int rank, int local, layer_index *at)
{
    const model_shape *s = &m->shape;
    hr_app_params *p = &m->params;
    int64_t c = s->width, d = s->expert_width;
    double calm =
        1 / sqrt(2.0 * s->layers); /* writers of the residual stream start small */
    *at = (layer_index){-1, -1, -1, -1, -1, -1, -1, -1, -1};
    char owner[24] = "mtp.";
    if (i < s->layers)
        snprintf(owner, sizeof owner, "layers.%d.", i);
    at->norm1 = add_gain(p, c, owner, "norm1");
    at->qkv = add_matrix(p, 3 * c, c, 1, owner, "qkv");
    at->proj = add_matrix(p, c, c, calm, owner, "proj");
    at->norm2 = add_gain(p, c, owner, "norm2");
    bool moe = is_moe(s, i);
    int64_t f = moe ? s->shared_width : s->dense_width;
    if (f > 0) {
        at->mlp_in = add_matrix(p, 2 * f, c, 1, owner, moe ? "shared_in" : "mlp_in");
        at->mlp_out = add_matrix(p, c, f, calm, owner, moe ? "shared_out" : "mlp_out");
    }
    if (!moe)
        return;
    at->router = add_matrix(p, s->experts, c, 1, owner, "router");
    at->expert_in =
        hr_app_params_add(p, EXPERT, rank, (float)(1 / sqrt((double)c)), 3,
                          (int64_t[]){local, 2 * d, c}, "%sexpert_in", owner);
    at->expert_out =
        hr_app_params_add(p, EXPERT, rank, (float)(calm / sqrt((double)d)), 3,
                          (int64_t[]){local, c, d}, "%sexpert_out", owner);
}

static void add_mtp(hr_app_model *m, int rank, int local, layer_index *at,
                    model_index *top)
{
    hr_app_params *p = &m->params;
    int64_t c = m->shape.width;
    double half = sqrt(0.5); /* the gain of one matrix over both */
    top->mtp_embedding_norm = add_gain(p, c, "mtp.", "embedding_norm");
    top->mtp_hidden_norm = add_gain(p, c, "mtp.", "hidden_norm");
    top->eh_embedding = add_matrix(p, c, c, half, "mtp.", "eh_embedding");
    top->eh_hidden = add_matrix(p, c, c, half, "mtp.", "eh_hidden");
    add_layer(m, m->shape.layers, rank, local, at);
    top->mtp_final_norm = add_gain(p, c, "mtp.", "final_norm");
}

static hr_tensor *leaf(const hr_app_model *m, int index)
{
    return index < 0 ? NULL : m->params.list[index].w;
}

static void place_layer(hr_app_model *m, int i, const layer_index *at, float aux_scale)
{
    hr_app_block *b = &m->blocks[i];
    b->dispatcher = m->dispatcher;
    b->math = (hr_app_layer){.shape = &m->shape,
                             .index = i,
                             .moe = is_moe(&m->shape, i),
                             .norm1 = leaf(m, at->norm1),
                             .qkv = leaf(m, at->qkv),
                             .proj = leaf(m, at->proj),
                             .norm2 = leaf(m, at->norm2),
                             .router = leaf(m, at->router),
                             .expert_in = leaf(m, at->expert_in),
                             .expert_out = leaf(m, at->expert_out),
                             .mlp_in = leaf(m, at->mlp_in),
                             .mlp_out = leaf(m, at->mlp_out),
                             .aux_scale = aux_scale,
                             .aux_sum = m->aux_sum};
}

static void declare(hr_app_model *m, int rank, int local, layer_index *at,
                    model_index *top)
{
    const model_shape *s = &m->shape;
    int64_t table[] = {APP_VOCAB, s->width};
    float std = s->tie_embeddings ? (float)(1 / sqrt((double)s->width)) : 1;
    top->embedding =
        hr_app_params_add(&m->params, PLAIN, 0, std, 2, table, "embedding");
    for (int i = 0; i < s->layers; i++)
        add_layer(m, i, rank, local, &at[i]);
    top->final_norm = add_gain(&m->params, s->width, "", "final_norm");
    top->head = s->tie_embeddings
                    ? top->embedding
                    : add_matrix(&m->params, APP_VOCAB, s->width, 0.5, "", "head");
    if (s->mtp)
        add_mtp(m, rank, local, &at[s->layers], top);
}

static hr_status place_mtp(hr_app_model *m, const model_index *top, float coef)
{
    hr_app_mtp *p = &m->mtp;
    p->embedding_norm = leaf(m, top->mtp_embedding_norm);
    p->hidden_norm = leaf(m, top->mtp_hidden_norm);
    p->eh_embedding = leaf(m, top->eh_embedding);
    p->eh_hidden = leaf(m, top->eh_hidden);
    p->final_norm = leaf(m, top->mtp_final_norm);
    p->coef = coef;
    return hr_tensor_zeros(HR_F32, 1, (int64_t[]){1}, &p->sum);
}

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

static hr_status build(hr_app_model *m, const hr_app_model_opts *o, layer_index *at)
{
    int ranks = o->tokens ? hr_group_size(o->tokens) : 1;
    int rank = o->tokens ? hr_group_rank(o->tokens) : 0;
    bool has_moe = m->shape.layers > m->shape.dense_layers;
    if (o->tokens && has_moe)
        APP_TRY(hr_dispatcher_create(
            &(hr_dispatcher_opts){
                HR_INIT(hr_dispatcher_opts), .experts = m->shape.experts,
                .top_k = m->shape.top_k, .tokens = o->tokens, .counts = o->counts,
                .counts_stream = o->counts_stream, .kind = o->dispatcher,
                .max_tokens = o->tokens_per_microbatch, .width = m->shape.width,
                .capacity_factor = o->capacity_factor},
            &m->dispatcher));
    model_index top = {0};
    declare(m, rank, m->shape.experts / ranks, at, &top);
    if (top.head < 0 || top.final_norm < 0 || top.mtp_final_norm < 0)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the list of parameters");
    APP_TRY(check_size(&m->params, o->most));
    APP_TRY(hr_app_params_build(&m->params, o->seed, o->train));
    APP_TRY(hr_tensor_zeros(HR_F32, 1, (int64_t[]){1}, &m->aux_sum));
    m->embedding = leaf(m, top.embedding);
    m->final_norm = leaf(m, top.final_norm);
    m->head = leaf(m, top.head);
    m->loss_scale = o->loss_scale;
    for (int i = 0; i < all_layers(&m->shape); i++) {
        place_layer(m, i, &at[i], o->aux_scale);
        if (o->tokens) /* a plain model has no plans */
            hr_app_block_describe(&m->blocks[i], &m->descs[i]);
    }
    if (!m->shape.mtp)
        return HR_OK;
    if (o->tokens)
        hr_app_mtp_describe(m, &m->descs[m->shape.layers]);
    return place_mtp(m, &top, o->mtp_coef);
}

hr_status hr_app_model_create(const hr_app_model_opts *opts, hr_app_model **out)
{
    *out = NULL;
    hr_app_model *m = calloc(1, sizeof *m);
    size_t layers = (size_t)all_layers(opts->shape);
    layer_index *at = calloc(layers, sizeof *at);
    if (m) {
        m->shape = *opts->shape;
        m->blocks = calloc(layers, sizeof *m->blocks);
        m->descs = calloc(layers, sizeof *m->descs);
    }
    hr_status st = HR_OK;
    if (!m || !at || !m->blocks || !m->descs)
        st = hr_fail(HR_ERR_NOMEM, NULL, "no memory for a model of %zu layers", layers);
    if (st >= 0)
        st = build(m, opts, at);
    free(at);
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
    free(m->blocks);
    free(m->descs);
    free(m);
}
