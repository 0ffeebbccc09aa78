/* Orders on a V within a limit of activations. Internal to src/schedule/build. */
#ifndef HR_V_ORDERS_H
#define HR_V_ORDERS_H
#include "schedule/build/builder.h"
#include "schedule/pattern.h"

/* An order that is known to be good for equal costs of forward and both halves of the backward. */
typedef struct hr__v_known {
    hr__steps steps;
    int limit; /* activations that it needs on a rank */
    int room;  /* see hr__warm */
    bool fused;
} hr__v_known;

hr__answer hr__v_takes(const hr_generate_opts *o);
/* The known order where the costs are those it is for and `b->o.max_act` is its own limit; else
 * the best of it and of hr__v_orders(). */
void hr__v_known_orders(hr__build *b, const hr__v_known *k);
/* The best within `b->o.max_act` activations of a rank, split backwards. */
void hr__v_orders(hr__build *b);
/* Consumes `s`, a candidate: it, and its order with the weight gradients put off into gaps. */
void hr__v_try(hr__build *b, hr_schedule *s);

#endif
