/* train_lanes.h: the timelines of ranks that are processes, in one.
 */
#ifndef HR_APP_TRAIN_LANES_H
#define HR_APP_TRAIN_LANES_H
#include "headrace/group.h"
#include "headrace/trace.h"

/* A question of one rank and another's answer: each by the clock of the rank that it was seen on. */
typedef struct clock_trip {
    int64_t asked, told, back;
} clock_trip;

/* What to add to the other's clock to have the asker's: by the quickest trip, as if both ways took the
 * same; so it is wrong by at most half of that trip. */
int64_t hr_app_clock_offset(const clock_trip *trip, int n);

/* The lanes of all ranks into the timeline of rank 0, times by its clock. Collective. Blocks. */
hr_status hr_app_lanes_collect(hr_group *world, hr_timeline *t);

#endif
