/* moe/moe_experts.c: the experts' products for either kind of dispatcher: over limits that the host knows,
 * or over those that lie in device memory; and the last product, which the symmetric kind has write
 * the buffer that combine sends. */
#include "base/try.h" /* HR_TRY */
#include "moe/moe_route.h"

static hr_status product(hr_route *r, hr_tensor *x, hr_tensor *w, hr_wgrad_queue *queue,
                         hr_tensor *into, hr_tensor **out)
{
    if (r->owner->zc == NULL)
        return hr_op_grouped_linear(x, w, r->offsets, queue, out);
    hr__use_here(r->limits);
    return hr_op_grouped_linear_slack(x, w, r->limits, queue, into, out);
}

hr_status hr_moe_grouped(hr_route *route, hr_tensor *x, hr_tensor *w,
                         hr_wgrad_queue *queue, hr_tensor **out)
{
    *out = NULL;
    HR_TRY(hr__route_check_known(route, "moe_grouped"));
    return product(route, x, w, queue, NULL, out);
}

hr_status hr_moe_swiglu(hr_route *route, hr_tensor *x, hr_tensor *scale,
                        hr_tensor **out)
{
    *out = NULL;
    HR_TRY(hr__route_check_known(route, "moe_swiglu"));
    if (route->owner->zc == NULL)
        return hr_op_swiglu(x, scale, out);
    hr__use_here(route->limits);
    return hr_op_swiglu_slack(x, scale, route->limits, out);
}

hr_status hr_moe_grouped_last(hr_route *route, hr_tensor *x, hr_tensor *w,
                              hr_wgrad_queue *queue, hr_tensor **out)
{
    static const char call[] = "moe_grouped_last";

    *out = NULL;
    HR_TRY(hr__route_check_known(route, call));
    hr__zero_copy *zc = route->owner->zc;

    if (zc == NULL)
        return product(route, x, w, queue, NULL, out);
    HR_TRY(hr__buffer_step(zc->f, HR__FREE, HR__STAGED, call));
    hr_status st = product(route, x, w, queue, zc->f->rows, out);
    if (st < 0) { /* nothing was launched */
        zc->f->state = HR__FREE;
        return st;
    }
    zc->f->owner = route;
    return hr__buffer_used(zc->f);
}
