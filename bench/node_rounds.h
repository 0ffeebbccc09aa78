/* Rounds of nodes that do nothing but be nodes: what node_speed.c times and node_heap.c counts.
 *
 *     view node    forward and backward of a node that returns a view of its input
 *     layer pair   the forward of one MoE layer plan beside the backward of another: ten nodes on two
 *                  streams, each slot a view, delayed weight gradients asked for
 *     chunk plan   the life of a microbatch's plan of four such layers: made, run, destroyed
 *
 * Nodes and layer plans are made before a round and destroyed after it; only what lies between is
 * measured. */
#ifndef NODE_ROUNDS_H
#define NODE_ROUNDS_H
#include "headrace/plan.h"

enum {
    ROUND_NODES = 256,
    ROUND_PAIRS = 64,
    ROUND_PLANS = 8,
    PLAN_LAYERS = 4,
    PLAN_NODES = 5 * PLAN_LAYERS + 1 /* preprocessing */
};

typedef struct rounds {
    hr_device *dev;
    hr_event *event;
    hr_tensor *x, *dy; /* [8,64]; x requires grad */
    hr_node *node[ROUND_NODES];
    hr_layer_plan *plan[ROUND_PAIRS + 1];
} rounds;

void rounds_begin(rounds *r, const char *backend);

void nodes_make(rounds *r);
void nodes_run(rounds *r); /* ROUND_NODES times forward and backward */
void nodes_drop(rounds *r);

void pairs_make(rounds *r); /* and the forward of the first plan */
void pairs_run(rounds *r);  /* ROUND_PAIRS times a forward beside a backward */
void pairs_drop(rounds *r);

void plans_keep(rounds *r); /* nothing to make or to drop around a round */
void plans_run(
    rounds *r); /* ROUND_PLANS plans, each forward beside the one before backward */

#endif
