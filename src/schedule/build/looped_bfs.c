/* Looped breadth-first: chunk by chunk all microbatches forward, and the same way back. */
#include "schedule/build/builder.h"

static void order(hr__build *b, int rank)
{
    for (int c = 0; c < b->v; c++)
        for (int m = 0; m < b->m; m++)
            hr__put(b, rank, HR_ACTION_F, c * b->p + rank, m);
    for (int c = b->v - 1; c >= 0; c--)
        for (int m = b->m - 1; m >= 0; m--)
            hr__put(b, rank, HR_ACTION_B, c * b->p + rank, m);
}

const hr__builder hr__build_looped_bfs = {
    .name = "looped-bfs",
    .about = "chunk by chunk all microbatches, and back",
    .order = order,
};
