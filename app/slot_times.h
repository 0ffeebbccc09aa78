/* When each slot of a schedule runs, for its pictures: hr_schedule_simulate(), slot by slot. */
#ifndef HR_APP_SLOT_TIMES_H
#define HR_APP_SLOT_TIMES_H
#include "headrace/schedule.h"

typedef struct timed_slot {
    int64_t begin, end; /* ticks */
    const hr_action *a; /* borrowed from the schedule */
    int n;              /* actions; more than one: a pair */
    bool critical;      /* on the critical path */
} timed_slot;

typedef struct slot_times {
    int ranks;
    size_t *first; /* [ranks] where a rank's slots begin in `slot` */
    size_t *n;     /* [ranks] its slots */
    timed_slot *slot;
    int64_t makespan;
    int64_t shortest; /* slot that takes time; 0: there is none */
} slot_times;

/* Of figures with `times`, and `path` where the critical ones are to be known; those that communicate
 * are left out. ERR_NOMEM. */
hr_status hr_app_slot_times_make(const hr_schedule *s, const hr_figures *f,
                                 slot_times *out);
void hr_app_slot_times_fini(slot_times *t);

/* Which of its rank's chunks an action is of, from 0, and how many there are; in a bidirectional schedule
 * the two directions. */
int hr_app_chunk_of(const hr_schedule_shape *shape, const hr_action *a, int *chunks);

#endif
