/* One training step on one stage. Overlapped, phase i runs the forward of microbatch i beside the
 * backward of i - 1; serial, one after the other with the same nodes. Either way gradients
 * accumulate in order of microbatch. */
#include "base/try.h"
#include "headrace/plan.h"

typedef struct step {
    const hr_no_pipelining_opts *o;
    int64_t tokens; /* of all microbatches so far */
    bool no_sync;   /* is on */
} step;

/* One microbatch between its forward and its backward. */
typedef struct flight {
    int m;
    hr_schedule_plan *plan;
    hr_node *loss_node; /* holds the plan's output, detached; NULL: `output` does */
    hr_tensor *output;  /* serial: the same */
    hr_loss loss;
    step *s;
} flight;

static void flight_end(flight *fl)
{
    hr_tensor_release(fl->loss.loss);
    hr_tensor_release(fl->output);
    hr_node_destroy(fl->loss_node);
    hr_schedule_plan_destroy(fl->plan);
    *fl = (flight){.m = -1};
}

static hr_status make_plan(step *s, int m, bool overlap, flight *fl)
{
    *fl = (flight){.m = m, .s = s, .loss = {.tokens = -1}};
    HR_TRY(s->o->plan(s->o->ctx, m, overlap, &fl->plan));
    if (fl->plan == NULL)
        return hr_fail(HR_ERR_CALLBACK, "no_plan", "microbatch %d: no plan was given",
                       m);
    return HR_OK;
}

/* ---- the loss ----------------------------------------------------------------------------- */
static hr_status divide(const step *s, const flight *fl)
{
    const hr_no_pipelining_opts *o = s->o;
    if (o->loss_mode != HR_LOSS_MEAN_MICROBATCH || o->divide == NULL)
        return HR_OK;
    if (fl->loss.tokens >= 0)
        HR_TRY(o->divide(o->ctx, fl->m, fl->loss.loss, fl->loss.tokens));
    return o->divide(o->ctx, fl->m, fl->loss.loss, o->microbatches);
}

static hr_status call_loss(flight *fl, hr_tensor *output)
{
    const hr_no_pipelining_opts *o = fl->s->o;
    HR_TRY(o->loss(o->ctx, fl->m, output, &fl->loss));
    if (fl->loss.loss == NULL)
        return hr_fail(HR_ERR_CALLBACK, "no_loss", "microbatch %d: no loss was given",
                       fl->m);
    return HR_OK;
}

static hr_status loss_node_forward(void *ctx, hr_node *node, hr_tensor *const *in,
                                   int n, hr_tensor **out, int *n_out)
{
    flight *fl = ctx;
    HR_TRY(call_loss(fl, in[0]));
    out[0] = hr_tensor_retain(fl->loss.loss);
    *n_out = 1;
    return HR_OK;
}

static void count_tokens(step *s, const flight *fl)
{
    if (fl->loss.tokens > 0)
        s->tokens += fl->loss.tokens;
}

/* Overlapped: in a node of its own on the compute stream, ordered by the plan's event. */
static hr_status loss_in_node(step *s, flight *fl, hr_tensor *output)
{
    hr_tensor *const *out;
    int n;
    HR_TRY(hr_schedule_node_create(
        &(hr_schedule_node_opts){HR_INIT(hr_schedule_node_opts), .name = "loss_func",
                                 .forward = loss_node_forward, .ctx = fl,
                                 .stream = hr_get_comp_stream(),
                                 .event = fl->plan->event},
        &fl->loss_node));
    hr_node_set_mark(fl->loss_node, -1, fl->m);
    HR_TRY(hr_node_forward(fl->loss_node, &output, 1, &out, &n));
    count_tokens(s, fl);
    return divide(s, fl);
}

/* Serial: on the one stream, no event needed; cut from the plan's graph unless nothing goes back. */
static hr_status loss_in_place(step *s, flight *fl, hr_tensor *output)
{
    if (s->o->forward_only) {
        fl->output = hr_tensor_retain(output);
    } else {
        HR_TRY(hr_tensor_detach(output, &fl->output));
        HR_TRY(
            hr_tensor_set_requires_grad(fl->output, hr_tensor_requires_grad(output)));
    }
    HR_TRY(call_loss(fl, fl->output));
    count_tokens(s, fl);
    return divide(s, fl);
}

/* Outside of any node. *grad is borrowed from the detached output. */
static hr_status loss_backward(flight *fl, hr_tensor **grad)
{
    hr_tensor *ones = NULL, *grads[HR_NODE_MAX];
    int n;
    HR_TRY(hr_backward(&fl->loss.loss, &ones, 1));
    if (fl->loss_node) {
        HR_TRY(hr_node_get_grad(fl->loss_node, grads, &n));
        *grad = grads[0];
    } else {
        *grad = hr_tensor_grad(fl->output);
    }
    return HR_OK;
}

/* The output's bytes are not needed once its backward is issued. */
static hr_status free_output(flight *fl)
{
    hr_tensor *t = fl->loss_node ? hr_node_input(fl->loss_node, 0) : NULL;
    if (t == NULL)
        return HR_OK;
    HR_TRY(hr_tensor_record_stream(t, hr_get_comp_stream()));
    hr_tensor_drop(t, hr_get_comp_stream());
    return HR_OK;
}

static hr_status no_sync(step *s, bool on)
{
    s->no_sync = false; /* whatever comes of it, it is asked for once */
    if (s->o->no_sync)
        HR_TRY(s->o->no_sync(s->o->ctx, on));
    s->no_sync = on;
    return HR_OK;
}

/* ---- overlapped --------------------------------------------------------------------------- */
/* Forward of `f` (NULL: none) beside backward of `b` (NULL: none), then the loss of `f`. */
static hr_status phase(step *s, flight *f, flight *b)
{
    hr_tensor *grad = NULL, *output = NULL;
    if (b)
        HR_TRY(loss_backward(b, &grad));
    HR_TRY(hr_schedule_plan_run(f ? f->plan : NULL, b ? b->plan : NULL, grad, NULL,
                                &output));
    hr_status st = b ? free_output(b) : HR_OK;
    if (st >= 0 && f)
        st = loss_in_node(s, f, output);
    hr_tensor_release(output);
    return st;
}

static hr_status overlapped_phases(step *s, flight fl[2])
{
    int last = s->o->microbatches > 0 ? s->o->microbatches - 1 : 0;
    HR_TRY(make_plan(s, 0, true, &fl[0]));
    HR_TRY(phase(s, &fl[0], NULL));
    HR_TRY(no_sync(s, true));
    for (int m = 1; m <= last; m++) {
        flight *f = &fl[m % 2], *b = &fl[(m - 1) % 2];
        HR_TRY(make_plan(s, m, true, f));
        HR_TRY(phase(s, f, b));
        flight_end(b);
    }
    HR_TRY(no_sync(s, false));
    return phase(s, NULL, &fl[last % 2]);
}

static hr_status run_overlapped(step *s)
{
    flight fl[2] = {{.m = -1}, {.m = -1}};
    HR_TRY(hr_set_streams(NULL, s->o->high_priority));
    hr_status st = overlapped_phases(s, fl);
    flight_end(&fl[0]);
    flight_end(&fl[1]);
    return st;
}

/* ---- serial ------------------------------------------------------------------------------- */
static hr_status one_after_the_other(step *s, int m, flight *fl)
{
    hr_tensor *grad, *output = NULL, *none;
    HR_TRY(make_plan(s, m, false, fl));
    HR_TRY(hr_schedule_plan_run(fl->plan, NULL, NULL, NULL, &output));
    hr_status st = loss_in_place(s, fl, output);
    hr_tensor_release(output);
    if (st < 0 || s->o->forward_only)
        return st;
    HR_TRY(loss_backward(fl, &grad));
    return hr_schedule_plan_run(NULL, fl->plan, grad, NULL, &none);
}

static hr_status serial_microbatch(step *s, int m)
{
    flight fl;
    hr_status st = one_after_the_other(s, m, &fl);
    flight_end(&fl);
    return st;
}

/* The last one stands apart, and so there is one even where none was asked for. */
static hr_status run_serial(step *s)
{
    int last = s->o->microbatches - 1;
    HR_TRY(no_sync(s, true));
    for (int m = 0; m < last; m++)
        HR_TRY(serial_microbatch(s, m));
    HR_TRY(no_sync(s, false));
    return serial_microbatch(s, last);
}

static hr_status check(const hr_no_pipelining_opts *o)
{
    if (o == NULL || o->plan == NULL || o->loss == NULL)
        return hr_fail(HR_ERR_INVALID, "no_argument",
                       "a step needs functions for plan and loss");
    HR_CHECK_OPTS(o, hr_no_pipelining_opts);
    if (o->microbatches < 0)
        return hr_fail(HR_ERR_INVALID, "microbatches", "a step of %d microbatches",
                       o->microbatches);
    if (hr_get_comp_stream() == NULL)
        return hr_fail(HR_ERR_STATE, "no_device", "a step without current device");
    return HR_OK;
}

hr_status hr_forward_backward_no_pipelining(const hr_no_pipelining_opts *opts)
{
    HR_TRY(check(opts));
    step s = {.o = opts};
    bool grad_mode = hr_grad_mode();
    if (opts->forward_only)
        hr_grad_mode_set(false); /* nothing goes back: nothing is kept */
    hr_status st =
        opts->overlap && !opts->forward_only ? run_overlapped(&s) : run_serial(&s);
    hr_grad_mode_set(grad_mode);
    if (st < 0 && s.no_sync) /* the next step finds it off; `st` is the cause */
        (void)!no_sync(&s, false);
    HR_TRY(st);
    if (opts->final == NULL || opts->forward_only)
        return HR_OK;
    return opts->final(opts->ctx,
                       opts->loss_mode == HR_LOSS_MEAN_TOKEN ? s.tokens : -1);
}
