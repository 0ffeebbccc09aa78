/* Sequence-split 1F1B: each microbatch is cut into pieces along the sequence, which flow like
 * microbatches; the backward visits the pieces of one from the last. For planning: a run
 * would have to carry attention's keys from piece to piece. */
#include "schedule/build/builder.h"

static void defaults(hr_generate_opts *o)
{
    if (o->pieces == 0)
        o->pieces = 2;
}

static hr__answer takes(const hr_generate_opts *o)
{
    return o->pieces >= 1 ? HR__YES : HR__NO;
}

static void order(hr__build *b, int rank)
{
    int n = b->o.pieces;
    int ahead = hr__min(n - 1 + b->p - 1 - rank, b->m);
    for (int k = 0; k < ahead; k++)
        hr__put(b, rank, HR_ACTION_F, rank, k);
    for (int k = 0; k < b->m; k++) {
        if (k + ahead < b->m)
            hr__put(b, rank, HR_ACTION_F, rank, k + ahead);
        hr__put(b, rank, HR_ACTION_B, rank, k - k % n + n - 1 - k % n);
    }
}

const hr__builder hr__build_seq_1f1b = {
    .name = "seq-1f1b",
    .about = "1F1B over pieces of sequences (for planning only)",
    .chunks = 1,
    .pieces = true,
    .defaults = defaults,
    .takes = takes,
    .rule = "at least one piece a microbatch",
    .order = order,
};
