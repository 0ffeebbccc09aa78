/* Goes through all generators with all that can be chosen, and through the list schedules of each
 * placement, and keeps the best few. */
#include "schedule/optimise_start.h"

#include "base/try.h"      /* HR_TRY */
#include "schedule/best.h" /* hr__like */
#include "schedule/build/builder.h"
#include "schedule/list_schedule.h"
#include "schedule/peaks.h"

enum {
    LIST_VARIANTS = 16,
    SEARCHED_CELLS =
        32 << 10, /* up to which builders search, and all groups are tried */
    PLACEMENTS = 3
};

typedef struct hunt {
    hr__goal *g;
    hr__starts *to;
    int64_t floor[PLACEMENTS]; /* by placement: what no schedule of the chunks that are
                                  tried now can be below */
    bool v_orders;             /* searched already, within the limit */
} hunt;

static bool splits(const hr_schedule *s)
{
    for (int r = 0; r < s->ranks; r++)
        for (size_t i = 0; i < s->order[r].n; i++)
            if (s->order[r].a[i].kind == HR_ACTION_W)
                return true;
    return false;
}

/* The shorter, then the one that holds less; then the one that came first. */
static bool better(const hunt *h, const hr__start *a, const hr__start *b)
{
    if (a->makespan != b->makespan)
        return a->makespan < b->makespan;
    return hr__goal_acts(h->g, a->s, hr__most_held(a->s).act) <
           hr__goal_acts(h->g, b->s, hr__most_held(b->s).act);
}

static bool same_kind(const hr__start *a, const hr__start *b)
{
    return a->name == b->name && a->s->placement == b->s->placement &&
           a->s->stages == b->s->stages;
}

/* Takes `x` into its place, or destroys it. */
static void insert(hunt *h, hr__start x)
{
    hr__starts *to = h->to;
    int at = 0;
    while (at < to->n && !same_kind(&x, &to->at[at]))
        at++;
    bool full = at == HR__STARTS;
    at = full ? HR__STARTS - 1 : at;
    bool taken = at < to->n;
    if (taken && !better(h, &x, &to->at[at])) {
        hr_schedule_destroy(x.s);
        return;
    }
    if (taken)
        hr_schedule_destroy(to->at[at].s);
    else
        to->n++;
    for (; at > 0 && better(h, &x, &to->at[at - 1]); at--)
        to->at[at] = to->at[at - 1];
    to->at[at] = x;
}

/* Consumes `s`, to which it gives its costs. */
static hr_status consider(hunt *h, hr_schedule *s, const char *name)
{
    hr_figures *f = NULL;
    hr_status st = hr__goal_cost(h->g, s);
    bool fits =
        st >= 0 && hr__goal_fits(h->g, s) && !(h->g->o.whole_backward && splits(s));
    if (fits)
        st = hr_schedule_simulate(s, NULL, &f);
    if (!fits || st < 0) {
        hr_schedule_destroy(s);
        return st;
    }
    int64_t makespan = f->makespan;
    hr_figures_destroy(f);
    hr__starts *to = h->to;
    if (name && (to->generator == NULL || makespan < to->generator_makespan)) {
        to->generator = name;
        to->generator_makespan = makespan;
    }
    if (makespan < h->g->least)
        h->g->least = makespan;
    insert(h, (hr__start){s, name, makespan});
    return HR_OK;
}

/* ---- generators ---- */

static hr_stage_cost mean_cost(const hr_schedule *s)
{
    hr_stage_cost mean = {0};
    for (int k = 0; k < s->stages; k++) { /* at most 2^16 costs below 2^40 */
        mean.f += s->cost[k].f;
        mean.i += s->cost[k].i;
        mean.w += s->cost[k].w;
        mean.recompute |= s->cost[k].recompute;
    }
    mean.f /= s->stages;
    mean.i /= s->stages;
    mean.w /= s->stages;
    return mean;
}

/* An empty schedule with the costs that it would have. */
static hr_status shape(const hr__goal *g, hr_placement placement, int chunks,
                       hr_schedule **out)
{
    HR_TRY(hr_schedule_create(
        &(hr_schedule_shape){HR_INIT(hr_schedule_shape), .ranks = g->o.ranks,
                             .stages = g->o.ranks * chunks,
                             .microbatches = g->o.microbatches, .placement = placement},
        out));
    hr_status st = hr__goal_cost(g, *out);
    if (st < 0) {
        hr_schedule_destroy(*out);
        *out = NULL;
    }
    return st;
}

static bool is_large(const hr_generate_opts *o)
{
    return (int64_t)o->ranks * o->chunks * o->microbatches > SEARCHED_CELLS;
}

/* Another generator of these chunks and placement could not be shorter. */
static bool is_done(const hunt *h, const hr__builder *w)
{
    return h->to->generator != NULL &&
           h->to->generator_makespan <= h->floor[w->placement];
}

static hr_status try_generator(hunt *h, const hr__builder *w, hr_generate_opts o,
                               bool rule)
{
    hr_schedule *s = NULL;
    if ((h->to->n > 0 && hr__goal_stopped(h->g)) || is_done(h, w))
        return HR_OK;
    hr_status st = hr__generate(w, &o, rule, &s);
    if (st < 0) /* it does not do these sizes */
        return st == HR_ERR_NOMEM ? st : HR_OK;
    return s != NULL ? consider(h, s, w->name) : HR_OK;
}

/* Groups that it can have: all up to two rings of ranks, then whole rings; of large schedules a ring,
 * then twice as much each time. */
static hr_status try_groups(hunt *h, const hr__builder *w, hr_generate_opts o)
{
    int p = o.ranks;
    bool large = is_large(&o);
    o.group = large ? p : 1;
    while (o.group <= o.microbatches) {
        HR_TRY(try_generator(h, w, o, false));
        o.group += large ? o.group : o.group < 2 * p ? 1 : p;
    }
    return HR_OK;
}

/* Activations that surely fit, no more than there are. */
static int room_for(const hr__goal *g, const hr_schedule *s)
{
    hr__limits limits = hr__goal_limits(g, s);
    int64_t room = limits.act;
    for (int k = 0; limits.bytes < INT64_MAX && k < s->stages; k++) {
        const hr_stage_cost *c = &s->cost[k];
        int64_t each = c->recompute ? c->boundary_bytes : c->act_bytes;
        int64_t once = c->recompute ? c->act_bytes - c->boundary_bytes : 0;
        if (each > 0 && (limits.bytes - once) / each < room)
            room = (limits.bytes - once) / each;
    }
    int64_t all = (int64_t)s->microbatches * hr__chunks(s);
    return (int)(room < all ? room : all);
}

/* As it is by itself, within the limit, and with its groups. */
static hr_status try_builder(hunt *h, const hr__builder *w, hr_generate_opts o,
                             int limit)
{
    hr_generate_opts filled = o;
    hr__fill_defaults(w, &filled);
    bool large = is_large(&o);
    HR_TRY(try_generator(h, w, o, large));
    if (filled.group != 0 && o.chunks > 1)
        return try_groups(h, w, o);
    if (limit < 1 || limit == filled.max_act)
        return HR_OK;
    o.max_act = limit;
    bool rule = large || (w->v_orders && h->v_orders);
    h->v_orders |= w->v_orders;
    return try_generator(h, w, o, rule);
}

static bool allowed(const hunt *h, const hr__builder *w, int chunks)
{
    return !w->forward_only && !w->pieces &&
           (h->g->o.placements & 1u << w->placement) != 0 &&
           (w->chunks == 0 || w->chunks == chunks) &&
           hr__goal_takes_chunks(h->g, chunks);
}

static hr_status try_builders(hunt *h, int chunks)
{
    for (int k = 0; hr__builders[k] != NULL; k++) {
        const hr__builder *w = hr__builders[k];
        hr_schedule *s = NULL;
        if (!allowed(h, w, chunks))
            continue;
        HR_TRY(shape(h->g, HR_PLACEMENT_LOOP, chunks, &s));
        hr_stage_cost mean = mean_cost(s);
        int limit = room_for(h->g, s);
        hr_schedule_destroy(s);
        HR_TRY(try_builder(
            h, w,
            (hr_generate_opts){HR_INIT(hr_generate_opts), .ranks = h->g->o.ranks,
                               .microbatches = h->g->o.microbatches, .chunks = chunks,
                               .cost = &mean, .comm = h->g->o.comm + h->g->o.latency},
            limit));
    }
    return HR_OK;
}

/* ---- list schedules ---- */

static hr_status try_list(hunt *h, const hr_schedule *like, const hr__list_rules *rules)
{
    hr_schedule *s = NULL;
    HR_TRY(hr__like(like, &s));
    if (!hr__list_schedule(s, rules)) {
        hr_schedule_destroy(s);
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to schedule by list");
    }
    return consider(h, s, NULL);
}

/* With all rules that may be chosen. What a limit of bytes leaves room for depends on how much of an
 * activation is held on to for its weight gradient: it may be all, or nothing. */
static hr_status try_lists(hunt *h, const hr_schedule *like)
{
    int sure = room_for(h->g, like);
    int most = like->microbatches * hr__chunks(like);
    if (hr__goal_limits(h->g, like).act < most)
        most = hr__goal_limits(h->g, like).act;
    for (int k = 0; sure >= hr__chunks(like) && k < LIST_VARIANTS * 4; k++) {
        hr__list_rules rules = {.limit = sure,
                                .fused = (k & 16) != 0,
                                .wait = (k & 1) != 0,
                                .push = (k & 2) != 0,
                                .first_back = (k & 4) != 0,
                                .first_in = (k & 8) != 0};
        bool stash = (k & 32) != 0;
        if (stash) {
            rules.limit_i = rules.limit;
            rules.limit = most;
        }
        if ((rules.fused && rules.wait) || (h->g->o.whole_backward && !rules.fused) ||
            (stash && (rules.fused || sure == most)) ||
            (hr__chunks(like) == 1 && (rules.first_back || rules.first_in)))
            continue;
        if (h->g->least <= h->floor[like->placement] ||
            (h->to->n > 0 && hr__goal_stopped(h->g)))
            return HR_OK;
        HR_TRY(try_list(h, like, &rules));
    }
    return HR_OK;
}

/* ---- one microbatch after the other ---- */

/* No schedule can hold less: each microbatch has to be on all chunks of a rank at once. */
static hr_status serial(hr_schedule *s, bool whole)
{
    for (int m = 0; m < s->microbatches; m++)
        for (int k = 0; k < 2 * s->stages; k++) {
            bool back = k >= s->stages;
            int stage = back ? 2 * s->stages - 1 - k : k;
            hr_action a[2] = {
                {.microbatch = m, .stage = (uint16_t)stage},
                {.microbatch = m, .stage = (uint16_t)stage, .kind = HR_ACTION_W}};
            a[0].kind = !back ? HR_ACTION_F : whole ? HR_ACTION_B : HR_ACTION_I;
            int rank = hr__owner(s, stage, m);
            HR_TRY(hr__append(s, rank, &a[0], 1, false));
            if (back && !whole)
                HR_TRY(hr__append(s, rank, &a[1], 1, false));
        }
    return HR_OK;
}

/* Says what can be held at least, and what no schedule of this shape can be below. */
static hr_status try_serial(hunt *h, const hr_schedule *like)
{
    hr_schedule *s = NULL;
    HR_TRY(hr__like(like, &s));
    hr_status st = serial(s, h->g->o.whole_backward);
    if (st >= 0 && s->pair_discount == 0) /* it has no pairs that could be cheaper */
        st = hr_schedule_bound(s, &h->floor[s->placement]);
    if (st < 0) {
        hr_schedule_destroy(s);
        return st;
    }
    hr__held most = hr__most_held(s);
    int act = hr__goal_acts(h->g, s, most.act);
    hr__starts *to = h->to;
    to->least_act = to->least_act == 0 || act < to->least_act ? act : to->least_act;
    to->least_bytes = to->least_bytes < 0 || most.bytes < to->least_bytes
                          ? most.bytes
                          : to->least_bytes;
    return consider(h, s, NULL);
}

/* ---- all of a number of chunks ---- */

static bool has_placement(const hunt *h, hr_placement placement, int chunks)
{
    static const int needed[PLACEMENTS] = {
        [HR_PLACEMENT_V] = 2, [HR_PLACEMENT_BIDIRECTIONAL] = 1}; /* LOOP: any */
    return (h->g->o.placements & 1u << placement) != 0 &&
           (needed[placement] == 0 || needed[placement] == chunks) &&
           (placement != HR_PLACEMENT_BIDIRECTIONAL || h->g->o.microbatches % 2 == 0);
}

/* With what is tried of it alone, whatever the generators do. */
static hr_status try_placement(hunt *h, hr_placement placement, int chunks, bool lists)
{
    hr_schedule *like = NULL;
    if (!has_placement(h, placement, chunks))
        return HR_OK;
    HR_TRY(shape(h->g, placement, chunks, &like));
    hr_status st = HR_OK;
    if (!lists)
        st = try_serial(h, like);
    else if (placement != HR_PLACEMENT_BIDIRECTIONAL &&
             hr__cells(like) <= SEARCHED_CELLS)
        st = try_lists(h, like);
    hr_schedule_destroy(like);
    return st;
}

hr_status hr__find_starts(hr__goal *g, hr__starts *out)
{
    hr_status st = HR_OK;
    *out = (hr__starts){.least_bytes = -1};
    for (int v = 1; v <= g->o.chunks && st >= 0; v++) {
        hunt h = {.g = g, .to = out};
        if (!hr__goal_takes_chunks(g, v))
            continue;
        for (int k = 0; k < PLACEMENTS && st >= 0; k++)
            st = try_placement(&h, (hr_placement)k, v, false);
        if (st >= 0)
            st = try_builders(&h, v);
        for (int k = 0; k < PLACEMENTS && st >= 0; k++)
            st = try_placement(&h, (hr_placement)k, v, true);
    }
    if (st < 0)
        hr__starts_fini(out);
    return st;
}

void hr__starts_fini(hr__starts *starts)
{
    for (int k = 0; k < starts->n; k++)
        hr_schedule_destroy(starts->at[k].s);
    starts->n = 0;
}
