/* What several options of one sub-command must agree on. */
#ifndef HR_APP_OPTION_CHECK_H
#define HR_APP_OPTION_CHECK_H
#include "option_spec.h"
#include "options.h"

/* Fills in what follows from other options (dp, global batch, min-lr, warm-up, cores stay 0), then
 * refuses what does not fit together, naming both options and the nearest value that would. */
hr_status hr_app_check_train(train_options *o, option_set given);
hr_status hr_app_check_plan(plan_options *o, option_set given);

#endif
