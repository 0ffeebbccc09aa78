/* Reads a schedule and gives it costs where its format has none. */
#include "plan_read.h"
#include "app_try.h"
#include "plan_costs.h"
#include "whole_text.h"

#include <stdlib.h>

enum { MOST_TEXT = 64 << 20 }; /* what the library reads */

hr_status hr_app_plan_read_at(const plan_options *o, hr_status st)
{
    return st < 0 ? hr_fail(st, hr_last_reason(), "--check %s: %s", o->check,
                            hr_last_error())
                  : st;
}

static hr_status read_file(const plan_options *o, hr_schedule **out)
{
    char *text = NULL;
    size_t n = 0;
    APP_TRY(hr_app_read_file(o->check, MOST_TEXT, &text, &n));
    hr_status st = hr_app_plan_checks_csv(o) ? hr_schedule_parse_csv(text, n, out)
                                             : hr_schedule_parse(text, n, out);
    free(text);
    return hr_app_plan_read_at(o, st);
}

static hr_status set_costs(const plan_options *o, hr_schedule *s, hr_stage_cost *cost,
                           int stages)
{
    static const plan_kind whole = {.chunks = 1, .pieces = 1}; /* microbatches */
    int64_t param_bytes = 0;
    APP_TRY(hr_app_plan_costs(o, &whole, cost, stages, &param_bytes));
    for (int i = 0; i < stages; i++)
        APP_TRY(hr_schedule_set_cost(s, i, &cost[i]));
    APP_TRY(hr_schedule_set_latency(s, hr_app_plan_latency(o)));
    return hr_schedule_set_comm(s, hr_app_plan_transfer(o), o->pair_discount);
}

hr_status hr_app_plan_read(plan_options *o, hr_schedule **out)
{
    hr_schedule_shape shape = {HR_INIT(hr_schedule_shape)};
    *out = NULL;
    APP_TRY(read_file(o, out));
    if (!hr_app_plan_checks_csv(o))
        return HR_OK;
    hr_schedule_get_shape(*out, &shape);
    hr_stage_cost *cost = calloc((size_t)shape.stages, sizeof *cost);
    /* A profile is laid over the stages, on whichever ranks they are; other costs are a rank's. */
    o->pp = o->measured ? shape.stages : shape.ranks;
    hr_status st = cost ? set_costs(o, *out, cost, shape.stages)
                        : hr_fail(HR_ERR_NOMEM, NULL,
                                  "no memory for the costs of %d stages", shape.stages);
    free(cost);
    if (st < 0) {
        hr_schedule_destroy(*out);
        *out = NULL;
    }
    return st;
}
