/* ZB-H1: 1F1B's memory, with weight gradients put off into the gaps. */
#include "schedule/build/zb_turns.h"

static int own_act(int ranks)
{
    return ranks;
}

const hr__builder hr__build_zb_h1 = {
    .name = "zb-h1",
    .about = "1F1B with weight gradients in its gaps, in the memory of 1F1B",
    .chunks = 1,
    .own_act = own_act,
    .orders = hr__zb_orders,
};
