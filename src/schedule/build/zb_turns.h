/* ZB-H1 and ZB-H2 between their generators. Internal to src/schedule/build. */
#ifndef HR_ZB_TURNS_H
#define HR_ZB_TURNS_H
#include "schedule/build/builder.h"

/* The best of the known orders and of list schedules within `b->o.max_act` activations. */
void hr__zb_orders(hr__build *b);

#endif
