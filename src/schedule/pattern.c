/* Modulo scheduling on a grid of unit slots: the actions of one microbatch are laid down one after the
 * other, each in the first slot after its input whose place in the period is free on its rank.
 *
 *     rank 0  F . . . . F I W . . . . I W      the period is 6: both chunks' F, I and W
 *     rank 1  . F . . F . . I W . . I W .
 *     rank 2  . . F F . . . . I I W W . .
 */
#include "schedule/pattern.h"

#include <stdlib.h>

enum { PERIOD = 6, ACTIONS = 6 };

typedef struct grid {
    int p;
    bool fused;
    bool (*taken)[PERIOD];    /* [ranks] */
    bool full;                /* there was no place for an action */
    int64_t (*time)[ACTIONS]; /* [ranks] by chunk: F, then I or B, then W */
} grid;

/* The first slot from `at` on with `length` free places; they are taken. */
static int64_t lay(grid *g, int rank, int64_t at, int length)
{
    bool *taken = g->taken[rank];
    for (int k = 0; k < PERIOD; k++, at++) {
        int64_t last = at + length - 1;
        if (taken[at % PERIOD] || taken[last % PERIOD])
            continue;
        taken[at % PERIOD] = taken[last % PERIOD] = true;
        return at;
    }
    g->full = true;
    return at;
}

static void lay_block(grid *g, const hr__steps *s)
{
    int back = g->fused ? 2 : 1;
    int p = g->p;
    int64_t at = 0;
    for (int r = 0; r < p; r++) {
        bool late = s->knot > 0 && (r == s->knot || r == s->knot + 1);
        g->time[r][0] = lay(g, r, at + (late ? 2 : 0), 1);
        at = g->time[r][0] + s->down_f;
    }
    at = g->time[p - 1][0] + 1;
    for (int r = p - 1; r >= 0; r--) {
        g->time[r][1] = lay(g, r, at, 1);
        at = g->time[r][1] + s->up_f;
    }
    at = g->time[0][1] + 1 + s->turn_first;
    for (int r = 0; r < p; r++) {
        g->time[r][3] = lay(g, r, at + (s->knot > 0 && r == s->knot ? 2 : 0), back);
        at = g->time[r][3] + (s->down_b > back ? s->down_b : back);
    }
    at = g->time[p - 1][3] + back + s->turn_last;
    for (int r = p - 1; r >= 0; r--) {
        g->time[r][2] = lay(g, r, at, back);
        at = g->time[r][2] + (s->up_b > back ? s->up_b : back);
    }
    for (int r = 0; r < p && !g->fused; r++) {
        g->time[r][5] = lay(g, r, g->time[r][3] + 1, 1);
        g->time[r][4] = lay(g, r, g->time[r][2] + 1, 1);
    }
}

/* No two actions of a rank start at the same place of the period, so that a slot has one at most. */
static bool unroll(const grid *g, hr_schedule *s, int rank)
{
    static const uint8_t kinds[] = {HR_ACTION_F, HR_ACTION_F, HR_ACTION_I,
                                    HR_ACTION_I, HR_ACTION_W, HR_ACTION_W};
    const int64_t *time = g->time[rank];
    int starts[PERIOD] = {-1, -1, -1, -1, -1, -1}; /* which action does */
    int64_t last = 0;
    for (int k = 0; k < (g->fused ? 4 : ACTIONS); k++) {
        starts[time[k] % PERIOD] = k;
        last = time[k] > last ? time[k] : last;
    }
    last += PERIOD * (int64_t)(s->microbatches - 1);
    for (int64_t at = time[0]; at <= last; at++) {
        int k = starts[at % PERIOD];
        if (k < 0 || at < time[k] || at - time[k] >= PERIOD * (int64_t)s->microbatches)
            continue;
        hr_action a = {.microbatch = (int32_t)((at - time[k]) / PERIOD),
                       .stage = (uint16_t)(k % 2 ? 2 * g->p - 1 - rank : rank),
                       .kind = g->fused && k > 1 ? HR_ACTION_B : kinds[k]};
        if (hr__append(s, rank, &a, 1, false) < 0)
            return false;
    }
    return true;
}

bool hr__pattern_orders(hr_schedule *s, const hr__steps *steps, bool fused)
{
    grid g = {.p = s->ranks, .fused = fused};
    g.taken = calloc((size_t)g.p, sizeof *g.taken);
    g.time = calloc((size_t)g.p, sizeof *g.time);
    bool ok = g.taken && g.time;
    if (ok)
        lay_block(&g, steps);
    for (int r = 0; r < g.p && ok && !g.full; r++)
        ok = unroll(&g, s, r);
    free(g.taken);
    free(g.time);
    return ok;
}
