/* layer.h: a transformer layer as the five slots of a layer plan. */
#ifndef HR_APP_LAYER_H
#define HR_APP_LAYER_H
#include "headrace/moe.h"
#include "headrace/plan.h"
#include "layer_math.h"

/* A layer with the dispatcher that reaches its experts (NULL in a dense one). */
typedef struct hr_app_block {
    hr_app_layer math;
    hr_dispatcher *dispatcher;
} hr_app_block;

/* Describe `block`, which must outlive the plans. `dispatcher`, `local_experts`: for the free-input
 * policy. */
void hr_app_block_describe(hr_app_block *block, hr_layer_desc *out);

#endif
