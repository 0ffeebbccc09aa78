/* GPipe: all forwards, then all backwards in the same order. */
#include "schedule/build/builder.h"

static void order(hr__build *b, int rank)
{
    for (int m = 0; m < b->m; m++)
        hr__put(b, rank, HR_ACTION_F, rank, m);
    for (int m = 0; m < b->m; m++)
        hr__put(b, rank, HR_ACTION_B, rank, m);
}

const hr__builder hr__build_gpipe = {
    .name = "gpipe",
    .about = "all forwards, then all backwards",
    .chunks = 1,
    .order = order,
};
