/* V-Half: a V of two chunks a rank within about half of ZB-V's activations. */
#include "schedule/build/v_orders.h"

static void defaults(hr_generate_opts *o)
{
    if (o->max_act == 0)
        o->max_act = (o->ranks / 2 + 1) * 2;
}

const hr__builder hr__build_v_half = {
    .name = "v-half",
    .about = "zero bubble on a V in about half of its activations",
    .chunks = 2,
    .placement = HR_PLACEMENT_V,
    .defaults = defaults,
    .takes = hr__v_takes,
    .rule = "a limit of at least two activations a rank",
    .orders = hr__v_orders,
};
