/* ZB-H2: twice the memory of 1F1B, no gaps but at the ends. */
#include "schedule/build/zb_turns.h"

static int own_act(int ranks)
{
    return 2 * ranks;
}

const hr__builder hr__build_zb_h2 = {
    .name = "zb-h2",
    .about = "zero bubble in twice the memory of 1F1B",
    .chunks = 1,
    .own_act = own_act,
    .orders = hr__zb_orders,
};
