/* catalog.h: every parameter of the whole model, in order, whichever rank holds it.
 *
 * What depends on no layout comes from here: names, start values, the order in which the global norm
 * adds up, what a checkpoint holds.
 */
#ifndef HR_APP_CATALOG_H
#define HR_APP_CATALOG_H
#include "headrace/schedule.h"
#include "options.h"
#include "params.h"

enum { APP_VOCAB = 256 };

/* Which part of the model a parameter belongs to. */
typedef enum hr_app_place {
    PLACE_EMBEDDING, /* input, the input of multi-token prediction, and the head where tied */
    PLACE_LAYER,
    PLACE_FINAL_NORM,
    PLACE_HEAD,
    PLACE_MTP
} hr_app_place;

typedef struct hr_app_entry {
    hr_app_spec spec;
    hr_app_place place;
    int layer; /* of PLACE_LAYER */
    int id;    /* in the order of the norm; of its first expert, each has one */
} hr_app_entry;

/* Indices into a list, -1: this layer has none. */
typedef struct hr_app_layer_index {
    int norm1, qkv, proj, norm2, router, expert_in, expert_out, mlp_in, mlp_out;
} hr_app_layer_index;

typedef struct hr_app_catalog {
    model_shape shape;
    hr_app_entry *list;
    int n, cap;
    bool incomplete; /* there was no memory */
    int ids;
    hr_app_layer_index *layers; /* shape.layers, then that of multi-token prediction */
    int embedding, head, final_norm; /* head is the embedding where tied */
    int mtp_embedding_norm, mtp_hidden_norm, eh_embedding, eh_hidden, mtp_final_norm;
} hr_app_catalog;

hr_status hr_app_catalog_create(const model_shape *shape, hr_app_catalog **out);
void hr_app_catalog_destroy(hr_app_catalog *c); /* NULL is fine */

/* Does a stage that holds `part` of the model need entry `i`? */
bool hr_app_catalog_in(const hr_app_catalog *c, int i, const hr_layout_part *part);

/* Layers of the whole model, with that of multi-token prediction. */
int hr_app_all_layers(const model_shape *s);
/* The layer of multi-token prediction, which comes after the others, is as the last of them. */
bool hr_app_is_moe(const model_shape *s, int layer);

#endif
