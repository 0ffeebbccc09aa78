/* Grouped interleaved with split backwards: groups may be smaller than the ring of ranks, for less
 * memory. Everything is laid out on a clock on which a rank's forwards and backwards take turns;
 * results move on one tick a rank. A block is the forwards, or the backwards, of one chunk
 * for one group: 2 x group ticks. A group's blocks of two chunks in a row are as many blocks
 * apart as the way around the ring takes, and then as it takes to find a turn, of as many as
 * there are chunks, that no other chunk has. Each weight gradient follows its backward. */
#include "schedule/build/builder.h"

#include "headrace/base.h" /* hr_fail */

#include <stdlib.h>

typedef struct turns {
    int *start; /* [chunks] in which block, from its group's first, a chunk runs */
    int *chunk; /* [chunks] whose turn it is, by block mod chunks */
} turns;

static void defaults(hr_generate_opts *o)
{
    if (o->group == 0)
        o->group = hr__min(o->ranks, o->microbatches);
}

static void find_turns(turns *t, const hr__build *b)
{
    int64_t length = 2 * (int64_t)b->o.group;
    int around = (int)((b->p + length - 1) / length);
    int at = 0;
    for (int c = 0; c < b->v; c++)
        t->chunk[c] = -1;
    for (int c = 0; c < b->v; c++) {
        while (t->chunk[at % b->v] >= 0)
            at++;
        t->chunk[at % b->v] = c;
        t->start[c] = at;
        at += around;
    }
}

/* The next turn of the forwards, or of the backwards, which visit the chunks from the last. False
 * if nobody has it; then nor has anybody the rest of the block. */
static bool turn(const hr__build *b, const turns *t, int64_t *k, int *place,
                 int *microbatch)
{
    int64_t block = *k / b->o.group;
    *place = t->chunk[block % b->v];
    int64_t m =
        (block - t->start[*place]) / b->v * b->o.group + *k - block * b->o.group;
    bool yes = block >= t->start[*place] && m < b->m;
    *k = yes ? *k + 1 : (block + 1) * b->o.group;
    *microbatch = (int)(yes ? m : -1);
    return yes;
}

static void rank_order(hr__build *b, int rank, const turns *t)
{
    int64_t f = 0;
    int64_t back = 0;
    int64_t behind = (int64_t)t->start[b->v - 1] * b->o.group; /* the first backward */
    int left = b->m * b->v;
    while (left > 0 && b->st >= 0) {
        int place = 0;
        int m = 0;
        /* the tick of forward f, and of the backward */
        if (2 * f + rank < 2 * (back + behind + b->p) - 1 - rank) {
            if (turn(b, t, &f, &place, &m))
                hr__put(b, rank, HR_ACTION_F, place * b->p + rank, m);
        } else if (turn(b, t, &back, &place, &m)) {
            int stage = (b->v - 1 - place) * b->p + rank;
            hr__put(b, rank, HR_ACTION_I, stage, m);
            hr__put(b, rank, HR_ACTION_W, stage, m);
            left--;
        }
    }
}

static void orders(hr__build *b)
{
    size_t v = (size_t)b->v;
    turns t = {calloc(v, sizeof *t.start), calloc(v, sizeof *t.chunk)};
    if (t.start == NULL || t.chunk == NULL) {
        b->st =
            hr_fail(HR_ERR_NOMEM, NULL, "no memory for the turns of %d chunks", b->v);
    } else {
        find_turns(&t, b);
        for (int r = 0; r < b->p; r++)
            rank_order(b, r, &t);
    }
    free(t.start);
    free(t.chunk);
}

const hr__builder hr__build_grouped = {
    .name = "grouped",
    .about = "interleaved in groups of any size, with split backwards",
    .defaults = defaults,
    .orders = orders,
};
