/* A balanced split. Internal to src/schedule. */
#ifndef HR_LAYOUT_BALANCE_H
#define HR_LAYOUT_BALANCE_H
#include "schedule/layout.h"

/* Fill the starts so that the dearest stage costs as little as can be, and the others as nearly the
 * same as a walk from the left gets them. Each stage gets an entry that costs something. */
hr_status hr__layout_balance(const int64_t *cost, hr_layout *l);

#endif
