/* One run of the clock. Ranks that have something to decide stand in a heap by time; a rank without
 * a known input sleeps until one is sent to it. Microbatches go through a stage in order, so
 * that per stage only counts are kept. */
#include "schedule/list_schedule.h"

#include <stdlib.h>
#include <string.h>

typedef struct stage_state {
    int f, i, w; /* done */
    int rank;
} stage_state;

typedef struct rank_state {
    int64_t wake; /* when it decides next; -1: asleep */
    int64_t free; /* end of its last action */
    int act, act_i;
    size_t at; /* the next action of a fixed order */
} rank_state;

typedef struct entry {
    int64_t time;
    int rank;
} entry;

typedef struct clock_run {
    hr_schedule *s;
    const hr__list_rules *rules;
    int64_t *f_at, *b_at; /* [cells] when the input is there, -1 not known */
    stage_state *stage;
    rank_state *rank;
    int *of_rank; /* [stages] the stages of each rank, in order */
    int *first;   /* [ranks + 1] where a rank's stages begin */
    entry *heap;
    size_t heaped, room;
    bool failed;
} clock_run;

static bool before(const entry *a, const entry *b)
{
    return a->time != b->time ? a->time < b->time : a->rank < b->rank;
}

static void push(clock_run *c, int64_t time, int rank)
{
    if (c->heaped == c->room) {
        size_t room = c->room ? 2 * c->room : 64;
        entry *grown = realloc(c->heap, room * sizeof *grown);
        if (grown == NULL) {
            c->failed = true;
            return;
        }
        c->heap = grown;
        c->room = room;
    }
    c->rank[rank].wake = time;
    size_t at = c->heaped++;
    entry e = {time, rank};
    for (; at > 0 && before(&e, &c->heap[(at - 1) / 2]); at = (at - 1) / 2)
        c->heap[at] = c->heap[(at - 1) / 2];
    c->heap[at] = e;
}

static entry pop(clock_run *c)
{
    entry top = c->heap[0];
    entry last = c->heap[--c->heaped];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= c->heaped)
            break;
        if (child + 1 < c->heaped && before(&c->heap[child + 1], &c->heap[child]))
            child++;
        if (!before(&c->heap[child], &last))
            break;
        c->heap[at] = c->heap[child];
        at = child;
    }
    c->heap[at] = last;
    return top;
}

/* An input for a stage becomes known. */
static void tell(clock_run *c, int64_t *at, int from, int to, int64_t made)
{
    int rank = c->stage[to].rank;
    *at = made + (c->stage[from].rank == rank ? 0 : hr__hop(c->s));
    rank_state *q = &c->rank[rank];
    int64_t time = *at > q->free ? *at : q->free;
    if (q->wake < 0 || q->wake > time)
        push(c, time, rank);
}

static void run(clock_run *c, int rank, int kind, int stage, int64_t now)
{
    hr_schedule *s = c->s;
    stage_state *g = &c->stage[stage];
    rank_state *q = &c->rank[rank];
    const hr_stage_cost *cost = &s->cost[stage];
    int64_t again = cost->recompute ? cost->f : 0;
    int *count = kind == HR_ACTION_F ? &g->f : kind == HR_ACTION_W ? &g->w : &g->i;
    int m = (*count)++;
    hr_action a = {.microbatch = m, .stage = (uint16_t)stage, .kind = (uint8_t)kind};
    c->failed |= hr__append(s, rank, &a, 1, false) < 0;
    size_t cell = hr__cell(s, stage, m);
    size_t row = (size_t)s->microbatches;
    bool back = kind == HR_ACTION_I || kind == HR_ACTION_B;
    int64_t lasts = kind == HR_ACTION_F   ? cost->f
                    : kind == HR_ACTION_W ? cost->w
                    : kind == HR_ACTION_I ? cost->i + again
                                          : cost->i + again + cost->w;
    q->free = now + lasts;
    q->act += (kind == HR_ACTION_F) - (kind == HR_ACTION_W || kind == HR_ACTION_B);
    q->act_i += (kind == HR_ACTION_F) - back;
    g->w += kind == HR_ACTION_B;
    q->wake = -1;
    push(c, q->free, rank);
    if (kind == HR_ACTION_F && stage + 1 < s->stages)
        tell(c, &c->f_at[cell + row], stage, stage + 1, q->free);
    else if (kind == HR_ACTION_F)
        c->b_at[cell] = q->free;
    else if (back && stage > 0)
        tell(c, &c->b_at[cell - row], stage, stage - 1, q->free);
}

/* A forward must leave a place for each later chunk of the rank, so that what is there can always
 * go on to the end. */
static bool has_room(const clock_run *c, int rank, int later)
{
    const rank_state *q = &c->rank[rank];
    return q->act + later < c->rules->limit &&
           (c->rules->limit_i == 0 || q->act_i + later < c->rules->limit_i);
}

typedef struct choice {
    int stage;      /* the most urgent that is ready; -1 none */
    int64_t coming; /* the earliest input that is not yet there; INT64_MAX none */
} choice;

static void consider(choice *x, int stage, int64_t at, int64_t now, bool first)
{
    if (at < 0)
        return;
    if (at > now) {
        x->coming = at < x->coming ? at : x->coming;
        return;
    }
    if (x->stage < 0 || !first)
        x->stage = stage;
}

static choice choose(const clock_run *c, int rank, bool back, int64_t now)
{
    choice x = {-1, INT64_MAX};
    int from = c->first[rank];
    int to = c->first[rank + 1];
    for (int k = from; k < to; k++) {
        int stage = c->of_rank[k];
        const stage_state *g = &c->stage[stage];
        int m = back ? g->i : g->f;
        if (m == c->s->microbatches)
            continue;
        size_t cell = hr__cell(c->s, stage, m);
        if (back)
            consider(&x, stage, c->b_at[cell], now, c->rules->first_back);
        else if (has_room(c, rank, to - 1 - k))
            consider(&x, stage, c->f_at[cell], now, c->rules->first_in);
    }
    return x;
}

/* The stage with the oldest weight gradient that was put off. */
static int weight_of(const clock_run *c, int rank)
{
    int best = -1;
    for (int k = c->first[rank]; k < c->first[rank + 1]; k++) {
        int stage = c->of_rank[k];
        const stage_state *g = &c->stage[stage];
        if (g->w < g->i && (best < 0 || g->w < c->stage[best].w))
            best = stage;
    }
    return best;
}

/* The next forward or backward of the order that is kept, into one of the two choices. */
static void next_fixed(clock_run *c, int rank, int64_t now, choice *f, choice *back)
{
    const hr__order *o = &c->rules->fixed->order[rank];
    size_t *at = &c->rank[rank].at;
    *f = *back = (choice){-1, INT64_MAX};
    while (*at < o->n && o->a[*at].kind == HR_ACTION_W)
        (*at)++;
    if (*at == o->n)
        return;
    const hr_action *a = &o->a[*at];
    size_t cell = hr__cell(c->s, a->stage, a->microbatch);
    if (a->kind != HR_ACTION_F)
        consider(back, a->stage, c->b_at[cell], now, true);
    else if (has_room(c, rank, 0))
        consider(f, a->stage, c->f_at[cell], now, true);
    *at += f->stage >= 0 || back->stage >= 0;
}

static void decide(clock_run *c, int rank, int64_t now)
{
    int whole = c->rules->fused ? HR_ACTION_B : HR_ACTION_I;
    choice f = {-1, INT64_MAX};
    choice back = f;
    if (c->rules->fixed != NULL) {
        next_fixed(c, rank, now, &f, &back);
    } else {
        f = choose(c, rank, false, now);
        back = choose(c, rank, true, now);
    }
    c->rank[rank].wake = -1;
    if (f.stage >= 0 && (back.stage < 0 || c->rules->push)) {
        run(c, rank, HR_ACTION_F, f.stage, now);
        return;
    }
    if (back.stage >= 0) {
        run(c, rank, whole, back.stage, now);
        return;
    }
    int64_t coming = f.coming < back.coming ? f.coming : back.coming;
    int w = weight_of(c, rank);
    if (w >= 0 &&
        (!c->rules->wait || coming == INT64_MAX || now + c->s->cost[w].w <= coming))
        run(c, rank, HR_ACTION_W, w, now);
    else if (coming != INT64_MAX)
        push(c, coming, rank);
}

static bool prepare(clock_run *c)
{
    const hr_schedule *s = c->s;
    size_t cells = hr__cells(s);
    c->f_at = malloc(cells * sizeof *c->f_at);
    c->b_at = malloc(cells * sizeof *c->b_at);
    c->stage = calloc((size_t)s->stages, sizeof *c->stage);
    c->rank = calloc((size_t)s->ranks, sizeof *c->rank);
    c->of_rank = malloc((size_t)s->stages * sizeof *c->of_rank);
    c->first = calloc((size_t)s->ranks + 2, sizeof *c->first);
    if (!c->f_at || !c->b_at || !c->stage || !c->rank || !c->of_rank || !c->first)
        return false;
    memset(c->f_at, 0xff, cells * sizeof *c->f_at);
    memset(c->b_at, 0xff, cells * sizeof *c->b_at);
    memset(c->f_at, 0, (size_t)s->microbatches * sizeof *c->f_at);
    for (int i = 0; i < s->stages; i++) { /* a counting sort by rank */
        c->stage[i].rank = s->owner[i];
        c->first[s->owner[i] + 2]++;
    }
    for (int r = 0; r < s->ranks; r++)
        c->first[r + 1] += c->first[r];
    for (int i = 0; i < s->stages; i++)
        c->of_rank[c->first[s->owner[i] + 1]++] = i;
    return true;
}

bool hr__list_schedule(hr_schedule *s, const hr__list_rules *rules)
{
    clock_run c = {.s = s, .rules = rules};
    bool ok = prepare(&c);
    for (int r = s->ranks - 1; ok && r >= 0; r--)
        push(&c, 0, r);
    while (ok && c.heaped > 0 && !c.failed) {
        entry e = pop(&c);
        if (c.rank[e.rank].wake == e.time) /* else it was woken earlier */
            decide(&c, e.rank, e.time);
    }
    free(c.f_at);
    free(c.b_at);
    free(c.stage);
    free(c.rank);
    free(c.of_rank);
    free(c.first);
    free(c.heap);
    return ok && !c.failed;
}
