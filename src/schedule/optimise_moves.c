/* What a search changes. Schedules repeat from microbatch to microbatch, so a change is as a rule made in
 * all of them, or in a range of them, at once: one alone seldom pays before the others follow. */
#include "schedule/optimise_moves.h"

#include "base/try.h" /* HR_TRY */

#include <stdlib.h>
#include <string.h>

enum {
    NEAR = 3,      /* places that a turn moves, as a rule */
    FAR = 16,      /* now and then */
    MOST_PINS = 2, /* weight gradients behind a turn */
};

/* The same action in a range of microbatches. */
typedef struct kin {
    int stage;
    bool backward;
    int from, to; /* microbatches, the last included */
} kin;

/* SplitMix64, from its published definition. */
int64_t hr__roll(uint64_t *dice, int64_t n)
{
    uint64_t x = *dice += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    x ^= x >> 31;
    return (int64_t)(x % (uint64_t)n);
}

hr_status hr__mover_init(hr__mover *m, hr__draft *d, const hr_schedule *s,
                         const hr__draft_rules *rules, uint64_t seed)
{
    *m = (hr__mover){
        .d = d, .pairs = rules->pairs, .weights = rules->split, .dice = seed};
    HR_TRY(hr__draft_init(&m->old, s, rules));
    m->changed = calloc((size_t)s->ranks, sizeof *m->changed);
    if (m->changed != NULL)
        return HR_OK;
    hr__draft_fini(&m->old);
    return hr_fail(HR_ERR_NOMEM, NULL, "no memory for changes of %d ranks", s->ranks);
}

void hr__mover_fini(hr__mover *m)
{
    hr__draft_fini(&m->old);
    free(m->changed);
}

static void copy_line(hr__line *to, const hr__line *from)
{
    memcpy(to->turn, from->turn, (size_t)from->n * sizeof *to->turn);
    to->n = from->n;
    to->slack = from->slack;
}

/* Before a line is changed. */
static hr__line *open_line(hr__mover *m, int rank)
{
    for (int k = 0; k < m->n_changed; k++)
        if (m->changed[k] == rank)
            return &m->d->line[rank];
    m->changed[m->n_changed++] = rank;
    copy_line(&m->old.line[rank], &m->d->line[rank]);
    return &m->d->line[rank];
}

void hr__move_back(hr__mover *m)
{
    while (m->n_changed > 0) {
        int rank = m->changed[--m->n_changed];
        copy_line(&m->d->line[rank], &m->old.line[rank]);
    }
}

static bool is_kin(const hr__turn *t, const kin *k)
{
    for (int i = 0; i < t->n; i++)
        if (t->a[i].stage == k->stage && t->a[i].microbatch >= k->from &&
            t->a[i].microbatch <= k->to && (t->a[i].kind != HR_ACTION_F) == k->backward)
            return true;
    return false;
}

static void move_turn(hr__line *line, int from, int to)
{
    hr__turn t = line->turn[from];
    if (from < to)
        memmove(&line->turn[from], &line->turn[from + 1],
                (size_t)(to - from) * sizeof t);
    else
        memmove(&line->turn[to + 1], &line->turn[to], (size_t)(from - to) * sizeof t);
    line->turn[to] = t;
}

/* By `places`, later or (below 0) earlier. Goes through the line against the direction, so that
 * none is met twice. */
static void shift(hr__line *line, const kin *k, int places)
{
    for (int j = 0; j < line->n; j++) {
        int at = places > 0 ? line->n - 1 - j : j;
        int to = at + places;
        to = to < 0 ? 0 : to >= line->n ? line->n - 1 : to;
        if (is_kin(&line->turn[at], k))
            move_turn(line, at, to);
    }
}

static int any_rank(hr__mover *m)
{
    return (int)hr__roll(&m->dice, m->d->of->ranks);
}

/* A turn of the line and some of its kin; false if the line is empty. */
static bool any_kin(hr__mover *m, const hr__line *line, kin *out)
{
    if (line->n == 0)
        return false;
    const hr__turn *t = &line->turn[hr__roll(&m->dice, line->n)];
    const hr_action *a = &t->a[hr__roll(&m->dice, t->n)];
    int last = m->d->of->microbatches - 1;
    *out = (kin){a->stage, a->kind != HR_ACTION_F, 0, last};
    switch (hr__roll(&m->dice, 6)) {
    case 0:
        out->from = out->to = a->microbatch;
        break;
    case 1:
        out->from = a->microbatch;
        break;
    case 2:
        out->to = a->microbatch;
        break;
    default:
        break;
    }
    return true;
}

static int any_places(hr__mover *m)
{
    int most = hr__roll(&m->dice, 8) == 0 ? FAR : NEAR;
    int places = 1 + (int)hr__roll(&m->dice, most);
    return hr__roll(&m->dice, 2) ? places : -places;
}

static void shift_on_one_rank(hr__mover *m)
{
    int rank = any_rank(m);
    kin k;
    if (any_kin(m, &m->d->line[rank], &k))
        shift(open_line(m, rank), &k, any_places(m));
}

/* A chunk as a whole, or a stretch of it: its stages on neighbouring ranks. */
static void shift_on_many(hr__mover *m)
{
    const hr_schedule *s = m->d->of;
    kin k;
    if (!any_kin(m, &m->d->line[any_rank(m)], &k))
        return;
    int first = k.stage / s->ranks * s->ranks;
    int last = first + s->ranks - 1 < s->stages ? first + s->ranks - 1 : s->stages - 1;
    int low = first + (int)hr__roll(&m->dice, k.stage - first + 1);
    int high = k.stage + (int)hr__roll(&m->dice, last - k.stage + 1);
    int places = any_places(m);
    for (k.stage = low; k.stage <= high; k.stage++) {
        int rank = hr__owner(s, k.stage, k.from);
        shift(open_line(m, rank), &k, places);
    }
}

static void pin(hr__mover *m)
{
    int rank = any_rank(m);
    kin k;
    if (!any_kin(m, &m->d->line[rank], &k))
        return;
    uint8_t pins = (uint8_t)hr__roll(&m->dice, MOST_PINS + 1);
    hr__line *line = open_line(m, rank);
    for (int i = 0; i < line->n; i++)
        if (is_kin(&line->turn[i], &k))
            line->turn[i].pins = pins;
}

static void slacken(hr__mover *m)
{
    int slack = 25 * (int)hr__roll(&m->dice, 5);
    int from = any_rank(m);
    int to = hr__roll(&m->dice, 2) ? from : m->d->of->ranks - 1;
    for (int r = from; r <= to; r++)
        open_line(m, r)->slack = slack;
}

static bool can_pair(const hr__turn *t, const hr__turn *u)
{
    return t->n == 1 && u->n == 1 && t->a[0].microbatch != u->a[0].microbatch &&
           (t->a[0].kind == HR_ACTION_F) != (u->a[0].kind == HR_ACTION_F);
}

static void join(hr__line *line, int at)
{
    hr__turn *t = &line->turn[at];
    bool forward_first = t->a[0].kind == HR_ACTION_F;
    t->a[1] = forward_first ? t[1].a[0] : t->a[0];
    t->a[0] = forward_first ? t->a[0] : t[1].a[0];
    t->n = 2;
    t->pins = (uint8_t)(t->pins + t[1].pins);
    line->n--;
    memmove(t + 1, t + 2, (size_t)(line->n - at - 1) * sizeof *t);
}

static void part(hr__line *line, int at)
{
    hr__turn *t = &line->turn[at];
    memmove(t + 2, t + 1, (size_t)(line->n - at - 1) * sizeof *t);
    line->n++;
    t[1] = (hr__turn){.a = {t->a[1]}, .n = 1, .pins = t->pins};
    t->n = 1;
    t->pins = 0;
}

static void pair(hr__mover *m)
{
    int rank = any_rank(m);
    kin k;
    if (!any_kin(m, &m->d->line[rank], &k))
        return;
    bool joins = hr__roll(&m->dice, 2) == 0;
    hr__line *line = open_line(m, rank);
    for (int i = 0; i < line->n; i++) {
        if (!is_kin(&line->turn[i], &k))
            continue;
        if (!joins && line->turn[i].n > 1)
            part(line, i++);
        else if (joins && i + 1 < line->n &&
                 can_pair(&line->turn[i], &line->turn[i + 1]))
            join(line, i);
    }
}

void hr__move(hr__mover *m)
{
    m->n_changed = 0;
    int64_t what = hr__roll(&m->dice, 16);
    if (what < 2 && m->weights)
        pin(m);
    else if (what == 2 && m->weights)
        slacken(m);
    else if (what < 5 && m->pairs)
        pair(m);
    else if (what < 8)
        shift_on_many(m);
    else
        shift_on_one_rank(m);
}
