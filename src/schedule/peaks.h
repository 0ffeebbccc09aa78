/* What a rank holds at most, which follows from its order alone. Internal to src/schedule. */
#ifndef HR_PEAKS_H
#define HR_PEAKS_H
#include "schedule/schedule_impl.h"

/* Fills the peak_ fields. */
void hr__peaks(const hr_schedule *s, int rank, hr_rank_figures *out);

#endif
