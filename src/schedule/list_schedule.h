/* List scheduling: a clock over all ranks; a rank that is free takes the most urgent action whose
 * inputs are there and which its limit of activations allows. Internal to src/schedule. */
#ifndef HR_LIST_SCHEDULE_H
#define HR_LIST_SCHEDULE_H
#include "schedule/build/builder.h"

typedef struct hr__list_rules {
    int limit;   /* activations that a rank may hold, from F to W */
    int limit_i; /* the same from F to I or B; 0: none */
    bool fused;  /* whole backwards */
    bool wait; /* a weight gradient only where it is done before the next input comes */
    bool
        first_back; /* of several backwards the one nearest to the first stage, not the last */
    bool first_in; /* of several forwards the one nearest to the first stage */
    bool push;     /* forwards before backwards */
    const hr_schedule
        *fixed; /* its order of forwards and backwards is kept, only weight
                                 gradients find their places; NULL: all are chosen */
} hr__list_rules;

/* Fill the empty orders of `s` by the rules. Its limits must leave room for one microbatch in each
 * chunk. False if memory for it is missing. */
bool hr__list_schedule(hr_schedule *s, const hr__list_rules *rules);

/* Try all combinations of the last five rules, keep the orders with the smallest makespan and,
 * among those, the smallest peaks. */
void hr__list_best(hr__build *b, const hr__list_rules *base);

#endif
