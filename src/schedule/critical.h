/* The critical path of a run. Internal to src/schedule. */
#ifndef HR_CRITICAL_H
#define HR_CRITICAL_H
#include "schedule/replay.h"

/* After a run that kept the times of all ranks: the path and its sums, into `f`. ERR_NOMEM. */
hr_status hr__critical(const hr__replay *r, hr_figures *f);

#endif
