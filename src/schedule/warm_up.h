/* More forwards before the first backward. Internal to src/schedule. */
#ifndef HR_WARM_UP_H
#define HR_WARM_UP_H
#include "schedule/schedule_impl.h"

/* How many forwards of the second chunk a rank does before its first backward: the order's own
 * number, or as many as reach it by then if a forward of the last rank comes every
 * second slot and backwards move a slot, or two, a rank. */
typedef enum hr__lead {
    HR__LEAD_OWN,
    HR__LEAD_SPLIT,
    HR__LEAD_WHOLE,
} hr__lead;

/* Fill the empty orders of `to` with those of `from`, on a V of two chunks a rank, but with all the
 * forwards that `limit` allows ahead of the first backward, each as soon as it can run. A
 * pattern is as thin at its ends as in its middle; there nothing stands against more of them.
 * False without memory for it. */
bool hr__warm_up(const hr_schedule *from, int limit, hr__lead lead, hr_schedule *to);

#endif
