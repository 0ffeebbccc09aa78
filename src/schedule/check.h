/* Parts of the check that the simulator wants too. Internal to src/schedule. */
#ifndef HR_CHECK_H
#define HR_CHECK_H
#include "schedule/schedule_impl.h"

/* Each action stands on the rank of its stage. */
hr_status hr__check_placed(const hr_schedule *s);

/* Weights are gathered when they are used, and gradients reduced once, after the last. */
hr_status hr__check_weights(const hr_schedule *s);

#endif
