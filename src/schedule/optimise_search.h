/* The search of the optimiser. Internal to src/schedule. */
#ifndef HR_OPTIMISE_SEARCH_H
#define HR_OPTIMISE_SEARCH_H
#include "schedule/optimise_goal.h"

/* Search from `from`, which is within the limits of the goal, for up to `steps` changes, counted
 * there. *out is a schedule with a makespan below `before`; NULL if none was found. */
hr_status hr__search(hr__goal *g, const hr_schedule *from, int64_t before,
                     int64_t steps, hr_schedule **out);

#endif
