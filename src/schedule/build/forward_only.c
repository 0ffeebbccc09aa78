/* Forwards alone, as in evaluation; with chunks, group by group. */
#include "schedule/build/builder.h"

static void order(hr__build *b, int rank)
{
    for (int k = 0; k < b->m * b->v; k++) {
        int microbatch;
        int chunk;
        hr__group_table(b->m, b->v, b->o.group, k, &microbatch, &chunk);
        hr__put(b, rank, HR_ACTION_F, chunk * b->p + rank, microbatch);
    }
}

const hr__builder hr__build_forward_only = {
    .name = "forward-only",
    .about = "no backward, for evaluation",
    .forward_only = true,
    .defaults = hr__interleaved_defaults,
    .takes = hr__interleaved_takes,
    .rule = "groups of no fewer microbatches than ranks, the last one too",
    .order = order,
};
