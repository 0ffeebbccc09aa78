/* Spans as boxes: the insides of the timeline's picture. */
#ifndef HR_APP_PICTURE_LANE_H
#define HR_APP_PICTURE_LANE_H
#include "headrace/trace.h"
#include "picture_canvas.h"

/* A stretch of time on a stretch of paper. */
typedef struct time_axis {
    int64_t begin_ns, end_ns;
    double x, width;
} time_axis;

typedef enum lane_role {
    LANE_COMPUTE,
    LANE_COMMUNICATION, /* of experts, and sums of gradients */
    LANE_SEND,          /* between pipeline stages; a lane a channel */
    LANE_RECEIVE,
    LANE_ROLES
} lane_role;

double hr_app_axis_x(const time_axis *a, int64_t ns);

/* HR_DIR_*; the colour of boxes and of the legend. */
colour hr_app_dir_colour(int dir);

/* True if `lane` belongs to this row. Lanes of other roles (counts) are not drawn. */
bool hr_app_lane_is(const hr_lane *lane, int rank, lane_role role);

/* All spans of a row. `detail`: with frames, names and microbatches; else boxes alone. */
void hr_app_draw_row(canvas *c, const hr_timeline *t, int rank, lane_role role,
                     const time_axis *a, double y, double height, bool detail);

/* The hatching of "waiting for peers", for the legend too. */
void hr_app_draw_hatched(canvas *c, double x, double y, double w, double h);

#endif
