/* Asks the optimiser for each way of cutting the model, since costs, parameters and what memory is left
 * differ from one to the next, and keeps the best. */
#include "plan_optimise.h"
#include "app_try.h"
#include "plan_costs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REDRAW_MS = 100 };

typedef struct way {
    hr_placement placement;
    int chunks;
    const char *words;
} way;

typedef struct hunt {
    const plan_options *o;
    plan_found *to;
    bool terminal;
    int64_t drawn_ns;
    int at, ways; /* this one, and how many there are */
    const way *now;
    int64_t least_bytes; /* smallest limit that works; INT64_MAX: not known */
    bool any;            /* one could be made, if with more memory */
} hunt;

static double units(int64_t ticks)
{
    return (double)ticks / (double)HR_TICKS;
}

static void draw(void *arg, const hr_optimise_progress *p)
{
    hunt *h = arg;
    int64_t now = hr_now_ns();
    if (now - h->drawn_ns < REDRAW_MS * INT64_C(1000000))
        return;
    h->drawn_ns = now;
    fprintf(stderr,
            "\r\x1b[Kauto %d/%d: %d chunk%s %s, %lld of %lld changes, makespan %.10g",
            h->at + 1, h->ways, h->now->chunks, h->now->chunks == 1 ? "" : "s",
            h->now->words, (long long)p->step, (long long)p->steps, units(p->makespan));
    fflush(stderr);
}

/* An equal share of what is left of the time and of the steps. */
static void put_budget(const hunt *h, double end_s, hr_optimise_opts *opts)
{
    int left = h->ways - h->at;
    opts->steps = (h->o->steps + h->ways - 1) / h->ways;
    if (h->o->time_limit_s > 0) {
        double share = (end_s - 1e-9 * (double)hr_now_ns()) / left;
        opts->seconds = share > 1e-3 ? share : 1e-3;
    }
}

/* Shorter, or as short in less memory. */
static bool better(const plan_row *a, const plan_row *b)
{
    if (!b->s || a->figures->makespan != b->figures->makespan)
        return !b->s || a->figures->makespan < b->figures->makespan;
    return a->act_bytes + a->param_bytes < b->act_bytes + b->param_bytes;
}

/* Takes `s` if it is the best so far. */
static hr_status weigh(hunt *h, hr_schedule *s, int64_t param_bytes,
                       const hr_optimise_report *said)
{
    plan_found *to = h->to;
    plan_row row;
    to->steps += said->steps;
    if (said->generator &&
        (!to->generator || said->generator_makespan < to->generator_makespan)) {
        to->generator = said->generator;
        to->generator_makespan = said->generator_makespan;
    }
    APP_TRY(hr_app_plan_row_take(h->o, "auto", s, param_bytes, &row));
    bool take = better(&row, &to->row);
    hr_app_plan_row_fini(take ? &to->row : &row);
    if (take) {
        to->row = row;
        to->placement = h->now->words;
    }
    return HR_OK;
}

static hr_status search(hunt *h, const hr_stage_cost *cost, int stages,
                        int64_t param_bytes, double end_s)
{
    const plan_options *o = h->o;
    int64_t room = o->memory_limit - param_bytes;
    hr_optimise_report said;
    hr_schedule *s = NULL;
    hr_optimise_opts opts = {HR_INIT(hr_optimise_opts),
                             .ranks = o->pp,
                             .microbatches = o->microbatches,
                             .chunks = h->now->chunks,
                             .placements = 1u << h->now->placement,
                             .cost = cost,
                             .costs = stages,
                             .comm = hr_app_plan_transfer(o),
                             .latency = hr_app_plan_latency(o),
                             .pair_discount = o->pair_discount,
                             .seed = (uint64_t)o->seed,
                             .progress = h->terminal ? draw : NULL,
                             .arg = h};
    put_budget(h, end_s, &opts);
    if (o->memory_limit > 0) {
        opts.max_bytes = room > 1 ? room : 1;
        opts.steps = room < 0 ? -1 : opts.steps; /* to learn what would be enough */
    }
    hr_status st = hr_schedule_optimise(&opts, &s, &said);
    bool made = st >= 0 || strcmp(hr_last_reason(), "infeasible") == 0;
    h->any |= made;
    if (made && said.least_bytes + param_bytes < h->least_bytes)
        h->least_bytes = said.least_bytes + param_bytes;
    if (st >= 0 && o->memory_limit > 0 && room < 0) {
        hr_schedule_destroy(s);
        return HR_ERR_INVALID;
    }
    return st < 0 ? st : weigh(h, s, param_bytes, &said);
}

static hr_status try_way(hunt *h, double end_s)
{
    plan_kind kind = {
        .chunks = h->now->chunks, .pieces = 1, .placement = h->now->placement};
    int stages = h->o->pp * kind.chunks;
    int64_t param_bytes = 0;
    hr_stage_cost *cost = calloc((size_t)stages, sizeof *cost);
    if (!cost)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the costs of %d stages",
                       stages);
    hr_status st = hr_app_plan_costs(h->o, &kind, cost, stages, &param_bytes);
    if (st >= 0)
        st = search(h, cost, stages, param_bytes, end_s);
    free(cost);
    return st;
}

static hr_status fail_infeasible(const hunt *h)
{
    return hr_fail(
        HR_ERR_INVALID, "infeasible",
        "no schedule of %d ranks and %d microbatches fits into --memory-limit "
        "%lld; the smallest limit that works is %lld",
        h->o->pp, h->o->microbatches, (long long)h->o->memory_limit,
        (long long)h->least_bytes);
}

hr_status hr_app_plan_optimise(const plan_options *o, plan_found *out)
{
    const way all[] = {{HR_PLACEMENT_V, 2, "on a V"},
                       {HR_PLACEMENT_LOOP, 1, "a rank"},
                       {HR_PLACEMENT_BIDIRECTIONAL, 1, "both ways"},
                       {HR_PLACEMENT_LOOP, o->vp > 0 ? o->vp : 2, "in a loop"}};
    hunt h = {.o = o,
              .to = out,
              .terminal = isatty(STDERR_FILENO) == 1,
              .ways = o->vp == 1 ? 3 : 4,
              .least_bytes = INT64_MAX};
    double end_s = 1e-9 * (double)hr_now_ns() + o->time_limit_s;
    hr_status st = HR_OK;
    *out = (plan_found){.generator = NULL};
    for (; h.at < h.ways && st != HR_ERR_NOMEM; h.at++) {
        h.now = &all[h.at];
        st = try_way(&h, end_s);
    }
    if (h.drawn_ns > 0)
        fputs("\r\x1b[K", stderr);
    if (st == HR_ERR_NOMEM)
        hr_app_plan_found_fini(out);
    else if (out->row.s)
        st = HR_OK;
    else if (h.any)
        st = fail_infeasible(&h);
    return st;
}

void hr_app_plan_found_say(const plan_found *f, FILE *to)
{
    int64_t makespan = f->row.figures->makespan;
    double above = (double)(makespan - f->row.bound);
    fprintf(to, "auto, %d chunk%s %s: ", f->row.chunks, f->row.chunks == 1 ? "" : "s",
            f->placement);
    if (!f->generator)
        fprintf(to, "no generator fits into the limit; ");
    else if (makespan < f->generator_makespan)
        fprintf(to, "%.2f%% shorter than the best generator's (%s, %.10g); ",
                100 - 100 * (double)makespan / (double)f->generator_makespan,
                f->generator, units(f->generator_makespan));
    else
        fprintf(to, "as short as the best generator's (%s); ", f->generator);
    if (above > 0)
        fprintf(to, "%.1f%% above its bound", 100 * above / (double)f->row.bound);
    else
        fprintf(to, "no order of its work is shorter");
    fprintf(to, "; %lld changes tried\n", (long long)f->steps);
}

void hr_app_plan_found_fini(plan_found *f)
{
    hr_app_plan_row_fini(&f->row);
}
