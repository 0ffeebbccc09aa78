/* Reads a schedule and gives it costs where its format has none. */
#include "plan_read.h"
#include "app_try.h"
#include "plan_costs.h"
#include "schedule_file.h"

#include <stdlib.h>

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
    APP_TRY(hr_app_schedule_read("--check", o->check, out));
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
