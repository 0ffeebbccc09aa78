/* What a run shows while it runs: on a terminal a bar that is redrawn, elsewhere a plain line now and
 * then (every 5 s, each tenth of the steps, and the last).
 *
 * Threads: one at a time (rank 0's).
 */
#ifndef HR_APP_PROGRESS_H
#define HR_APP_PROGRESS_H
#include "headrace/base.h"

typedef struct progress progress;

typedef struct progress_opts {
    FILE *to;                /* NULL: standard error */
    int64_t first, steps;    /* steps done before this run; of the whole run */
    int terminal;            /* 1 bar, 0 lines, -1 ask `to` */
    int columns;             /* of the terminal; 0: ask */
    int64_t (*now_ns)(void); /* NULL: hr_now_ns */
} progress_opts;

typedef struct progress_tick {
    int64_t step; /* steps done */
    double loss, tokens_per_s;
    double comm_hidden; /* 0..1; negative: not measured */
    double time_left_s; /* negative: from the pace of the steps so far */
} progress_tick;

hr_status hr_app_progress_create(const progress_opts *opts, progress **out);
void hr_app_progress_step(progress *p, const progress_tick *tick);
/* A line of its own, above the bar. */
void hr_app_progress_note(progress *p, const char *fmt, ...) HR_PRINTF(2, 3);
/* Leaves the cursor on a fresh line. NULL is fine. */
void hr_app_progress_destroy(progress *p);

#endif
