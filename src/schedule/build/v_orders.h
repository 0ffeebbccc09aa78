/* Orders on a V within a limit of activations. Internal to src/schedule/build. */
#ifndef HR_V_ORDERS_H
#define HR_V_ORDERS_H
#include "schedule/build/builder.h"

hr__answer hr__v_takes(const hr_generate_opts *o);
/* The best within `b->o.max_act` activations of a rank, whole backwards or split ones. */
void hr__v_orders(hr__build *b);
void hr__v_whole_orders(hr__build *b);
/* Consumes `s`, a candidate: it, and its order with the weight gradients put off into gaps. */
void hr__v_try(hr__build *b, hr_schedule *s, bool fused);

#endif
