/* What a rank holds at most, which follows from its order alone. Internal to src/schedule. */
#ifndef HR_PEAKS_H
#define HR_PEAKS_H
#include "schedule/schedule_impl.h"

/* What a rank holds at a point of its order. */
typedef struct hr__held {
    int act, act_i, wstash;
    int64_t bytes;
} hr__held;

/* A slot takes for all of its actions before it gives anything back. A stage that recomputes holds
 * its whole activation while it runs. */
void hr__held_take(hr__held *h, const hr_action *a, const hr_stage_cost *c);
void hr__held_give_back(hr__held *h, const hr_action *a, const hr_stage_cost *c);

/* Fills the peak_ fields. */
void hr__peaks(const hr_schedule *s, int rank, hr_rank_figures *out);
/* The largest peak of any rank, each figure by itself. */
hr__held hr__most_held(const hr_schedule *s);

#endif
