/* Orders on a V: repeated patterns, from short-lived activations to long-lived ones, as they are or
 * with a fuller start, with the weight gradients where the pattern has them or put off into
 * gaps; and list schedules. The best within the limit is taken. */
#include "schedule/build/v_orders.h"

#include "schedule/best.h"
#include "schedule/list_schedule.h"
#include "schedule/pattern.h"
#include "schedule/peaks.h"
#include "schedule/warm_up.h"

hr__answer hr__v_takes(const hr_generate_opts *o)
{
    return o->max_act >= 2 ? HR__YES : HR__NO;
}

static bool fits(const hr_schedule *s, int limit)
{
    for (int r = 0; r < s->ranks; r++) {
        hr_rank_figures g;
        hr__peaks(s, r, &g);
        if (g.peak_act > limit)
            return false;
    }
    return true;
}

/* The pattern's order of forwards and backwards, weight gradients in its gaps. */
static void refill(hr__build *b, const hr_schedule *pattern)
{
    for (int wait = 0; wait < 2 && b->st >= 0; wait++) {
        hr_schedule *s = NULL;
        hr__list_rules rules = {
            .limit = b->o.max_act, .wait = wait != 0, .fixed = pattern};
        b->st = hr__like(b->s, &s);
        bool runs = b->st >= 0 && hr__list_schedule(s, &rules) &&
                    hr_schedule_actions(s) == hr_schedule_actions(pattern);
        if (runs)
            hr__keep_better(b, s);
        else
            hr_schedule_destroy(s);
    }
}

void hr__v_try(hr__build *b, hr_schedule *s, bool fused)
{
    if (!fits(s, b->o.max_act)) {
        hr_schedule_destroy(s);
        return;
    }
    if (!fused)
        refill(b, s);
    if (b->st >= 0)
        hr__keep_better(b, s);
    else
        hr_schedule_destroy(s);
}

static void try_warm_up(hr__build *b, const hr_schedule *pattern, hr__lead lead,
                        bool fused)
{
    hr_schedule *s = NULL;
    b->st = hr__like(b->s, &s);
    if (b->st < 0)
        return;
    if (!hr__warm_up(pattern, b->o.max_act, lead, s))
        b->st = hr_fail(HR_ERR_NOMEM, NULL, "no memory to warm up");
    if (b->st >= 0 && !fused)
        refill(b, s);
    if (b->st >= 0 && fits(s, b->o.max_act))
        hr__keep_better(b, s);
    else
        hr_schedule_destroy(s);
}

/* As it is, and with more forwards ahead of the first backward. */
static void try_pattern(hr__build *b, const hr__steps *steps, bool fused)
{
    static const hr__lead leads[2][2] = {{HR__LEAD_OWN, HR__LEAD_SPLIT},
                                         {HR__LEAD_SPLIT, HR__LEAD_WHOLE}};
    hr_schedule *s = NULL;
    b->st = hr__like(b->s, &s);
    if (b->st < 0)
        return;
    if (!hr__pattern_orders(s, steps, fused) || hr_schedule_actions(s) == 0) {
        hr_schedule_destroy(s);
        return;
    }
    if (fits(s, b->o.max_act))
        for (int k = 0; k < 2 && b->st >= 0; k++)
            try_warm_up(b, s, leads[fused][k], fused);
    if (b->st >= 0)
        hr__v_try(b, s, fused);
    else
        hr_schedule_destroy(s);
}

enum { LONGEST = 4 }; /* step of a pattern */

static void try_patterns(hr__build *b, bool fused)
{
    for (int k = 0; k < LONGEST * LONGEST * LONGEST * LONGEST && b->st >= 0; k++) {
        hr__steps steps = {.down_f = 1 + k % LONGEST,
                           .up_f = 1 + k / LONGEST % LONGEST,
                           .down_b = 1 + k / LONGEST / LONGEST % LONGEST,
                           .up_b = 1 + k / LONGEST / LONGEST / LONGEST};
        if (!fused || (steps.down_b > 1 && steps.up_b > 1)) /* a whole one takes two */
            try_pattern(b, &steps, fused);
    }
}

void hr__v_orders(hr__build *b)
{
    try_patterns(b, false);
    if (b->st >= 0)
        hr__list_best(b, &(hr__list_rules){.limit = b->o.max_act});
}

void hr__v_whole_orders(hr__build *b)
{
    try_patterns(b, true);
    if (b->st >= 0)
        hr__list_best(b, &(hr__list_rules){.limit = b->o.max_act, .fused = true});
}
