/* Combined 1F1B: interleaved.c with each forward of the steady state paired with a backward. */
#include "schedule/build/builder.h"

static void defaults(hr_generate_opts *o)
{
    o->expert_overlap = true;
    hr__interleaved_defaults(o);
}

static void order(hr__build *b, int rank)
{
    hr__interleaved_order(b, rank, true);
}

const hr__builder hr__build_combined = {
    .name = "combined",
    .about = "forward and backward of two microbatches in one slot, to hide transfers",
    .defaults = defaults,
    .takes = hr__interleaved_takes,
    .rule = "groups of no fewer microbatches than ranks, the last one too",
    .order = order,
};
