/* 1F1B-V: whole backwards on a V of two chunks a rank, in two thirds of 1F1B's memory. */
#include "schedule/build/v_orders.h"

static void defaults(hr_generate_opts *o)
{
    if (o->max_act == 0)
        o->max_act = (2 * o->ranks + 3) / 3 * 2;
}

const hr__builder hr__build_one_f_one_b_v = {
    .name = "1f1b-v",
    .about = "whole backwards on a V, in two thirds of 1F1B's activations",
    .chunks = 2,
    .placement = HR_PLACEMENT_V,
    .defaults = defaults,
    .takes = hr__v_takes,
    .rule = "a limit of at least two activations a rank",
    .orders = hr__v_whole_orders,
};
