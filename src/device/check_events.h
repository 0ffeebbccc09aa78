/* check_events.h: records of events that later ones took the place of, and who waited after.
 *
 * A wait takes the record that is current when it is issued. If its author meant an earlier
 * one, the edge is lost. That alone cannot be seen: shared events are recorded again all the
 * time, and waiting for the newest is mostly meant. It shows where something depends on
 * the lost edge: two accesses that no event orders, while the second one's stream did wait for
 * an event that had once been recorded behind the first. So a wait is called stale exactly
 * where an unordered access would have been ordered by a record that it came too late for.
 */
#ifndef HR_CHECK_EVENTS_H
#define HR_CHECK_EVENTS_H
#include "device/check_shades.h"

enum { HR__LOST_RECORDS = 128, HR__WAITS = 32 };

typedef struct hr__lost_record {
    uint64_t event; /* serial number */
    hr__clock clock;
    hr__use again; /* who took its place */
} hr__lost_record;

typedef struct hr__past_wait {
    uint64_t event;
    uint64_t lost; /* how many records had been lost by then, of any event */
} hr__past_wait;

typedef struct hr__check_events {
    hr__lost_record
        lost[HR__LOST_RECORDS]; /* the last ones: number n is at n modulo that */
    uint64_t n_lost;
    hr__past_wait wait[HR_MAX_STREAMS][HR__WAITS];
    uint64_t n_waits[HR_MAX_STREAMS];
} hr__check_events;

void hr__events_lose(hr__check_events *ev, uint64_t event, const hr__clock *clock,
                     const hr__use *again);
void hr__events_wait(hr__check_events *ev, uint64_t event, int stream);

/* The lost record through which a wait of `stream` would have come after `use`; NULL: none. */
const hr__lost_record *hr__events_stale(const hr__check_events *ev, int stream,
                                        const hr__use *use);

#endif
