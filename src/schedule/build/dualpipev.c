/* DualPipe-V: DualPipe's steps on a V of two chunks a rank, with one copy of the model. */
#include "schedule/build/dualpipe.h"

static hr__answer takes(const hr_generate_opts *o)
{
    return o->microbatches >= 2 * o->ranks ? HR__YES : HR__NO;
}

static void order(hr__build *b, int rank)
{
    hr__dual d = {
        .stage = {rank, 2 * b->p - 1 - rank}, .ranks = b->p, .at = rank, .count = b->m};
    hr__dual_order(b, rank, &d);
}

const hr__builder hr__build_dualpipev = {
    .name = "dualpipev",
    .about = "DualPipe's steps on a V of two chunks a rank",
    .chunks = 2,
    .placement = HR_PLACEMENT_V,
    .takes = takes,
    .rule = "two microbatches a rank or more",
    .order = order,
};
