/* A schedule as a picture: a row a rank, time from left to right, in bands that stand below each other
 * where one would be too wide to read. A box is a slot, its colour what it computes, its number the
 * microbatch; the two halves of a pair lie over each other.
 */
#ifndef HR_APP_PICTURE_SCHEDULE_H
#define HR_APP_PICTURE_SCHEDULE_H
#include "slot_times.h"

typedef struct picture_schedule {
    const hr_schedule *schedule;
    const slot_times *times;
    const hr_figures *figures;
    int parts; /* activations of the figures that make up a rank's share of a microbatch */
    const char *title, *subtitle;
} picture_schedule;

/* SVG, or PNG where `path` ends in .png; replaced whole. */
hr_status hr_app_picture_schedule(const picture_schedule *p, const char *path);

#endif
