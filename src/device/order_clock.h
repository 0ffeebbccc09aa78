/* Vector clocks: what is ordered before what, known when work is issued.
 *
 * Every launch has a position: how many were issued on its stream up to and with it. A clock
 * holds one position a stream (by the stream's id): all launches up to there come before
 * whatever carries the clock. Nothing here asks what has run already, so what is decided by
 * clocks is the same in every run.
 */
#ifndef HR_ORDER_CLOCK_H
#define HR_ORDER_CLOCK_H
#include <stdatomic.h>

#include "headrace/device.h" /* HR_MAX_STREAMS */

typedef struct hr__clock {
    uint64_t at[HR_MAX_STREAMS];
} hr__clock;

/* More than any id that a stream of any device has had: what lies behind is 0 in all clocks. */
extern atomic_int hr__clock_width;

static inline int hr__clock_ids(void)
{
    return atomic_load_explicit(&hr__clock_width, memory_order_relaxed);
}

static inline void hr__clock_join(hr__clock *into, const hr__clock *c)
{
    for (int i = 0, n = hr__clock_ids(); i < n; i++)
        into->at[i] = into->at[i] > c->at[i] ? into->at[i] : c->at[i];
}

/* Does everything in `c` come before what carries `now`? */
static inline bool hr__clock_covers(const hr__clock *now, const hr__clock *c)
{
    int behind = 0;
    for (int i = 0, n = hr__clock_ids(); i < n; i++)
        behind |= now->at[i] < c->at[i];
    return !behind;
}

#endif
