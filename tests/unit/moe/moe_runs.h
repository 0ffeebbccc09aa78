/* Whole runs of a made-up layer over ranks as threads: both microbatches, forward and backward. */
#ifndef HR_MOE_RUNS_H
#define HR_MOE_RUNS_H
#include "unit/moe/moe_flow.h"

typedef enum run_order {
    RUN_WHOLE,      /* one after the other, each one graph */
    RUN_SERIAL,     /* one after the other, slot by slot */
    RUN_INTERLEAVED /* forward of the second between the slots of the first's backward */
} run_order;

typedef struct moe_run {
    const moe_case *c;
    run_order order;
    int two_streams;
    hr_timeline *timeline; /* may be NULL */
    size_t memory;         /* that a rank's device may hold; 0: no limit */
    moe_result *result;    /* each rank writes its own part; may be NULL */
} moe_run;

/* Both microbatches of one rank in that order, into `into` (NULL: not read). */
hr_status run_microbatches(moe_rank *r, run_order order, moe_result *into);

hr_status run_case(moe_run *run); /* hr_local_run() of all ranks */

#endif
