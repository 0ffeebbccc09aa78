/* The timeline as a picture: for each rank a compute and a communication lane, nodes as boxes with
 * their microbatch, forward, backward and weight gradients in colours of their own.
 *
 * NODE spans are drawn as boxes; on communication lanes TRANSFER spans lie within them, and PEERS
 * (waiting for the last member) is hatched.
 */
#ifndef HR_APP_PICTURE_TIMELINE_H
#define HR_APP_PICTURE_TIMELINE_H
#include "headrace/trace.h"

typedef struct picture_timeline {
    const hr_timeline *timeline;
    const char *title;         /* what ran: "MoE GPT, 2 expert ranks, 8 microbatches" */
    double link_gbps, link_us; /* both 0: the link is not imitated */
    int64_t begin_ns, end_ns;  /* what to show; both 0: all */
} picture_timeline;

/* SVG, or PNG where `path` ends in .png; replaced whole. A timeline without spans is drawn
 * empty and says so. */
hr_status hr_app_picture_timeline(const picture_timeline *p, const char *path);

#endif
