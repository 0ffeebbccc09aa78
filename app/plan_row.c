/* Makes a schedule, gives it the costs of the command line, and takes its figures. */
#include "plan_row.h"
#include "app_try.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t ticks(double units, int parts)
{
    return (int64_t)llround(units * (double)HR_TICKS / parts);
}

/* Of a stage that is one of `parts` equal ones of what a rank does for a microbatch. */
static hr_stage_cost stage_cost(const plan_options *o, int parts)
{
    return (hr_stage_cost){
        .f = ticks(o->cost_f, parts),
        .i = ticks(o->cost_i, parts),
        .w = ticks(o->cost_w, parts),
        .act_bytes = o->activation_bytes / parts,
        .stash_bytes = o->stash_bytes / parts,
    };
}

/* Sizes that every schedule takes show whether it has a choice. */
int hr_app_plan_chunks(const plan_options *o, const char *name)
{
    hr_generate_opts probe = {HR_INIT(hr_generate_opts), .ranks = 2, .microbatches = 4,
                              .chunks = 2};
    hr_schedule *s = NULL;
    if (hr_schedule_generate(name, &probe, &s) < 0)
        return 0;
    hr_schedule_destroy(s);
    probe.chunks = 1;
    if (hr_schedule_generate(name, &probe, &s) < 0)
        return 0;
    hr_schedule_destroy(s);
    return o->vp > 0 ? o->vp : 2;
}

static hr_status generate(const plan_options *o, plan_row *r, int chunks, int max_act)
{
    hr_stage_cost cost = stage_cost(o, chunks > 0 ? chunks : 1);
    hr_generate_opts g = {HR_INIT(hr_generate_opts),
                          .ranks = o->pp,
                          .microbatches = o->microbatches,
                          .chunks = chunks,
                          .max_act = max_act,
                          .cost = &cost,
                          .comm = ticks(o->transfer, 1)};
    APP_TRY(hr_schedule_generate(r->name, &g, &r->s));
    hr_schedule_shape shape = {HR_INIT(hr_schedule_shape)};
    hr_schedule_get_shape(r->s, &shape);
    r->chunks = shape.stages / shape.ranks;
    r->pieces = shape.microbatches / o->microbatches;
    r->copies = shape.placement == HR_PLACEMENT_BIDIRECTIONAL ? 2 : 1;
    r->forward_only = shape.forward_only;
    r->param_bytes = r->copies * o->param_bytes;
    cost = stage_cost(o, r->chunks * r->pieces);
    APP_TRY(hr_schedule_set_cost(r->s, -1, &cost));
    return hr_schedule_set_comm(r->s, g.comm, o->pair_discount);
}

static hr_status measure(plan_row *r)
{
    APP_TRY(hr_schedule_simulate(r->s, NULL, &r->figures));
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
        st = measure(r);
    if (st >= 0)
        st = check(o, r);
    if (st < 0)
        snprintf(r->why, sizeof r->why, "%s", hr_last_error());
    return st;
}

/* Activations of a stage that the limit has room for; 0: cannot be said. */
static int room_for(const plan_options *o, const plan_row *r)
{
    int parts = r->chunks * r->pieces;
    int64_t each = o->activation_bytes / parts;
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

void hr_app_plan_row_fini(plan_row *r)
{
    hr_schedule_destroy(r->s);
    hr_figures_destroy(r->figures);
    *r = (plan_row){.name = r->name};
}
