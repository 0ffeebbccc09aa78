/* Candidates of which the best is kept. Internal to src/schedule. */
#ifndef HR_BEST_H
#define HR_BEST_H
#include "schedule/build/builder.h"

/* An empty schedule of the same shape and costs. */
hr_status hr__like(const hr_schedule *s, hr_schedule **out);

/* Consumes `s`. Keeps it as the built schedule if that one is empty, or worse: a longer makespan, or
 * the same and a longer one under somewhat other costs, or these too and higher peaks. One that
 * cannot run is dropped. */
void hr__keep_better(hr__build *b, hr_schedule *s);

#endif
