/* 1F1B-V: whole backwards on a V of two chunks a rank, in two thirds of 1F1B's memory. */
#include "schedule/build/v_orders.h"

static int least(int ranks)
{
    return (2 * ranks + 3) / 3 * 2;
}

static void orders(hr__build *b)
{
    int limit = least(b->p);
    hr__v_known known = {
        .steps = {.down_f = 1, .up_f = 1, .down_b = 2, .up_b = 2},
        .limit = limit,
        .room = limit,
        .fused = true,
    };
    /* The places of one rank fit the next one only where the ranks are one more than whole rounds of
     * three; else one rank has to wait. */
    if (b->p == 3)
        known.steps.turn_first = 3;
    else if (b->p > 3 && b->p % 3 != 1)
        known.steps.knot = b->p % 3 == 2 ? 2 : 3;
    hr__v_known_orders(b, &known);
}

const hr__builder hr__build_one_f_one_b_v = {
    .name = "1f1b-v",
    .about = "whole backwards on a V, in two thirds of 1F1B's activations",
    .chunks = 2,
    .placement = HR_PLACEMENT_V,
    .own_act = least,
    .takes = hr__v_takes,
    .rule = "a limit of at least two activations a rank",
    .orders = orders,
};
