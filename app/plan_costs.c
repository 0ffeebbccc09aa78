/* Costs of stages. A unit of the schedule is what the command line says, or a millisecond of a profile. */
#include "plan_costs.h"
#include "app_try.h"
#include "profile.h"
#include "stage_list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t ticks(double units)
{
    return (int64_t)llround(units * (double)HR_TICKS);
}

int64_t hr_app_plan_transfer(const plan_options *o)
{
    bool measured = o->measured && o->transfer < 0;
    return ticks(measured ? o->measured->transfer_us / 1000 : fmax(o->transfer, 0));
}

int64_t hr_app_plan_latency(const plan_options *o)
{
    bool measured = o->measured && o->latency < 0;
    return ticks(measured ? o->measured->latency_us / 1000 : fmax(o->latency, 0));
}

/* Sizes that every schedule takes show whether it has a choice, and how it cuts. */
plan_kind hr_app_plan_kind(const char *name)
{
    hr_generate_opts probe = {HR_INIT(hr_generate_opts), .ranks = 2, .microbatches = 4,
                              .chunks = 0};
    plan_kind k = {.chunks = 1, .pieces = 1};
    hr_schedule_shape shape = {HR_INIT(hr_schedule_shape)};
    hr_schedule *s = NULL;
    if (hr_schedule_generate(name, &probe, &s) < 0)
        return k;
    hr_schedule_get_shape(s, &shape);
    hr_schedule_destroy(s);
    k = (plan_kind){.chunks = shape.stages / shape.ranks,
                    .pieces = shape.pieces,
                    .placement = shape.placement};
    probe.chunks = k.chunks == 1 ? 2 : 1;
    k.any_chunks = hr_schedule_generate(name, &probe, &s) == HR_OK;
    hr_schedule_destroy(s);
    return k;
}

/* ---- by the command line --------------------------------------------------------------------- */
static void alike(const plan_options *o, const plan_kind *k, hr_stage_cost *cost,
                  int stages, int64_t *param_bytes)
{
    bool both_ways = k->placement == HR_PLACEMENT_BIDIRECTIONAL;
    int64_t pieces = (int64_t)stages * k->pieces; /* of all that the ranks hold */
    double parts = (double)pieces / o->pp;
    for (int i = 0; i < stages; i++)
        cost[i] = (hr_stage_cost){.f = ticks(o->cost_f / parts),
                                  .i = ticks(o->cost_i / parts),
                                  .w = ticks(o->cost_w / parts),
                                  .act_bytes = o->activation_bytes * o->pp / pieces,
                                  .stash_bytes = o->stash_bytes * o->pp / pieces,
                                  .boundary_bytes = o->boundary_bytes / k->pieces};
    *param_bytes = o->param_bytes * (both_ways ? 2 : 1);
}

/* ---- by a profile ---------------------------------------------------------------------------- */
static hr_status lay_out(const plan_options *o, const plan_kind *k, int stages,
                         hr_layout **out)
{
    const profile *p = o->measured;
    bool v = k->placement == HR_PLACEMENT_V;
    hr_layout_opts l = {HR_INIT(hr_layout_opts),
                        .ranks = o->pp,
                        .chunks = stages / o->pp,
                        .layers = p->layers,
                        .mtp = p->mtp,
                        .placement = v ? HR_PLACEMENT_V : HR_PLACEMENT_LOOP};
    if (o->layout[0])
        return hr_layout_parse(o->layout, strlen(o->layout), &l, out);
    int rows = hr_app_profile_rows(p);
    int64_t *cost = calloc((size_t)rows, sizeof *cost);
    if (!cost)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to split %d layers", p->layers);
    for (int i = 0; i < rows; i++) {
        const profile_row *r = &p->row[i];
        cost[i] = ticks((r->forward_us + r->input_grad_us + r->weight_grad_us) / 1000);
    }
    l.cost = cost;
    hr_status st = hr_layout_split(&l, out);
    free(cost);
    return st;
}

/* Sums over what one stage holds. */
typedef struct sums {
    profile_row of;
    bool any;
} sums;

static void add(sums *s, const profile_row *r, int n)
{
    for (int i = 0; i < n; i++, r++) {
        if (!s->any)
            s->of.boundary_bytes = r->boundary_bytes;
        s->any = true;
        s->of.forward_us += r->forward_us;
        s->of.input_grad_us += r->input_grad_us;
        s->of.weight_grad_us += r->weight_grad_us;
        s->of.activation_bytes += r->activation_bytes;
        s->of.stash_bytes += r->stash_bytes;
        s->of.param_bytes += r->param_bytes;
    }
}

static profile_row sum_of(const profile *p, const hr_layout_part *part)
{
    sums s = {0};
    add(&s, &p->row[0], part->embedding);
    add(&s, &p->row[1 + part->first_layer], part->layers);
    add(&s, &p->row[1 + p->layers + part->first_mtp], part->mtp);
    add(&s, &p->row[1 + p->layers + p->mtp], part->loss);
    return s.of;
}

static hr_status measured(const plan_options *o, const plan_kind *k,
                          const hr_layout *layout, hr_stage_cost *cost, int stages,
                          int64_t *param_bytes)
{
    double each = 1000.0 * k->pieces; /* microseconds of a unit */
    bool both_ways = k->placement == HR_PLACEMENT_BIDIRECTIONAL;
    int64_t *held = calloc((size_t)o->pp, sizeof *held);
    hr_status st = HR_OK;
    if (!held)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d ranks", o->pp);
    for (int i = 0; i < stages && st >= 0; i++) {
        hr_layout_part part;
        st = hr_layout_get(layout, i, &part);
        if (st < 0)
            break;
        profile_row r = sum_of(o->measured, &part);
        cost[i] = (hr_stage_cost){.f = ticks(r.forward_us / each),
                                  .i = ticks(r.input_grad_us / each),
                                  .w = ticks(r.weight_grad_us / each),
                                  .act_bytes = r.activation_bytes / k->pieces,
                                  .stash_bytes = r.stash_bytes / k->pieces,
                                  .boundary_bytes = r.boundary_bytes / k->pieces};
        held[part.rank] += r.param_bytes;
        if (both_ways)
            held[o->pp - 1 - part.rank] += r.param_bytes;
    }
    *param_bytes = 0;
    for (int i = 0; i < o->pp; i++)
        *param_bytes = held[i] > *param_bytes ? held[i] : *param_bytes;
    free(held);
    return st;
}

static hr_status along_layout(const plan_options *o, const plan_kind *k,
                              hr_stage_cost *cost, int stages, int64_t *param_bytes)
{
    hr_layout *layout = NULL;
    APP_TRY(lay_out(o, k, stages, &layout));
    hr_status st = measured(o, k, layout, cost, stages, param_bytes);
    hr_layout_destroy(layout);
    return st;
}

hr_status hr_app_plan_costs(const plan_options *o, const plan_kind *k,
                            hr_stage_cost *cost, int stages, int64_t *param_bytes)
{
    int last = hr_app_stage_list_last(o->recompute);
    if (last >= stages)
        return hr_fail(HR_ERR_INVALID, "recompute",
                       "--recompute %s: stage %d of %d; the last is %d", o->recompute,
                       last, stages, stages - 1);
    if (o->measured)
        APP_TRY(along_layout(o, k, cost, stages, param_bytes));
    else
        alike(o, k, cost, stages, param_bytes);
    for (int i = 0; i < stages; i++)
        cost[i].recompute = hr_app_stage_list_has(o->recompute, i);
    return HR_OK;
}
