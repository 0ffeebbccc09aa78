/* What the stages of one rank take, measured: a window for each slot that it computes, from the moment in
 * which the compute stream comes to it to the one in which it is through.
 */
#ifndef HR_APP_STAGE_COSTS_H
#define HR_APP_STAGE_COSTS_H
#include "headrace/trace.h"

typedef struct stage_window {
    int forward, backward;         /* of this rank's stages; -1: none. Both: a pair */
    int64_t begin_ns, end_ns;      /* kernels write these */
    double part[HR_DIR_WGRAD + 1]; /* ns, by direction; together they are the window */
} stage_window;

typedef struct stage_times {
    double forward_ns, input_grad_ns, weight_grad_ns;
} stage_times;

typedef struct stage_windows stage_windows;

/* Room for `most` windows of `stages` stages. ERR_NOMEM. */
hr_status hr_app_windows_create(int stages, int most, stage_windows **out);
void hr_app_windows_destroy(stage_windows *w); /* NULL is fine */
void hr_app_windows_clear(stage_windows *w);

/* In the order of the compute stream; NULL where there is no room. It stays where it is. */
stage_window *hr_app_windows_add(stage_windows *w, int forward, int backward);

/* Windows since the last call get their parts from what `rank` has recorded meanwhile. All of them are
 * over. */
void hr_app_windows_divide(stage_windows *w, const hr_timeline *t, int rank);

/* Medians; of slots of its own, or where a direction has none of pairs. ERR_NOMEM. */
hr_status hr_app_windows_times(const stage_windows *w, int stage, stage_times *out);
/* Percent that a pair, in the median, lasts less than its halves, of which `times` [stages] says how long
 * they are. ERR_NOMEM. */
hr_status hr_app_windows_discount(const stage_windows *w, const stage_times *times,
                                  int *percent);

/* What a transfer to another stage takes once both sides are there, median of those that `rank` has sent;
 * 0: none. ERR_NOMEM. */
hr_status hr_app_transfer_time(const hr_timeline *t, int rank, double *ns);

#endif
