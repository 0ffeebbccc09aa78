/* Orders from a repeated pattern: one microbatch's way through a V of two chunks a rank, laid out so
 * that its copies, one period apart, never meet on a rank. How long an activation lives
 * follows from the steps of the way, and so does the memory. Internal to src/schedule. */
#ifndef HR_PATTERN_H
#define HR_PATTERN_H
#include "schedule/build/builder.h"

/* Slots from rank to rank: of the forward down and up the V, of the backward down and up. */
typedef struct hr__steps {
    int down_f, up_f, down_b, up_b;
    int turn_first,
        turn_last; /* slots more at the turns of the backward: rank 0, last rank */
    int knot; /* a rank that takes two slots more each way down, and the next one down the
                 forward; 0: none. Whole backwards then find their places one beside the other. */
} hr__steps;

/* Fill the empty orders of `s`, which has placement V, with whole backwards or split ones. They
 * stay empty where the pattern does not fit into its period. False without memory for it. */
bool hr__pattern_orders(hr_schedule *s, const hr__steps *steps, bool fused);

#endif
