/* catalog.c: see catalog.h. */
#include "catalog.h"
#include "app_try.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where what is added next belongs, and how its names begin. */
typedef struct listing {
    hr_app_catalog *c;
    hr_app_place place;
    int layer;
    char owner[24];
} listing;

int hr_app_all_layers(const model_shape *s)
{
    return s->layers + (s->mtp ? 1 : 0);
}

bool hr_app_is_moe(const model_shape *s, int layer)
{
    return (layer < s->layers ? layer : s->layers - 1) >= s->dense_layers;
}

/* Returns its index, or -1 without memory. */
static int add(const listing *l, hr_app_region region, float std, int ndim,
               const int64_t *shape, const char *name)
{
    hr_app_catalog *c = l->c;
    if (c->n == c->cap) {
        int cap = c->cap ? 2 * c->cap : 32;
        hr_app_entry *list = realloc(c->list, (size_t)cap * sizeof *list);
        if (!list) {
            c->incomplete = true;
            return -1;
        }
        c->list = list;
        c->cap = cap;
    }
    hr_app_entry *e = &c->list[c->n];
    *e = (hr_app_entry){.spec = {.region = region, .ndim = ndim, .std = std},
                        .place = l->place,
                        .layer = l->layer,
                        .id = c->ids};
    memcpy(e->spec.shape, shape, (size_t)ndim * sizeof *shape);
    snprintf(e->spec.name, sizeof e->spec.name, "%s%s", l->owner, name);
    c->ids += region == EXPERT ? (int)shape[0] : 1;
    return c->n++;
}

/* A matrix [out,in] whose products keep the size of what goes in. */
static int add_matrix(const listing *l, int64_t out, int64_t in, double gain,
                      const char *name)
{
    return add(l, DECAYED, (float)(gain / sqrt((double)in)), 2, (int64_t[]){out, in},
               name);
}

static int add_gain(const listing *l, const char *name)
{
    return add(l, PLAIN, 0, 1, (int64_t[]){l->c->shape.width}, name);
}

/* SwiGLU layers write [a | b] from `in`, and read their product with `out`. */
static void add_layer(const listing *l, int i)
{
    const model_shape *s = &l->c->shape;
    int64_t c = s->width, d = s->expert_width;
    double calm =
        1 / sqrt(2.0 * s->layers); /* writers of the residual stream start small */
    hr_app_layer_index *at = &l->c->layers[i];
    *at = (hr_app_layer_index){-1, -1, -1, -1, -1, -1, -1, -1, -1};
    at->norm1 = add_gain(l, "norm1");
    at->qkv = add_matrix(l, 3 * c, c, 1, "qkv");
    at->proj = add_matrix(l, c, c, calm, "proj");
    at->norm2 = add_gain(l, "norm2");
    bool moe = hr_app_is_moe(s, i);
    int64_t f = moe ? s->shared_width : s->dense_width;
    if (f > 0) {
        at->mlp_in = add_matrix(l, 2 * f, c, 1, moe ? "shared_in" : "mlp_in");
        at->mlp_out = add_matrix(l, c, f, calm, moe ? "shared_out" : "mlp_out");
    }
    if (!moe)
        return;
    at->router = add_matrix(l, s->experts, c, 1, "router");
    at->expert_in = add(l, EXPERT, (float)(1 / sqrt((double)c)), 3,
                        (int64_t[]){s->experts, 2 * d, c}, "expert_in");
    at->expert_out = add(l, EXPERT, (float)(calm / sqrt((double)d)), 3,
                         (int64_t[]){s->experts, c, d}, "expert_out");
}

static void add_mtp(hr_app_catalog *c)
{
    listing l = {.c = c, .place = PLACE_MTP, .owner = "mtp."};
    int64_t width = c->shape.width;
    double half = sqrt(0.5); /* the gain of one matrix over both */
    c->mtp_embedding_norm = add_gain(&l, "embedding_norm");
    c->mtp_hidden_norm = add_gain(&l, "hidden_norm");
    c->eh_embedding = add_matrix(&l, width, width, half, "eh_embedding");
    c->eh_hidden = add_matrix(&l, width, width, half, "eh_hidden");
    add_layer(&l, c->shape.layers);
    c->mtp_final_norm = add_gain(&l, "final_norm");
}

static void fill(hr_app_catalog *c)
{
    const model_shape *s = &c->shape;
    listing l = {.c = c, .place = PLACE_EMBEDDING};
    c->embedding =
        add(&l, PLAIN, s->tie_embeddings ? (float)(1 / sqrt((double)s->width)) : 1, 2,
            (int64_t[]){APP_VOCAB, s->width}, "embedding");
    l.place = PLACE_LAYER;
    for (l.layer = 0; l.layer < s->layers; l.layer++) {
        snprintf(l.owner, sizeof l.owner, "layers.%d.", l.layer);
        add_layer(&l, l.layer);
    }
    l = (listing){.c = c, .place = PLACE_FINAL_NORM};
    c->final_norm = add_gain(&l, "final_norm");
    l.place = PLACE_HEAD;
    c->head = s->tie_embeddings ? c->embedding
                                : add_matrix(&l, APP_VOCAB, s->width, 0.5, "head");
    if (s->mtp)
        add_mtp(c);
}

hr_status hr_app_catalog_create(const model_shape *shape, hr_app_catalog **out)
{
    hr_app_catalog *c = calloc(1, sizeof *c);
    size_t layers = (size_t)hr_app_all_layers(shape);
    *out = NULL;
    if (c) {
        c->shape = *shape;
        c->layers = calloc(layers, sizeof *c->layers);
    }
    if (c && c->layers)
        fill(c);
    if (!c || !c->layers || c->incomplete) {
        hr_app_catalog_destroy(c);
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to list a model of %zu layers",
                       layers);
    }
    *out = c;
    return HR_OK;
}

void hr_app_catalog_destroy(hr_app_catalog *c)
{
    if (!c)
        return;
    free(c->list);
    free(c->layers);
    free(c);
}

bool hr_app_catalog_in(const hr_app_catalog *c, int i, const hr_layout_part *part)
{
    const hr_app_entry *e = &c->list[i];
    int end = part->first_layer + part->layers;
    switch (e->place) {
    case PLACE_EMBEDDING:
        return part->embedding || part->mtp > 0 ||
               (part->loss && c->shape.tie_embeddings);
    case PLACE_LAYER:
        return e->layer >= part->first_layer && e->layer < end;
    case PLACE_FINAL_NORM:
        return part->layers > 0 && end == c->shape.layers;
    case PLACE_HEAD:
        return part->loss;
    case PLACE_MTP:
        return part->mtp > 0;
    }
    return false;
}
