/* From a pattern to an order that starts full and ends fast. Internal to src/schedule. */
#ifndef HR_WARM_UP_H
#define HR_WARM_UP_H
#include "schedule/schedule_impl.h"

typedef struct hr__warm {
    int limit; /* activations that a rank may hold */
    int room;  /* those that it takes ahead of its first backward */
    bool fused;
} hr__warm;

/* Fill the empty orders of `to` with those of `pattern`, on a V of two chunks a rank. A pattern is as
 * thin at its ends as in its middle; there nothing stands against more:
 * - ahead of the first backward come as many forwards as there is room for, each as soon as it
 *   can run;
 * - until the pattern's rhythm is found, what is ready may overtake what is not;
 * - after the last forward weight gradients wait for all else.
 * `pattern` may have more microbatches than `to`; those are left out afterwards, which keeps the
 * rhythm of a short run. False without memory for it; where the limit lets nothing go on, the
 * orders end early. */
bool hr__warm_up(const hr_schedule *pattern, const hr__warm *how, hr_schedule *to);

#endif
