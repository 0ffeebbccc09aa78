/* The abstract plan: whose table runs a pair of plans. */
#include "headrace/pipeline.h"
#include "trace/nvtx.h"

hr_status hr_schedule_plan_run(hr_schedule_plan *f, hr_schedule_plan *b,
                               hr_tensor *grad, const hr_plan_hooks *hooks,
                               hr_tensor **output)
{
    static const hr_plan_hooks none;
    *output = NULL;
    if (f == NULL && b == NULL)
        return hr_fail(HR_ERR_INVALID, "no_plan",
                       "running plans: neither forward nor backward");
    if (f == b)
        return hr_fail(HR_ERR_INVALID, "same_plan",
                       "running plans: one plan as forward and as backward");
    if (f && b && f->ops != b->ops)
        return hr_fail(HR_ERR_INVALID, "plan_kinds",
                       "running plans: forward is of kind '%s', backward of '%s'",
                       f->ops->name, b->ops->name);
    /* No range of hr_range_push(): the original has none here. */
    hr__nvtx_push(f && b ? "plan forward-backward"
                  : f    ? "plan forward"
                         : "plan backward");
    const hr_schedule_plan_ops *ops = f ? f->ops : b->ops;
    hr_status st = ops->run(f, b, grad, hooks ? hooks : &none, output);
    hr__nvtx_pop();
    return st;
}

void hr_schedule_plan_destroy(hr_schedule_plan *plan)
{
    if (plan)
        plan->ops->destroy(plan);
}
