/* One schedule made for given sizes and costs, with its figures: what the table of `headrace plan` has
 * a line of, and what its pictures show.
 */
#ifndef HR_APP_PLAN_ROW_H
#define HR_APP_PLAN_ROW_H
#include "headrace/schedule.h"
#include "options.h"

typedef struct plan_row {
    const char *name;
    hr_schedule *s; /* NULL: it cannot be made */
    hr_figures *figures;
    int chunks; /* of a rank */
    int pieces; /* of a microbatch; an action runs one of them */
    int copies; /* of the model's parameters over all ranks */
    bool forward_only;
    double bubble;   /* of all ranks together */
    double peak_act; /* of the worst rank, in microbatches on all that a rank holds */
    int64_t act_bytes, param_bytes; /* of the worst rank */
    int64_t stage_bytes;            /* of an activation on the stage that holds most */
    int64_t bound; /* ticks that no order of the same slots can be below */
    char why[512]; /* what is wrong with it; "" if nothing is */
} plan_row;

/* Schedule `name` (one of hr_schedule_name()) for `o`; zero `chunks` stands for the number that it has.
 * What the sizes or the limit do not allow is no failure: `why` says it. Errors: ERR_NOMEM. */
hr_status hr_app_plan_row_make(const plan_options *o, const char *name, int chunks,
                               plan_row *out);
/* Of a schedule with its costs, which is taken. Errors: those of the checker, at the limit of `o`. */
hr_status hr_app_plan_row_take(const plan_options *o, const char *name, hr_schedule *s,
                               int64_t param_bytes, plan_row *out);
void hr_app_plan_row_fini(plan_row *r);

/* How many chunks of a rank to ask of `name`: --vp, where it takes any number. */
int hr_app_plan_chunks(const plan_options *o, const char *name);

/* All schedules, ranked by makespan, on standard output; above them `best`, unless it is NULL. */
hr_status hr_app_plan_compare(const plan_options *o, const plan_row *best);

#endif
