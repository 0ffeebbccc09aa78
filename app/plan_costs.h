/* What the stages of a schedule cost: by the command line, where they are alike, or by a profile along a
 * layout of the model.
 */
#ifndef HR_APP_PLAN_COSTS_H
#define HR_APP_PLAN_COSTS_H
#include "headrace/schedule.h"
#include "options.h"

/* How a schedule cuts the model and the batch, whatever the sizes. */
typedef struct plan_kind {
    int chunks; /* of a rank */
    bool any_chunks;
    int pieces; /* of a microbatch */
    hr_placement placement;
} plan_kind;

/* Of one of hr_schedule_name(). */
plan_kind hr_app_plan_kind(const char *name);

/* Into cost[stages], and into *param_bytes those of the fullest rank. Errors: ERR_INVALID, ERR_PARSE if the
 * layout, or the list of stages that recompute, is not for these stages; ERR_NOMEM. */
hr_status hr_app_plan_costs(const plan_options *o, const plan_kind *k,
                            hr_stage_cost *cost, int stages, int64_t *param_bytes);

/* Of a result to another rank, in ticks. */
int64_t hr_app_plan_transfer(const plan_options *o);
int64_t hr_app_plan_latency(const plan_options *o);

#endif
