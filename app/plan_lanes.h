/* A schedule as text: a line a rank, time from left to right. */
#ifndef HR_APP_PLAN_LANES_H
#define HR_APP_PLAN_LANES_H
#include "slot_times.h"

/* Lines of at most `columns` for the time, which goes on below where it is longer. Numbers of microbatches
 * stand behind the letters of actions, unless there is too much for it. ERR_NOMEM. */
hr_status hr_app_plan_lanes(const slot_times *t, int columns, FILE *to);

#endif
