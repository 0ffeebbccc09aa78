/* The links between ranks, for transfers that wait for each other: one for each ordered pair of ranks that
 * hold stages side by side. Internal to src/schedule. */
#ifndef HR_LINKS_H
#define HR_LINKS_H
#include "schedule/schedule_impl.h"

typedef struct hr__links hr__links;

hr_status hr__links_create(const hr_schedule *s, hr__links **out);
void hr__links_destroy(hr__links *l);

/* The link over which the output of `a` leaves its rank; HR__NO_LINK if it does not. */
#define HR__NO_LINK (-1)
int hr__link_of(const hr__links *l, const hr_action *a);

/* Takes the link for an output that is there at `ready`; returns when its transfer starts. A sender's
 * outputs have to come in its order. */
int64_t hr__links_take(hr__links *l, const hr_action *a, int64_t ready);

#endif
