/* The optimiser beside the recorded tables: under the memory of each, and both cost settings, it has to find a
 * schedule that is not slower. Of tables with the same sizes and costs only those are run that no
 * other is at least as good as in both time and memory: what is found for the better one stands
 * for the other. Small ones are run as a rule; HEADRACE_CONFORM_ALL set runs all, in minutes. */
#include "recorded.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 8 }; /* pairs of stage and microbatch */

typedef struct target {
    int set; /* of `settings` */
    int ranks, microbatches, chunks;
    int act; /* most that the table holds on a rank */
    int64_t makespan;
    bool both_ways;
    char name[100];
} target;

void targets_fini(target_list *t)
{
    free(t->at);
}

static void add(target_list *t, const target *x)
{
    if (t->n == t->room) {
        t->room = t->room ? 2 * t->room : 256;
        target *more = realloc(t->at, t->room * sizeof *more);
        if (more == NULL)
            abort(); /* a test without memory has nothing to say */
        t->at = more;
    }
    t->at[t->n++] = *x;
}

void targets_add(target_list *t, json_t *c)
{
    json_t *peaks = json_object_get(json_object_get(c, "peak"), "act");
    int pieces = param(c, "seq_splits");
    target x = {
        .ranks = param(c, "p"),
        .chunks = param(c, "v") ? param(c, "v") : 1,
        .microbatches = param(c, "m") * (pieces ? pieces : 1),
        .both_ways = strcmp(text_of(c, "placement"), "bidirectional") == 0,
    };
    for (size_t r = 0; r < json_array_size(peaks); r++)
        if (peak_of(c, "act", (int)r) > x.act)
            x.act = (int)peak_of(c, "act", (int)r);
    snprintf(x.name, sizeof x.name, "%s", text_of(c, "case"));
    for (x.set = 0; x.set < 2 && x.act > 0; x.set++) {
        json_t *sim = json_object_get(json_object_get(c, "sim"), settings[x.set].name);
        x.makespan = ticks_of(json_object_get(sim, "makespan"));
        if (json_is_object(sim))
            add(t, &x);
    }
}

static int compare_sizes(const target *a, const target *b)
{
    int d = a->ranks - b->ranks;
    d = d ? d : a->microbatches - b->microbatches;
    d = d ? d : a->chunks - b->chunks;
    return d ? d : a->set - b->set;
}

static int in_order(const void *a, const void *b)
{
    const target *x = a;
    const target *y = b;
    int d = compare_sizes(x, y);
    d = d ? d : x->act - y->act;
    if (d != 0 || x->makespan == y->makespan)
        return d ? d : strcmp(x->name, y->name);
    return x->makespan < y->makespan ? -1 : 1;
}

/* What is longer than a table, and known to be: on a V of 16 ranks, one microbatch more than these, under
 * skewed costs, the way in and the way out are all there is, and zb's are better (128.9, ours 130). */
static bool known_longer(const target *x)
{
    return strncmp(x->name, "zb/zbv_skew/", 12) == 0 && x->ranks == 16 &&
           x->microbatches == 17 && x->set == 1;
}

typedef struct sums {
    int worse, equal, better; /* than the table */
    int searched;             /* found by search: no generator does as well */
} sums;

static verdict run(const target *x, bool list, sums *n, outcome *o)
{
    const setting *set = &settings[x->set];
    hr_optimise_opts opts = {
        HR_INIT(hr_optimise_opts), .ranks = x->ranks,  .microbatches = x->microbatches,
        .chunks = x->chunks,       .cost = &set->cost, .costs = 1,
        .comm = set->comm,         .max_act = x->act};
    if (x->both_ways)
        opts.placements = 1u << HR_PLACEMENT_LOOP | 1u << HR_PLACEMENT_BIDIRECTIONAL;
    hr_schedule *s = NULL;
    hr_optimise_report found;
    if (hr_schedule_optimise(&opts, &s, &found) < 0)
        return out_differs(o, "%s: %s", set->name, hr_last_error());
    hr_schedule_destroy(s);
    n->searched += found.searched;
    n->worse += found.makespan > x->makespan;
    n->equal += found.makespan == x->makespan;
    n->better += found.makespan < x->makespan;
    if (list && found.makespan != x->makespan)
        printf("  %s: %s, %s, %d activations: found %.10g, recorded %.10g\n",
               found.makespan < x->makespan ? "shorter" : "longer", x->name, set->name,
               x->act, (double)found.makespan / (double)HR_TICKS,
               (double)x->makespan / (double)HR_TICKS);
    if (found.makespan <= x->makespan)
        return EQUAL;
    out_differs(o, "%s: makespan found %lld, recorded %lld", set->name,
                (long long)found.makespan, (long long)x->makespan);
    return known_longer(x) ? out_left(o, "known to be longer") : DIFFERENT;
}

void targets_run(target_list *t, bool list, tally *to)
{
    const char *env = getenv("HEADRACE_CONFORM_ALL");
    bool all = env && env[0];
    sums n = {0};
    const target *last = NULL; /* the best so far of its sizes */
    if (t->n == 0)
        return;
    qsort(t->at, t->n, sizeof *t->at, in_order);
    for (size_t k = 0; k < t->n; k++) {
        const target *x = &t->at[k];
        outcome o = {.reason = NULL};
        bool dominated =
            last && compare_sizes(last, x) == 0 && last->makespan <= x->makespan;
        if (dominated)
            continue;
        last = x;
        if (all || x->ranks * x->chunks * x->microbatches <= SMALL) {
            verdict v = run(x, list, &n, &o);
            tally_case(to, x->name, v, &o);
        }
    }
    tally_print(to, "optimiser");
    printf("  beside the recorded tables: %d longer, %d as long, %d shorter; %d by "
           "search\n",
           n.worse, n.equal, n.better, n.searched);
}
