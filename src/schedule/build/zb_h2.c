/* ZB-H2: twice the memory of 1F1B, no gaps but at the ends. */
#include "schedule/build/zb_turns.h"

static void defaults(hr_generate_opts *o)
{
    if (o->max_act == 0)
        o->max_act = 2 * o->ranks;
}

const hr__builder hr__build_zb_h2 = {
    .name = "zb-h2",
    .about = "zero bubble in twice the memory of 1F1B",
    .chunks = 1,
    .defaults = defaults,
    .orders = hr__zb_orders,
};
