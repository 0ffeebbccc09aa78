/* The best schedule that a search finds for the sizes, costs and memory of the command line: what `headrace
 * plan` calls auto.
 */
#ifndef HR_APP_PLAN_OPTIMISE_H
#define HR_APP_PLAN_OPTIMISE_H
#include "plan_row.h"

typedef struct plan_found {
    plan_row row;
    const char *placement; /* in words */
    const char *generator; /* the best that fits; NULL if none does */
    int64_t generator_makespan;
    int64_t steps; /* changes tried */
} plan_found;

/* One stage a rank, several one behind the other, two on a V, and both ways: each with costs and memory of
 * its own. Shows on standard error how far it is, if that is a terminal.
 *
 * Errors: ERR_INVALID ("infeasible") if nothing fits into the limit, with the smallest that works; what
 *         stood against the last one if none can be made at all; ERR_NOMEM. */
hr_status hr_app_plan_optimise(const plan_options *o, plan_found *out);
/* What it is, beside the best generator and its bound. */
void hr_app_plan_found_say(const plan_found *f, FILE *to);
void hr_app_plan_found_fini(plan_found *f);

#endif
