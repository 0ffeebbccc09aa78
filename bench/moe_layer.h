/* A mixture-of-experts layer of the demo's kind in slots, made of public operators: what
 * peak_memory.c trains. Letters: N tokens of a microbatch, C width, H heads, E experts, K choices a
 * token, D width of an expert. */
#ifndef MOE_LAYER_H
#define MOE_LAYER_H
#include "headrace/moe.h"
#include "headrace/plan.h"

enum { N = 512, SEQ = 128, C = 64, H = 4, E = 4, K = E, D = 96 };

typedef struct moe_layer {
    hr_dispatcher *dispatcher; /* borrowed */
    hr_tensor *norm1, *qkv, *proj, *norm2, *router, *expert_in, *expert_out;
} moe_layer;

void moe_layer_make(moe_layer *l, hr_dispatcher *d); /* weights of zeros */
void moe_layer_drop(moe_layer *l);
/* `frees`: inputs are freed where the policy allows it. */
void moe_layer_describe(moe_layer *l, bool frees, hr_layer_desc *out);

#endif
