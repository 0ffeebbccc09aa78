/* A draft is a schedule under search: for each rank the order of its forwards and backwards. Weight
 * gradients that were split off are not in it: when it is run they fill the gaps, oldest first, as
 * far as nothing has to wait for them, or where memory asks for them, or where they are pinned.
 * Internal to src/schedule. */
#ifndef HR_OPTIMISE_DRAFT_H
#define HR_OPTIMISE_DRAFT_H
#include "schedule/replay.h"

typedef struct hr__turn {
    hr_action a[2]; /* one action, or an overlapped pair */
    uint8_t n;
    uint8_t pins; /* weight gradients that are done behind it in any case */
} hr__turn;

typedef struct hr__line {
    hr__turn *turn;
    int n, room;
    int slack; /* percent of a weight gradient that a turn may start late for it */
} hr__line;

typedef struct hr__draft {
    const hr_schedule *of; /* its shape and costs; borrowed */
    hr__line *line;        /* [ranks] */
} hr__draft;

/* The orders of `s`, which computes only. `split`: whole backwards outside of pairs become split
 * ones; `pairs`: pairs are kept, else they become turns of their own; `pinned`: weight
 * gradients stay where they are. A failed init needs no fini.
 *
 * Errors: ERR_UNSUPPORTED for pairs of more than two, ERR_NOMEM. */
typedef struct hr__draft_rules {
    bool split, pairs, pinned;
} hr__draft_rules;
hr_status hr__draft_init(hr__draft *d, const hr_schedule *s,
                         const hr__draft_rules *rules);
void hr__draft_fini(hr__draft *d);
/* Between drafts of the same schedule. */
void hr__draft_copy(hr__draft *to, const hr__draft *from);

typedef struct hr__limits {
    int act;       /* INT_MAX: none */
    int64_t bytes; /* INT64_MAX: none */
} hr__limits;

/* Less is better, the makespan first. */
typedef struct hr__worth {
    int64_t makespan;
    int64_t ends; /* of all ranks, summed: tells apart what has the same makespan */
} hr__worth;

typedef struct hr__runner hr__runner;

hr_status hr__runner_create(const hr__draft *d, const hr__limits *limits,
                            hr__runner **out);
void hr__runner_destroy(hr__runner *r);
/* False if it cannot run, not within the limits, or not within a makespan of `cap`. */
bool hr__run_draft(hr__runner *r, const hr__draft *d, int64_t cap, hr__worth *out);
/* The schedule of the last run, which has to have come to its end. */
hr_status hr__runner_schedule(const hr__runner *r, hr_schedule **out);

#endif
