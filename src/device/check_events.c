/* See check_events.h. */
#include "device/check_events.h"

void hr__events_lose(hr__check_events *ev, uint64_t event, const hr__clock *clock,
                     const hr__use *again)
{
    ev->lost[ev->n_lost++ % HR__LOST_RECORDS] =
        (hr__lost_record){event, *clock, *again};
}

void hr__events_wait(hr__check_events *ev, uint64_t event, int stream)
{
    ev->wait[stream][ev->n_waits[stream]++ % HR__WAITS] =
        (hr__past_wait){event, ev->n_lost};
}

static const hr__lost_record *covering(const hr__check_events *ev,
                                       const hr__past_wait *w, const hr__use *use)
{
    uint64_t oldest = ev->n_lost > HR__LOST_RECORDS ? ev->n_lost - HR__LOST_RECORDS : 0;
    for (uint64_t i = w->lost; i-- > oldest;) {
        const hr__lost_record *r = &ev->lost[i % HR__LOST_RECORDS];
        if (r->event == w->event && r->clock.at[use->id] >= use->position)
            return r;
    }
    return NULL;
}

const hr__lost_record *hr__events_stale(const hr__check_events *ev, int stream,
                                        const hr__use *use)
{
    uint64_t n = ev->n_waits[stream];
    uint64_t oldest = n > HR__WAITS ? n - HR__WAITS : 0;
    for (uint64_t i = n; i-- > oldest;) {
        const hr__lost_record *r = covering(ev, &ev->wait[stream][i % HR__WAITS], use);
        if (r)
            return r;
    }
    return NULL;
}
