/* The schedule named "auto". Internal to src/schedule. */
#ifndef HR_OPTIMISE_H
#define HR_OPTIMISE_H
#include "headrace/schedule.h"

/* What the optimiser finds by itself for the sizes, costs and limit of `opts`. */
hr_status hr__generate_auto(const hr_generate_opts *opts, hr_schedule **out);

#endif
