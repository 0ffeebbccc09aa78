/* lane.h: of a lane, what is not public: spans that found no room. */
#ifndef HR_LANE_H
#define HR_LANE_H
#include "headrace/trace.h"

size_t hr__lane_dropped(const hr_lane *lane);
/* `n` more; from the lane's writer. */
void hr__lane_drop(hr_lane *lane, size_t n);

#endif
