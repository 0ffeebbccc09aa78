/* Random changes of a draft, and the way back. Internal to src/schedule. */
#ifndef HR_OPTIMISE_MOVES_H
#define HR_OPTIMISE_MOVES_H
#include "schedule/optimise_draft.h"

typedef struct hr__mover {
    hr__draft *d; /* what is changed; borrowed */
    hr__draft old;
    int *changed; /* ranks that the last move has touched */
    int n_changed;
    bool pairs;   /* neighbours may become pairs, and pairs two turns */
    bool weights; /* there are weight gradients to put */
    uint64_t dice;
} hr__mover;

/* `old` is any other draft of the same schedule. A failed init needs no fini. */
hr_status hr__mover_init(hr__mover *m, hr__draft *d, const hr_schedule *s,
                         const hr__draft_rules *rules, uint64_t seed);
void hr__mover_fini(hr__mover *m);

/* One change, sound or not: running it tells. */
void hr__move(hr__mover *m);
void hr__move_back(hr__mover *m);

/* From 0 to n - 1. */
int64_t hr__roll(uint64_t *dice, int64_t n);

#endif
