/* Where a search may start: what the generators make, list schedules, and one microbatch after the other.
 * Internal to src/schedule. */
#ifndef HR_OPTIMISE_START_H
#define HR_OPTIMISE_START_H
#include "schedule/optimise_goal.h"

enum { HR__STARTS = 4 };

typedef struct hr__start {
    hr_schedule *s;   /* within the limits */
    const char *name; /* its generator; NULL if none */
    int64_t makespan;
} hr__start;

typedef struct hr__starts {
    hr__start at[HR__STARTS]; /* the best first; of one kind the best alone */
    int n;
    const char *generator; /* the best, NULL if none fits */
    int64_t generator_makespan;
    int64_t least_bytes; /* of one microbatch after the other, over all placements */
    int least_act;       /* the same, as max_act counts */
} hr__starts;

/* Errors: ERR_NOMEM; options that fit no schedule. That none is within the limits is no error: then
 * there are no starts. */
hr_status hr__find_starts(hr__goal *g, hr__starts *out);
void hr__starts_fini(hr__starts *starts);

#endif
