/* Which stages a rank uses next, for gathering weights ahead of use. Internal to src/schedule. */
#ifndef HR_WEIGHTS_AHEAD_H
#define HR_WEIGHTS_AHEAD_H
#include "schedule/schedule_impl.h"

enum {
    HR__ACTIVE = 3, /* stages whose weights are gathered at a time */
    HR__AHEAD = 8,  /* with those that the last slot looked at brings along */
};

/* The stages of the next slots, in order of use, without repetition. */
typedef struct hr__ahead {
    uint8_t n;
    uint16_t stage[HR__AHEAD];
} hr__ahead;

/* For each action that starts a slot of the order; free() it. NULL without memory. */
hr__ahead *hr__look_ahead(const hr__order *o);

#endif
