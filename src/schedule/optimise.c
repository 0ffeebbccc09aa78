/* The optimiser: starts, then a search from each of them and a longer one from the best. */
#include "schedule/optimise.h"

#include "base/try.h" /* HR_TRY */
#include "schedule/optimise_search.h"
#include "schedule/optimise_start.h"

static hr_status fail_infeasible(const hr__goal *g, const hr__starts *starts)
{
    char limits[120] = "";
    char least[120] = "";
    const hr_optimise_opts *o = &g->o;
    int n = 0;
    int k = 0;
    if (o->max_act > 0) {
        n = snprintf(limits, sizeof limits, "%d activations", o->max_act);
        k = snprintf(least, sizeof least, "%d activations", starts->least_act);
    }
    if (o->max_bytes > 0) {
        const char *and = n > 0 ? " and " : "";
        snprintf(limits + n, sizeof limits - (size_t)n, "%s%lld bytes", and,
                 (long long)o->max_bytes);
        snprintf(least + k, sizeof least - (size_t)k, "%s%lld bytes", and,
                 (long long)starts->least_bytes);
    }
    return hr_fail(
        HR_ERR_INVALID, "infeasible",
        "no schedule of %d ranks, %d chunks a rank, %d microbatches holds at "
        "most %s on a rank; the smallest feasible limit is %s",
        o->ranks, o->chunks, o->microbatches, limits, least);
}

/* Search on from a start, which is replaced by what is found. */
static hr_status improve(hr__goal *g, hr__start *start, int64_t steps)
{
    hr_schedule *found = NULL;
    HR_TRY(hr__search(g, start->s, start->makespan, steps, &found));
    if (found == NULL)
        return HR_OK;
    hr_figures *f = NULL;
    hr_schedule_destroy(start->s);
    *start = (hr__start){.s = found};
    HR_TRY(hr_schedule_simulate(found, NULL, &f));
    start->makespan = f->makespan;
    hr_figures_destroy(f);
    return HR_OK;
}

enum { SHARE = 32 };

/* A small share of steps and time for each start, and the rest for the best. The best comes to the
 * front. */
static hr_status search(hr__goal *g, hr__starts *starts)
{
    int best = 0;
    for (int k = 0; k < starts->n; k++) {
        hr__start *s = &starts->at[k];
        int64_t bound;
        HR_TRY(hr_schedule_bound(s->s, &bound));
        if (k > 0 && bound >= starts->at[best].makespan)
            continue;
        g->bound = bound;
        hr__goal_share(g, SHARE);
        HR_TRY(improve(g, s, g->budget / SHARE));
        best = s->makespan < starts->at[best].makespan ? k : best;
    }
    hr__goal_share(g, 1);
    HR_TRY(improve(g, &starts->at[best], g->budget - g->steps));
    hr__start first = starts->at[best];
    starts->at[best] = starts->at[0];
    starts->at[0] = first;
    return HR_OK;
}

/* What was found is the first start. Its limits are checked as anybody else would. */
static hr_status hand_over(const hr__goal *g, hr__starts *starts, hr_schedule **out,
                           hr_optimise_report *report)
{
    hr_schedule *s = starts->at[0].s;
    hr_check_opts limits = {HR_INIT(hr_check_opts), .max_bytes = g->o.max_bytes};
    if (g->o.max_act > 0)
        limits.max_act = hr__goal_limits(g, s).act;
    HR_TRY(hr_schedule_check(s, &limits, NULL));
    HR_TRY(hr_schedule_bound(s, &report->bound));
    report->generator = starts->generator;
    report->generator_makespan = starts->generator_makespan;
    report->makespan = starts->at[0].makespan;
    report->steps = g->steps;
    report->searched =
        starts->generator == NULL || report->makespan < report->generator_makespan;
    *out = s;
    starts->at[0].s = NULL;
    return HR_OK;
}

hr_status hr_schedule_optimise(const hr_optimise_opts *opts, hr_schedule **out,
                               hr_optimise_report *report)
{
    hr__goal g;
    hr__starts starts;
    hr_optimise_report own = {0};
    HR_NEED(out);
    *out = NULL;
    report = report ? report : &own;
    *report = (hr_optimise_report){0};
    if (opts == NULL)
        return hr_fail(HR_ERR_INVALID, "optimise_option", "to optimise without sizes");
    HR_CHECK_OPTS(opts, hr_optimise_opts);
    HR_TRY(hr__goal_init(&g, opts));
    HR_TRY(hr__find_starts(&g, &starts));
    report->least_act = starts.least_act;
    report->least_bytes = starts.least_bytes;
    hr_status st = HR_OK;
    if (starts.least_bytes < 0)
        st = hr_fail(
            HR_ERR_INVALID, "optimise_option",
            "no placement of 0x%x has %d chunk%s a rank for %d microbatches: V "
            "has two, bidirectional one and an even number of microbatches",
            g.o.placements, g.o.chunks, g.o.chunks > 1 ? "s" : "", g.o.microbatches);
    else if (starts.n == 0)
        st = fail_infeasible(&g, &starts);
    if (st >= 0)
        st = search(&g, &starts);
    if (st >= 0)
        st = hand_over(&g, &starts, out, report);
    hr__starts_fini(&starts);
    return st;
}

hr_status hr__generate_auto(const hr_generate_opts *o, hr_schedule **out)
{
    if (o->group || o->pieces || o->expert_overlap)
        return hr_fail(HR_ERR_INVALID, "schedule_refused",
                       "auto finds groups by itself, and cuts no sequences: neither "
                       "group, pieces nor expert overlap can be given");
    return hr_schedule_optimise(
        &(hr_optimise_opts){HR_INIT(hr_optimise_opts), .ranks = o->ranks,
                            .microbatches = o->microbatches, .chunks = o->chunks,
                            .cost = o->cost, .costs = 1, .comm = o->comm,
                            .max_act = o->max_act},
        out, NULL);
}
