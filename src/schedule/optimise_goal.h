/* What the optimiser is to reach: sizes, costs and limits, and how long it may take. Internal to
 * src/schedule. */
#ifndef HR_OPTIMISE_GOAL_H
#define HR_OPTIMISE_GOAL_H
#include "schedule/optimise_draft.h"

typedef struct hr__goal {
    hr_optimise_opts o; /* checked, with its defaults */
    int64_t end_at,
        stop_at; /* of the monotonic clock, ns: of all, and of a share of it */
    int64_t steps, budget;
    int64_t least, bound; /* the smallest makespan so far, and its bound */
    bool stopped;         /* the time of the share is over */
} hr__goal;

/* Errors: ERR_INVALID, see hr_schedule_optimise(). */
hr_status hr__goal_init(hr__goal *g, const hr_optimise_opts *o);

/* Stages a rank and direction. */
int hr__chunks(const hr_schedule *s);
/* Whether a rank may have so many larger stages, made of neighbouring ones. */
bool hr__goal_takes_chunks(const hr__goal *g, int chunks);
/* Give `s` the costs of its stages, each the sum of those that it is made of. */
hr_status hr__goal_cost(const hr__goal *g, hr_schedule *s);
hr__limits hr__goal_limits(const hr__goal *g, const hr_schedule *s);
bool hr__goal_fits(const hr__goal *g, const hr_schedule *s);
/* Activations of `s` in those that max_act counts. */
int hr__goal_acts(const hr__goal *g, const hr_schedule *s, int act);

/* One step more of the search; false: no more. */
bool hr__goal_step(hr__goal *g);
bool hr__goal_stopped(hr__goal *g);
/* From now on it stops after one of `parts` of the time that is left. */
void hr__goal_share(hr__goal *g, int parts);

#endif
