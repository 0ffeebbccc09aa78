/* DualPipe: two copies of the model, the microbatches enter at both ends, half of them each. */
#include "schedule/build/dualpipe.h"

static hr__answer takes(const hr_generate_opts *o)
{
    return o->ranks % 2 == 0 && o->microbatches % 2 == 0 &&
                   o->microbatches >= 2 * o->ranks
               ? HR__YES
               : HR__NO;
}

static void order(hr__build *b, int rank)
{
    bool low = rank < b->p / 2;
    int mirror = b->p - 1 - rank;
    int half = b->m / 2;
    hr__dual d = {.stage = {low ? rank : mirror, low ? mirror : rank},
                  .first = {low ? 0 : half, low ? half : 0},
                  .ranks = b->p / 2,
                  .at = low ? rank : mirror,
                  .count = half};
    hr__dual_order(b, rank, &d);
}

const hr__builder hr__build_dualpipe = {
    .name = "dualpipe",
    .about = "microbatches from both ends through two copies of the model",
    .chunks = 1,
    .placement = HR_PLACEMENT_BIDIRECTIONAL,
    .takes = takes,
    .rule =
        "an even number of ranks, an even number of microbatches, two a rank or more",
    .order = order,
};
