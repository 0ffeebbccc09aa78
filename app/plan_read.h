/* Somebody else's schedule: the file that --check names. */
#ifndef HR_APP_PLAN_READ_H
#define HR_APP_PLAN_READ_H
#include "headrace/schedule.h"
#include "options.h"

/* A CSV gets the costs of the command line, or of its profile, and `pp` becomes what goes with them; our
 * text has its own. Errors: of reading and parsing; ERR_INVALID, ERR_PARSE for a layout or stages to
 * recompute that are not for its stages; ERR_NOMEM. */
hr_status hr_app_plan_read(plan_options *o, hr_schedule **out);

#endif
