/* The stub layer and the stub chunk of the recorded plans: operations that write down when they
 * run forward ("fwd"), backward ("bwd") and their delayed weight gradients ("dw"). See
 * layer_plan.json in data/megatron/README.md for what each slot takes and hands on. */
#ifndef STUB_LAYER_H
#define STUB_LAYER_H
#include "compare.h"

enum { STUB_LAYERS = 8, STUB_NAME = 24 };

typedef struct stub_layer {
    rec *r;
    char name[STUB_NAME]; /* "f.L0" */
    bool moe, mtp;        /* mtp layers are moe too */
} stub_layer;

typedef struct stub_chunk {
    rec *r;
    char name[STUB_NAME]; /* "f" */
    stub_layer layer[STUB_LAYERS];
    hr_layer_desc desc[STUB_LAYERS];
    hr_chunk_desc chunk;
} stub_chunk;

/* One operation: `n_out` outputs called "name.op.out", linked to `in`. */
typedef struct stub_op {
    const char *name, *op;
    hr_tensor *const *in;
    int n_in;
    const char *const *out_names;
    int n_out;
    bool symmetric; /* outputs */
    hr_wgrad_queue *queue;
    const char *dw[2]; /* pushed in backward; NULL-ended */
} stub_op;
void stub_run(rec *r, const stub_op *op, hr_tensor **out);

/* Describe layer T of `kind` ("dense", "moe", "mtp"); what may be freed follows the case `c`. */
void stub_describe(stub_layer *layer, rec *r, const char *name, const char *kind,
                   json_t *c, hr_layer_desc *desc);
/* A chunk of `kinds` (a list) called `name`. */
void stub_describe_chunk(stub_chunk *s, rec *r, const char *name, json_t *kinds,
                         json_t *c, bool post);

/* Why a plan case is left out; NULL: it is not. */
const char *plan_left_out(json_t *c);

/* The stream "comm" is the communication stream, unless the case says that there is none. */
void plan_streams(rec *r, json_t *c);

/* Records of the engine that we do not write. */
extern const char *const plan_skip[];

#endif
