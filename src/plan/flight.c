/* The loss of a microbatch stands outside of its plan: the plan may run beside another, the loss comes
 * after both, and its backward before the plan's. */
#include "plan/flight.h"

#include "autograd/lend_grad.h"
#include "base/try.h"

void hr__flight_end(hr__flight *fl)
{
    hr_tensor_release(fl->loss);
    hr_tensor_release(fl->output);
    hr_node_destroy(fl->loss_node);
    hr_schedule_plan_destroy(fl->plan);
    fl->loss = fl->output = NULL;
    fl->loss_node = NULL;
    fl->plan = NULL;
}

hr_status hr__flight_check_plan(const hr__flight *fl)
{
    if (fl->plan == NULL)
        return hr_fail(HR_ERR_CALLBACK, "no_plan", "microbatch %d: no plan was given",
                       fl->microbatch);
    return HR_OK;
}

hr_status hr__flight_receive(hr_tensor *in, bool backward, hr_tensor **leaf)
{
    HR_TRY(hr_tensor_detach(in, leaf));
    hr__grad_may_share(*leaf);
    return hr_tensor_set_requires_grad(*leaf, backward);
}

static hr_status call_loss(hr__flight *fl, hr_tensor *output)
{
    HR_TRY(fl->make_loss(fl, output, &fl->loss));
    if (fl->loss == NULL)
        return hr_fail(HR_ERR_CALLBACK, "no_loss", "microbatch %d: no loss was given",
                       fl->microbatch);
    return HR_OK;
}

static hr_status loss_node_forward(void *ctx, hr_node *node, hr_tensor *const *in,
                                   int n, hr_tensor **out, int *n_out)
{
    hr__flight *fl = ctx;
    HR_TRY(call_loss(fl, in[0]));
    out[0] = hr_tensor_retain(fl->loss);
    *n_out = 1;
    return HR_OK;
}

hr_status hr__flight_loss_in_node(hr__flight *fl, hr_tensor *output)
{
    hr_tensor *const *out;
    int n;
    HR_TRY(hr_schedule_node_create(
        &(hr_schedule_node_opts){HR_INIT(hr_schedule_node_opts), .name = "loss_func",
                                 .forward = loss_node_forward, .ctx = fl,
                                 .stream = hr_get_comp_stream(),
                                 .event = fl->plan->event},
        &fl->loss_node));
    hr_node_set_mark(fl->loss_node, -1, fl->microbatch);
    return hr_node_forward(fl->loss_node, &output, 1, &out, &n);
}

hr_status hr__flight_loss_in_place(hr__flight *fl, hr_tensor *output, bool forward_only)
{
    if (forward_only) {
        fl->output = hr_tensor_retain(output);
    } else {
        HR_TRY(hr_tensor_detach(output, &fl->output));
        HR_TRY(
            hr_tensor_set_requires_grad(fl->output, hr_tensor_requires_grad(output)));
    }
    return call_loss(fl, fl->output);
}

hr_status hr__flight_loss_backward(hr__flight *fl, hr_tensor **grad)
{
    hr_tensor *ones = NULL, *grads[HR_NODE_MAX];
    int n;
    HR_TRY(hr_backward(&fl->loss, &ones, 1));
    if (fl->loss_node) {
        HR_TRY(hr_node_get_grad(fl->loss_node, grads, &n));
        *grad = grads[0];
    } else {
        *grad = hr_tensor_grad(fl->output);
    }
    return HR_OK;
}

hr_status hr__flight_free_output(hr__flight *fl)
{
    hr_tensor *t = fl->loss_node ? hr_node_input(fl->loss_node, 0) : NULL;
    if (t == NULL)
        return HR_OK;
    HR_TRY(hr_tensor_record_stream(t, hr_get_comp_stream()));
    hr_tensor_drop(t, hr_get_comp_stream());
    return HR_OK;
}
