/* A clock in slots: a whole backward takes two, all else one. Each rank has what is left of its
 * order of the pattern as a list. Microbatches go through a stage in order, so that counts say what
 * is there; and a rank only has to look when it, or a neighbour on the V, has ended something. */
#include "schedule/warm_up.h"

#include <stdlib.h>

enum {
    WINDOW = 48, /* how far down its list a rank looks: several periods */
    SLOTS = 3,   /* of which an action that runs now may end in one */
};

/* Kinds by chunk, as bits. */
enum { F0 = 1, F1 = 2, B0 = 4, B1 = 8, W0 = 16, W1 = 32 };

/* What may overtake until a rank has done `settled` backwards of its first chunk, and what then. */
static const struct rhythm {
    unsigned early, late;
    int settled;
} rhythms[2] = {{B0 | B1, 0, 2}, {F0 | F1 | B1, F0, 1}}; /* split, whole */

typedef struct lane {
    const hr__order *from;
    int *
        next; /* [from->n + 1] what follows in the list; 0 the head, action i is i + 1 */
    int f[2]; /* forwards started, by chunk */
    int ended_f[2], ended_b[2];
    int want[2]; /* forwards ahead of the first backward */
    int act;
    hr_action now; /* what it does, while it `runs` */
    bool runs;
} lane;

typedef struct run {
    hr_schedule *to;
    const hr__warm *how;
    lane *lane;
    int p, m;         /* of the pattern */
    int *busy[SLOTS]; /* ranks whose action ends in a slot */
    int n_busy[SLOTS];
    bool failed;
} run;

static int chunk_of(const run *c, const hr_action *a)
{
    return a->stage >= c->p;
}

static bool is_back(const hr_action *a)
{
    return a->kind == HR_ACTION_I || a->kind == HR_ACTION_B;
}

static unsigned bit_of(const run *c, const hr_action *a)
{
    int chunk = chunk_of(c, a);
    if (a->kind == HR_ACTION_F)
        return chunk ? F1 : F0;
    if (is_back(a))
        return chunk ? B1 : B0;
    return chunk ? W1 : W0;
}

static bool ready(const run *c, int rank, const hr_action *a)
{
    const lane *l = &c->lane[rank];
    int chunk = chunk_of(c, a);
    int m = a->microbatch;
    if (a->kind == HR_ACTION_W)
        return l->ended_b[chunk] > m;
    if (a->kind == HR_ACTION_F && chunk == 0)
        return rank == 0 || l[-1].ended_f[0] > m;
    if (a->kind == HR_ACTION_F)
        return (rank == c->p - 1 ? l->ended_f[0] : l[1].ended_f[1]) > m;
    if (l->ended_f[chunk] <= m)
        return false;
    if (chunk == 1)
        return rank == 0 || l[-1].ended_b[1] > m;
    return (rank == c->p - 1 ? l->ended_b[1] : l[1].ended_b[0]) > m;
}

static void start(run *c, int rank, const hr_action *a, int64_t slot)
{
    lane *l = &c->lane[rank];
    int ends = (int)((slot + (a->kind == HR_ACTION_B ? 2 : 1)) % SLOTS);
    l->now = *a;
    l->runs = true;
    l->act += a->kind == HR_ACTION_F ? 1 : a->kind == HR_ACTION_I ? 0 : -1;
    if (a->kind == HR_ACTION_F)
        l->f[chunk_of(c, a)]++;
    c->busy[ends][c->n_busy[ends]++] = rank;
    if (a->microbatch < c->to->microbatches)
        c->failed |= hr__append(c->to, rank, a, 1, false) < 0;
}

/* The forwards ahead: of those that are there the second chunk's first. */
static const hr_action *next_ahead(const run *c, int rank, hr_action *room)
{
    const lane *l = &c->lane[rank];
    for (int chunk = 1; chunk >= 0; chunk--) {
        *room = (hr_action){.kind = HR_ACTION_F,
                            .stage = (uint16_t)(chunk ? 2 * c->p - 1 - rank : rank),
                            .microbatch = l->f[chunk]};
        if (l->f[chunk] < l->want[chunk] && ready(c, rank, room))
            return room;
    }
    return NULL;
}

/* Where in the list the action stands that comes next: the place before it; -1 nowhere. */
static int choose(const run *c, int rank)
{
    const lane *l = &c->lane[rank];
    const struct rhythm *how = &rhythms[c->how->fused];
    bool drains = l->f[0] + l->f[1] == 2 * c->m;
    unsigned may = !drains && l->ended_b[0] >= how->settled ? how->late : how->early;
    unsigned seen = 0;
    int weight = -1;
    int act = l->act;
    int most = act; /* held until then */
    int before = 0;
    for (int k = 0; k < WINDOW && l->next[before] > 0; k++) {
        const hr_action *a = &l->from->a[l->next[before] - 1];
        unsigned bit = bit_of(c, a);
        bool room = a->kind != HR_ACTION_F || most < c->how->limit;
        if (!(seen & bit) && (k == 0 || (may & bit)) && room && ready(c, rank, a)) {
            if (a->kind != HR_ACTION_W || !drains)
                return before;
            weight = before;
        }
        seen |= bit;
        act += a->kind == HR_ACTION_F ? 1 : a->kind == HR_ACTION_I ? 0 : -1;
        most = act > most ? act : most;
        before = l->next[before];
    }
    return weight;
}

static void decide(run *c, int rank, int64_t slot)
{
    lane *l = &c->lane[rank];
    if (l->f[0] < l->want[0] || l->f[1] < l->want[1]) {
        hr_action ahead;
        const hr_action *a = next_ahead(c, rank, &ahead);
        if (a != NULL)
            start(c, rank, a, slot);
        return;
    }
    int before = choose(c, rank);
    if (before < 0)
        return;
    int at = l->next[before];
    const hr_action *a = &l->from->a[at - 1];
    l->next[before] = l->next[at];
    start(c, rank, a, slot);
}

/* Ends what ends in this slot; *n ranks in `look` may then have something to start. */
static void end(run *c, int now, int *look, int *n)
{
    for (int k = 0; k < c->n_busy[now]; k++) {
        int rank = c->busy[now][k];
        lane *l = &c->lane[rank];
        int chunk = chunk_of(c, &l->now);
        l->runs = false;
        l->ended_f[chunk] += l->now.kind == HR_ACTION_F;
        l->ended_b[chunk] += is_back(&l->now);
        for (int r = rank - 1; r <= rank + 1; r++)
            if (r >= 0 && r < c->p)
                look[(*n)++] = r;
    }
    c->n_busy[now] = 0;
}

static void go(run *c, int *look)
{
    int n = c->p;
    for (int r = 0; r < n; r++)
        look[r] = r;
    for (int64_t slot = 0; n > 0 && !c->failed; slot++) {
        for (int k = 0; k < n; k++)
            if (!c->lane[look[k]].runs)
                decide(c, look[k], slot);
        n = 0;
        end(c, (int)((slot + 1) % SLOTS), look, &n);
        if (n == 0 && c->n_busy[(slot + 2) % SLOTS] > 0)
            end(c, (int)((++slot + 1) % SLOTS), look, &n);
    }
}

/* The forwards ahead are as many of each chunk as the pattern would have among its first ones, but
 * no more of the second chunk than reach the rank before its first backward does, if a forward
 * of the last rank comes every second slot. */
static void count_ahead(const run *c, int rank)
{
    lane *l = &c->lane[rank];
    int reach = c->how->fused ? (3 * rank + 2) / 2 : rank + 1;
    int left = c->how->room;
    int second = 0;
    for (size_t i = 0; i < l->from->n && left > 0; i++) {
        if (l->from->a[i].kind != HR_ACTION_F)
            continue;
        second += chunk_of(c, &l->from->a[i]);
        left--;
    }
    second = second < reach ? second : reach;
    int first = c->how->room - second;
    l->want[0] = first < c->m ? first : c->m;
    l->want[1] = second < l->want[0] ? second : l->want[0];
}

static bool prepare(run *c, const hr_schedule *pattern)
{
    for (int k = 0; k < SLOTS; k++)
        if ((c->busy[k] = malloc((size_t)c->p * sizeof *c->busy[k])) == NULL)
            return false;
    for (int r = 0; r < c->p; r++) {
        lane *l = &c->lane[r];
        l->from = &pattern->order[r];
        l->next = malloc((l->from->n + 1) * sizeof *l->next);
        if (l->next == NULL)
            return false;
        count_ahead(c, r);
        int last = 0;
        for (size_t i = 0; i < l->from->n; i++) {
            const hr_action *a = &l->from->a[i];
            if (a->kind == HR_ACTION_F && a->microbatch < l->want[chunk_of(c, a)])
                continue;
            l->next[last] = (int)i + 1;
            last = (int)i + 1;
        }
        l->next[last] = 0;
    }
    return true;
}

bool hr__warm_up(const hr_schedule *pattern, const hr__warm *how, hr_schedule *to)
{
    run c = {.to = to, .how = how, .p = to->ranks, .m = pattern->microbatches};
    int *look = malloc(3 * (size_t)c.p * sizeof *look);
    c.lane = calloc((size_t)c.p, sizeof *c.lane);
    bool ok = look && c.lane && prepare(&c, pattern);
    if (ok)
        go(&c, look);
    for (int r = 0; c.lane && r < c.p; r++)
        free(c.lane[r].next);
    for (int k = 0; k < SLOTS; k++)
        free(c.busy[k]);
    free(c.lane);
    free(look);
    return ok && !c.failed;
}
