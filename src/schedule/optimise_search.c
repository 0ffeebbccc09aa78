/* Threshold accepting: a random change is kept if it makes the draft no worse than by a threshold, which
 * sinks to nothing; then it starts again from the best so far. All in whole numbers, so that a
 * seed gives the same on every machine. */
#include "schedule/optimise_search.h"

#include "base/try.h" /* HR_TRY */
#include "schedule/optimise_moves.h"

enum {
    ROUND = 12000, /* steps from the first threshold to nothing */
    HOT = 25       /* the first threshold: percent of a slot */
};

typedef struct search {
    hr__goal *g;
    hr__draft draft, best;
    hr__mover mover;
    hr__runner *runner;
    hr__worth now, least;
    int64_t bound;
    int64_t slot; /* mean length of a forward or a backward */
} search;

static bool less(const hr__worth *a, const hr__worth *b)
{
    return a->makespan != b->makespan ? a->makespan < b->makespan : a->ends < b->ends;
}

/* A makespan weighs as much as all ranks together. */
static int64_t weigh(const search *s, const hr__worth *w)
{
    return w->makespan * s->draft.of->ranks + w->ends;
}

static void step(search *s, int64_t threshold)
{
    int64_t ranks = s->draft.of->ranks;
    int64_t most = weigh(s, &s->now) + threshold;
    hr__worth w;
    hr__move(&s->mover);
    if (s->mover.n_changed == 0)
        return;
    if (!hr__run_draft(s->runner, &s->draft, most / ranks, &w) || weigh(s, &w) > most) {
        hr__move_back(&s->mover);
        return;
    }
    s->now = w;
    if (less(&w, &s->least)) {
        s->least = w;
        s->g->least = w.makespan < s->g->least ? w.makespan : s->g->least;
        hr__draft_copy(&s->best, &s->draft);
    }
}

static void run_round(search *s, int64_t steps)
{
    int64_t hot = s->slot * s->draft.of->ranks * HOT / 100;
    hr__draft_copy(&s->draft, &s->best);
    s->now = s->least;
    for (int64_t k = 0; k < steps && s->least.makespan > s->bound; k++) {
        if (!hr__goal_step(s->g))
            return;
        int64_t threshold = hot * (steps - k) / steps;
        step(s, threshold > 0 ? hr__roll(&s->mover.dice, threshold + 1) : 0);
    }
}

/* The start: weight gradients where they are, or all in gaps, whichever is better. */
static hr_status begin(search *s, const hr_schedule *from, hr__draft_rules rules)
{
    HR_TRY(hr__draft_init(&s->draft, from, &rules));
    HR_TRY(hr__draft_init(&s->best, from, &rules));
    HR_TRY(hr__mover_init(&s->mover, &s->draft, from, &rules, s->g->o.seed));
    hr__limits limits = hr__goal_limits(s->g, from);
    HR_TRY(hr__runner_create(&s->draft, &limits, &s->runner));
    s->least.makespan = INT64_MAX;
    for (int pinned = 0; pinned < 2; pinned++) {
        hr__draft again;
        rules.pinned = pinned > 0;
        HR_TRY(hr__draft_init(&again, from, &rules));
        if (hr__run_draft(s->runner, &again, INT64_MAX, &s->now) &&
            less(&s->now, &s->least)) {
            s->least = s->now;
            hr__draft_copy(&s->best, &again);
        }
        hr__draft_fini(&again);
    }
    return HR_OK;
}

/* What no order of the draft's actions can be below. */
static hr_status find_bound(search *s)
{
    hr_schedule *made = NULL;
    hr__worth w;
    s->bound = INT64_MAX; /* there is nothing to start from: no step is made */
    if (!hr__run_draft(s->runner, &s->best, INT64_MAX, &w))
        return HR_OK;
    HR_TRY(hr__runner_schedule(s->runner, &made));
    hr_status st = hr_schedule_bound(made, &s->bound);
    hr_schedule_destroy(made);
    return st;
}

static int64_t mean_slot(const hr_schedule *s)
{
    int64_t sum = 0;
    for (int k = 0; k < s->stages; k++)
        sum += (s->cost[k].f + s->cost[k].i) / 2 / s->stages;
    return sum;
}

static hr_status take_best(search *s, int64_t before, hr_schedule **out)
{
    hr__worth w;
    if (s->least.makespan >= before ||
        !hr__run_draft(s->runner, &s->best, INT64_MAX, &w))
        return HR_OK;
    return hr__runner_schedule(s->runner, out);
}

hr_status hr__search(hr__goal *g, const hr_schedule *from, int64_t before,
                     int64_t steps, hr_schedule **out)
{
    search s = {.g = g, .slot = mean_slot(from)};
    hr__draft_rules rules = {.split = !g->o.whole_backward,
                             .pairs = from->pair_discount > 0};
    *out = NULL;
    hr_status st = begin(&s, from, rules);
    if (st >= 0)
        st = find_bound(&s);
    for (int64_t left = steps;
         st >= 0 && left > 0 && s.least.makespan > s.bound && !g->stopped;
         left -= ROUND)
        run_round(&s, left < ROUND ? left : ROUND);
    if (st >= 0)
        st = take_best(&s, before, out);
    hr__runner_destroy(s.runner);
    hr__mover_fini(&s.mover);
    hr__draft_fini(&s.best);
    hr__draft_fini(&s.draft);
    return st;
}
