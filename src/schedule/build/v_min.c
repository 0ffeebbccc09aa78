/* V-Min: a V of two chunks a rank with as few activations as keep the ranks busy. */
#include "schedule/build/v_orders.h"

static int least(int ranks)
{
    return (ranks + 4) / 3 * 2;
}

static void orders(hr__build *b)
{
    int limit = least(b->p);
    hr__v_known known = {
        .steps = {.down_f = 1, .up_f = 1, .down_b = 1, .up_b = 1},
        .limit = limit,
        .room = limit,
    };
    if (b->p % 3 == 0) /* else forwards and backwards want the same slots */
        known.steps.turn_first = 2;
    if (b->p % 3 == 2) /* weight gradients come late, and need the rest of the room */
        known.room = hr__min(b->p, limit - 1);
    hr__v_known_orders(b, &known);
}

const hr__builder hr__build_v_min = {
    .name = "v-min",
    .about = "zero bubble on a V in about a third of its activations",
    .chunks = 2,
    .placement = HR_PLACEMENT_V,
    .v_orders = true,
    .own_act = least,
    .takes = hr__v_takes,
    .rule = "a limit of at least two activations a rank",
    .orders = orders,
};
