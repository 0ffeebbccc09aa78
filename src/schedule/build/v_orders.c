/* Orders on a V. Each schedule has a known pattern for equal costs. For other costs or limits there is a
 * search: repeated patterns, from short-lived activations to long-lived ones, as they are or with
 * fuller ends, with the weight gradients where the pattern has them or put off into gaps; and list
 * schedules. The best within the limit is taken. */
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
    return hr__most_held(s).act <= limit;
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

void hr__v_try(hr__build *b, hr_schedule *s)
{
    if (!fits(s, b->o.max_act)) {
        hr_schedule_destroy(s);
        return;
    }
    refill(b, s);
    if (b->st >= 0)
        hr__keep_better(b, s);
    else
        hr_schedule_destroy(s);
}

/* A whole pattern keeps its rhythm to the end only if it goes on a little; that is not worth the
 * memory where there are so many ranks that few will fill them. */
enum { MANY_RANKS = 256 };

/* The pattern's orders; NULL without an error if it does not fit into its period. */
static hr_schedule *unroll(hr__build *b, const hr__steps *steps, bool fused)
{
    hr_schedule_shape shape;
    hr_schedule *s = NULL;
    hr_schedule_get_shape(b->s, &shape);
    if (fused && b->p < MANY_RANKS && b->m < 2 * b->p)
        shape.microbatches = 2 * b->p;
    b->st = hr_schedule_create(&shape, &s);
    if (b->st >= 0 && !hr__pattern_orders(s, steps, fused))
        b->st = hr_fail(HR_ERR_NOMEM, NULL, "no memory for a pattern");
    if (b->st >= 0 && hr_schedule_actions(s) > 0)
        return s;
    hr_schedule_destroy(s);
    return NULL;
}

/* The pattern's orders with fuller ends; NULL where they cannot go on to their end. */
static hr_schedule *warm_up(hr__build *b, const hr_schedule *pattern,
                            const hr__warm *how)
{
    hr_schedule *s = NULL;
    size_t whole = (size_t)b->m * (size_t)b->p * (how->fused ? 4 : 6);
    b->st = hr__like(b->s, &s);
    if (b->st >= 0 && !hr__warm_up(pattern, how, s))
        b->st = hr_fail(HR_ERR_NOMEM, NULL, "no memory to warm up");
    if (b->st >= 0 && hr_schedule_actions(s) == whole)
        return s;
    hr_schedule_destroy(s);
    return NULL;
}

static void keep(hr__build *b, hr_schedule *s, bool fused)
{
    if (s != NULL && !fused)
        hr__v_try(b, s);
    else if (s != NULL)
        hr__keep_better(b, s);
}

enum {
    LONGEST = 4, /* step of a pattern */
    PATTERNS = LONGEST * LONGEST * LONGEST * LONGEST,
    KNOTS = 16
};

/* Patterns that were tried. Many steps end in the same places, the next ones that are free. */
typedef struct tried {
    uint64_t print[PATTERNS + KNOTS];
    int n;
} tried;

/* FNV-1a over all orders. */
static uint64_t fingerprint(const hr_schedule *s)
{
    uint64_t h = 0xcbf29ce484222325U;
    for (int r = 0; r < s->ranks; r++)
        for (size_t i = 0; i < s->order[r].n; i++) {
            const hr_action *a = &s->order[r].a[i];
            h = (h ^ (uint64_t)a->microbatch) * 0x100000001b3U;
            h = (h ^ (a->stage * (uint64_t)HR_ACTION_SEND_F + a->kind)) *
                0x100000001b3U;
        }
    return h;
}

static bool is_new(tried *t, const hr_schedule *pattern)
{
    uint64_t print = fingerprint(pattern);
    for (int k = 0; k < t->n; k++)
        if (t->print[k] == print)
            return false;
    t->print[t->n++] = print;
    return true;
}

static void try_pattern(hr__build *b, tried *t, const hr__steps *steps, bool fused)
{
    hr__warm how = {.limit = b->o.max_act, .room = b->o.max_act, .fused = fused};
    hr_schedule *pattern = unroll(b, steps, fused);
    if (pattern != NULL && is_new(t, pattern) && fits(pattern, b->o.max_act))
        keep(b, warm_up(b, pattern, &how), fused);
    hr_schedule_destroy(pattern);
}

/* Straight ways that wait at one rank, by which a limit is used up that they would leave room in. */
static void try_knots(hr__build *b, tried *t, bool fused)
{
    hr__steps steps = {
        .down_f = 1, .up_f = 1, .down_b = fused ? 2 : 1, .up_b = fused ? 2 : 1};
    for (steps.knot = 1; steps.knot < b->p - 1 && steps.knot <= KNOTS && b->st >= 0;
         steps.knot++)
        try_pattern(b, t, &steps, fused);
}

static void search(hr__build *b, bool fused)
{
    tried t = {.n = 0};
    if (b->rule)
        return;
    for (int k = 0; k < PATTERNS && b->st >= 0; k++) {
        hr__steps steps = {.down_f = 1 + k % LONGEST,
                           .up_f = 1 + k / LONGEST % LONGEST,
                           .down_b = 1 + k / LONGEST / LONGEST % LONGEST,
                           .up_b = 1 + k / LONGEST / LONGEST / LONGEST};
        if (!fused || (steps.down_b > 1 && steps.up_b > 1)) /* a whole one takes two */
            try_pattern(b, &t, &steps, fused);
    }
    try_knots(b, &t, fused);
    if (b->st >= 0)
        hr__list_best(b, &(hr__list_rules){.limit = b->o.max_act, .fused = fused});
}

void hr__v_orders(hr__build *b)
{
    search(b, false);
}

static bool equal_costs(const hr_schedule *s)
{
    for (int i = 0; i < s->stages; i++)
        if (s->cost[i].f != s->cost[0].f || s->cost[i].i != s->cost[0].f ||
            s->cost[i].w != s->cost[0].f || s->cost[i].recompute)
            return false;
    return s->comm == 0 && s->latency == 0;
}

void hr__v_known_orders(hr__build *b, const hr__v_known *k)
{
    hr__warm how = {.limit = k->limit, .room = k->room, .fused = k->fused};
    hr_schedule *pattern = NULL;
    if (k->limit <= b->o.max_act)
        pattern = unroll(b, &k->steps, k->fused);
    hr_schedule *known = pattern ? warm_up(b, pattern, &how) : NULL;
    hr_schedule_destroy(pattern);
    bool done = known != NULL && k->limit == b->o.max_act && equal_costs(b->s);
    if (known != NULL)
        hr__keep_better(b, known);
    if (!done && b->st >= 0)
        search(b, k->fused);
}
