/* Makes a schedule, gives it the costs of the command line, and takes its figures. */
#include "plan_row.h"
#include "app_try.h"
#include "plan_costs.h"

#include <stdlib.h>
#include <string.h>

int hr_app_plan_chunks(const plan_options *o, const char *name)
{
    if (!hr_app_plan_kind(name).any_chunks)
        return 0;
    return o->vp > 0 ? o->vp : 2;
}

/* All that a row knows of its schedule but the figures. */
static void describe(plan_row *r)
{
    hr_schedule_shape shape = {HR_INIT(hr_schedule_shape)};
    hr_schedule_get_shape(r->s, &shape);
    r->chunks = shape.stages / shape.ranks;
    r->pieces = shape.pieces;
    r->copies = shape.placement == HR_PLACEMENT_BIDIRECTIONAL ? 2 : 1;
    r->forward_only = shape.forward_only;
    for (int i = 0; i < shape.stages; i++) {
        hr_stage_cost c;
        hr_schedule_get_cost(r->s, i, &c);
        int64_t held = c.recompute ? c.boundary_bytes : c.act_bytes;
        r->stage_bytes = held > r->stage_bytes ? held : r->stage_bytes;
    }
}

static hr_status make_schedule(const plan_options *o, plan_row *r, hr_generate_opts *g)
{
    APP_TRY(hr_schedule_generate(r->name, g, &r->s));
    APP_TRY(hr_schedule_set_comm(r->s, g->comm, o->pair_discount));
    describe(r);
    return HR_OK;
}

static hr_status generate(const plan_options *o, plan_row *r, int chunks, int max_act)
{
    plan_kind kind = hr_app_plan_kind(r->name);
    if (chunks > 0)
        kind.chunks = chunks;
    int stages = o->pp * kind.chunks;
    hr_stage_cost *cost = calloc((size_t)stages, sizeof *cost);
    if (!cost)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the costs of %d stages",
                       stages);
    hr_generate_opts g = {HR_INIT(hr_generate_opts),
                          .ranks = o->pp,
                          .microbatches = o->microbatches,
                          .chunks = chunks,
                          .group = o->group,
                          .max_act = max_act,
                          .stage_cost = cost,
                          .stage_costs = stages,
                          .comm = hr_app_plan_transfer(o),
                          .latency = hr_app_plan_latency(o)};
    hr_status st = hr_app_plan_costs(o, &kind, cost, stages, &r->param_bytes);
    if (st >= 0)
        st = make_schedule(o, r, &g);
    free(cost);
    return st;
}

static hr_status measure(const plan_options *o, plan_row *r)
{
    hr_simulate_opts opts = {HR_INIT(hr_simulate_opts), .queue = o->queue};
    APP_TRY(hr_schedule_simulate(r->s, &opts, &r->figures));
    APP_TRY(hr_schedule_bound(r->s, &r->bound));
    int peak = 0;
    double busy = 0;
    for (int k = 0; k < r->figures->ranks; k++) {
        const hr_rank_figures *f = &r->figures->rank[k];
        peak = f->peak_act > peak ? f->peak_act : peak;
        r->act_bytes = f->peak_bytes > r->act_bytes ? f->peak_bytes : r->act_bytes;
        busy += (double)f->busy;
    }
    r->peak_act = (double)peak / (r->chunks * r->pieces);
    if (r->figures->makespan > 0)
        r->bubble = 1 - busy / ((double)r->figures->makespan * r->figures->ranks);
    return HR_OK;
}

static hr_status check(const plan_options *o, const plan_row *r)
{
    int64_t room = o->memory_limit - r->param_bytes;
    hr_check_opts c = {HR_INIT(hr_check_opts)};
    if (o->memory_limit > 0 && room <= 0 && room < r->act_bytes)
        return hr_fail(HR_ERR_INVALID, "limit",
                       "parameters alone take %lld bytes of a rank; the limit is %lld",
                       (long long)r->param_bytes, (long long)o->memory_limit);
    c.max_bytes = o->memory_limit > 0 && room > 0 ? room : 0;
    return hr_schedule_check(r->s, &c, NULL);
}

static hr_status try_to_make(const plan_options *o, plan_row *r, int chunks,
                             int max_act)
{
    hr_app_plan_row_fini(r);
    hr_status st = generate(o, r, chunks, max_act);
    if (st >= 0)
        st = measure(o, r);
    if (st >= 0)
        st = check(o, r);
    if (st < 0)
        snprintf(r->why, sizeof r->why, "%s", hr_last_error());
    return st;
}

/* Activations of a stage that the limit has room for; 0: cannot be said. */
static int room_for(const plan_options *o, const plan_row *r)
{
    int64_t each = r->stage_bytes;
    int64_t room = o->memory_limit - r->param_bytes;
    return each > 0 && room > 0 && room / each < 1 << 20 ? (int)(room / each) : 0;
}

hr_status hr_app_plan_row_make(const plan_options *o, const char *name, int chunks,
                               plan_row *out)
{
    *out = (plan_row){.name = name};
    hr_status st = try_to_make(o, out, chunks, 0);
    /* Some schedules can be made smaller; if this one cannot, what it is like by itself is told. */
    int fits = st < 0 && out->figures && o->memory_limit > 0 ? room_for(o, out) : 0;
    if (fits > 0 && (st = try_to_make(o, out, chunks, fits)) < 0)
        st = try_to_make(o, out, chunks, 0);
    if (st == HR_ERR_NOMEM) {
        hr_app_plan_row_fini(out);
        return st;
    }
    return HR_OK;
}

hr_status hr_app_plan_row_take(const plan_options *o, const char *name, hr_schedule *s,
                               int64_t param_bytes, plan_row *out)
{
    *out = (plan_row){.name = name, .s = s, .param_bytes = param_bytes};
    describe(out);
    hr_status st = measure(o, out);
    if (st >= 0)
        st = check(o, out);
    if (st < 0)
        hr_app_plan_row_fini(out);
    return st;
}

void hr_app_plan_row_fini(plan_row *r)
{
    hr_schedule_destroy(r->s);
    hr_figures_destroy(r->figures);
    *r = (plan_row){.name = r->name};
}
