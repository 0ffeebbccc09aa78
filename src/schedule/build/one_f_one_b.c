/* 1F1B: a rank runs ahead by its distance from the end, then a forward and a backward in turn. */
#include "schedule/build/builder.h"

static void order(hr__build *b, int rank)
{
    int ahead = hr__min(b->p - 1 - rank, b->m);
    for (int m = 0; m < ahead; m++)
        hr__put(b, rank, HR_ACTION_F, rank, m);
    for (int m = 0; m < b->m; m++) {
        if (m + ahead < b->m)
            hr__put(b, rank, HR_ACTION_F, rank, m + ahead);
        hr__put(b, rank, HR_ACTION_B, rank, m);
    }
}

const hr__builder hr__build_one_f_one_b = {
    .name = "1f1b",
    .about = "one forward, one backward",
    .chunks = 1,
    .order = order,
};
