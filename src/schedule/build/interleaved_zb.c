/* Interleaved zero bubble: interleaved 1F1B with split backwards. A rank runs ahead by its distance
 * from the end once, not twice, since a weight gradient fills the gap; it puts off as many
 * weight gradients as there are ranks before it. */
#include "schedule/build/builder.h"

static void put(hr__build *b, int rank, hr_action_kind kind, int k)
{
    int m;
    int c;
    hr__group_table(b->m, b->v, b->o.group, k, &m, &c);
    hr__put(b, rank, kind, (kind == HR_ACTION_F ? c : b->v - 1 - c) * b->p + rank, m);
}

static void order(hr__build *b, int rank)
{
    int total = b->m * b->v;
    int64_t want = (int64_t)(b->v - 1) * b->o.group + b->p - 1 - rank;
    int ahead = want < total ? (int)want : total;
    int weights = 0;
    for (int k = 0; k < ahead; k++)
        put(b, rank, HR_ACTION_F, k);
    for (int k = 0; k < total; k++) {
        if (k + ahead < total)
            put(b, rank, HR_ACTION_F, k + ahead);
        put(b, rank, HR_ACTION_I, k);
        if (k >= rank)
            put(b, rank, HR_ACTION_W, weights++);
    }
    while (weights < total)
        put(b, rank, HR_ACTION_W, weights++);
}

/* With one chunk the group has no part in it. */
const hr__builder hr__build_interleaved_zb = {
    .name = "interleaved-zb",
    .about = "interleaved with weight gradients put off into the gaps",
    .defaults = hr__interleaved_defaults,
    .takes = hr__interleaved_takes,
    .rule = "groups of no fewer microbatches than ranks, the last one too",
    .order = order,
};
