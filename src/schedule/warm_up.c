/* The forwards ahead are counted for each rank, then laid down slot by slot, the second chunk's
 * first; behind them comes what is left of the orders. */
#include "schedule/warm_up.h"

#include <stdlib.h>

typedef struct quota {
    int want[2]; /* forwards ahead, by chunk */
    int done[2];
    int come[2]; /* that have come from the rank before, at the end of the last slot */
} quota;

static int min(int a, int b)
{
    return a < b ? a : b;
}

static int chunk_of(const hr_schedule *s, const hr_action *a)
{
    return a->stage >= s->ranks;
}

static int own_lead(const hr_schedule *s, int rank)
{
    const hr__order *o = &s->order[rank];
    int n = 0;
    for (size_t i = 0; i < o->n && o->a[i].kind == HR_ACTION_F; i++)
        n += chunk_of(s, &o->a[i]);
    return n;
}

static void count(const hr_schedule *s, int rank, int limit, hr__lead lead, quota *q)
{
    int up = lead == HR__LEAD_OWN     ? own_lead(s, rank)
             : lead == HR__LEAD_SPLIT ? rank + 1
                                      : (3 * rank + 2) / 2;
    int first = min(limit - min(up, limit / 2), s->microbatches);
    *q = (quota){.want = {first, min(limit - first, min(up, first))}};
}

/* One slot of all ranks, from the counts at the end of the one before. False if nothing ran. */
static bool slot(hr_schedule *to, quota *q)
{
    int p = to->ranks;
    bool ran = false;
    for (int r = 0; r < p; r++) {
        q[r].come[0] = r > 0 ? q[r - 1].done[0] : q[r].want[0];
        q[r].come[1] = r < p - 1 ? q[r + 1].done[1] : q[r].done[0];
    }
    for (int r = 0; r < p; r++) {
        for (int c = 1; c >= 0; c--) {
            if (q[r].done[c] == min(q[r].want[c], q[r].come[c]))
                continue;
            hr_action a = {.microbatch = q[r].done[c]++,
                           .stage = (uint16_t)(c ? 2 * p - 1 - r : r),
                           .kind = HR_ACTION_F};
            if (hr__append(to, r, &a, 1, false) < 0)
                return false;
            ran = true;
            break;
        }
    }
    return ran;
}

bool hr__warm_up(const hr_schedule *from, int limit, hr__lead lead, hr_schedule *to)
{
    quota *q = calloc((size_t)from->ranks, sizeof *q);
    if (q == NULL)
        return false;
    for (int r = 0; r < from->ranks; r++)
        count(from, r, limit, lead, &q[r]);
    while (slot(to, q))
        ;
    bool ok = true;
    for (int r = 0; r < from->ranks; r++) {
        const hr__order *o = &from->order[r];
        for (size_t i = 0; i < o->n && ok; i++) {
            const hr_action *a = &o->a[i];
            if (a->kind != HR_ACTION_F || a->microbatch >= q[r].done[chunk_of(from, a)])
                ok = hr__append(to, r, a, 1, false) >= 0;
        }
    }
    free(q);
    return ok;
}
