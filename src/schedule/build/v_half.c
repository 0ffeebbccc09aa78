/* V-Half: a V of two chunks a rank within about half of ZB-V's activations. */
#include "schedule/build/v_orders.h"

static int least(int ranks)
{
    return (ranks / 2 + 1) * 2;
}

static void orders(hr__build *b)
{
    int limit = least(b->p);
    hr__v_known known = {
        .steps = {.down_f = 2, .up_f = 1, .down_b = 2, .up_b = 1, .turn_last = 1},
        .limit = limit,
        .room = limit,
    };
    if (b->p % 2 == 0) /* else forwards and backwards want the same slots */
        known.steps.turn_first = 3;
    hr__v_known_orders(b, &known);
}

const hr__builder hr__build_v_half = {
    .name = "v-half",
    .about = "zero bubble on a V in about half of its activations",
    .chunks = 2,
    .placement = HR_PLACEMENT_V,
    .v_orders = true,
    .own_act = least,
    .takes = hr__v_takes,
    .rule = "a limit of at least two activations a rank",
    .orders = orders,
};
