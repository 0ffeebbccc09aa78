/* naps.h: stages whose work is imitated: a kernel that sleeps for the time that the schedule says, so that more
 * ranks than cores are no matter, and messages of 1 KiB between them. */
#ifndef HR_BENCH_NAPS_H
#define HR_BENCH_NAPS_H
#include "headrace/exec.h"

#include <stdatomic.h>

typedef struct naps {
    const hr_schedule *s; /* with the costs of its stages */
    int64_t unit_ns;      /* of a cost of 1; 0: nothing is launched */
    _Atomic int64_t begin,
        end; /* of all work of a step, on the ranks of this process */
} naps;

/* This rank's part of it. Collective. */
hr_status naps_open(naps *r, hr_group *pp, hr_exec **e, hr_program **p);
/* Every rank has come here, and its work is done. Blocks. */
void naps_meet(hr_group *pp);
/* Makespan by the simulator, in nanoseconds. */
double naps_simulated_ns(const hr_schedule *s, int64_t unit_ns);
hr_schedule *naps_generate(const char *name, int ranks, int chunks, int microbatches);

#endif
