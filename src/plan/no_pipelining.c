/* One training step on one stage. Overlapped, phase i runs the forward of microbatch i beside the
 * backward of i - 1; serial, one after the other with the same nodes. Either way gradients
 * accumulate in order of microbatch. */
#include "base/try.h"
#include "plan/flight.h"

typedef struct step {
    const hr_no_pipelining_opts *o;
    int64_t tokens; /* of all microbatches so far */
    bool no_sync;   /* is on */
} step;

typedef struct flight {
    hr__flight base; /* first: what the loss is called with */
    step *s;
    int64_t tokens; /* that its loss sums over; -1: unknown */
} flight;

static hr_status call_loss(hr__flight *base, hr_tensor *output, hr_tensor **loss)
{
    flight *fl = (flight *)base;
    hr_loss made = {.tokens = -1};
    hr_status st = fl->s->o->loss(fl->s->o->ctx, base->microbatch, output, &made);
    *loss = made.loss;
    fl->tokens = made.tokens;
    return st;
}

static hr_status make_plan(step *s, int m, bool overlap, flight *fl)
{
    *fl = (flight){
        .base = {.microbatch = m, .make_loss = call_loss}, .s = s, .tokens = -1};
    HR_TRY(s->o->plan(s->o->ctx, m, overlap, &fl->base.plan));
    return hr__flight_check_plan(&fl->base);
}

static hr_status divide(const step *s, const flight *fl)
{
    const hr_no_pipelining_opts *o = s->o;
    int m = fl->base.microbatch;
    if (o->loss_mode != HR_LOSS_MEAN_MICROBATCH || o->divide == NULL)
        return HR_OK;
    if (fl->tokens >= 0)
        HR_TRY(o->divide(o->ctx, m, fl->base.loss, fl->tokens));
    return o->divide(o->ctx, m, fl->base.loss, o->microbatches);
}

static hr_status count_and_divide(step *s, const flight *fl)
{
    if (fl->tokens > 0)
        s->tokens += fl->tokens;
    return divide(s, fl);
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
        HR_TRY(hr__flight_loss_backward(&b->base, &grad));
    HR_TRY(hr_schedule_plan_run(f ? f->base.plan : NULL, b ? b->base.plan : NULL, grad,
                                NULL, &output));
    hr_status st = b ? hr__flight_free_output(&b->base) : HR_OK;
    if (st >= 0 && f)
        st = hr__flight_loss_in_node(&f->base, output);
    hr_tensor_release(output);
    if (st >= 0 && f)
        st = count_and_divide(s, f);
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
        hr__flight_end(&b->base);
    }
    HR_TRY(no_sync(s, false));
    return phase(s, NULL, &fl[last % 2]);
}

static hr_status run_overlapped(step *s)
{
    flight fl[2] = {0};
    HR_TRY(hr_set_streams(NULL, s->o->high_priority));
    hr_status st = overlapped_phases(s, fl);
    hr__flight_end(&fl[0].base);
    hr__flight_end(&fl[1].base);
    return st;
}

/* ---- serial ------------------------------------------------------------------------------- */
static hr_status one_after_the_other(step *s, int m, flight *fl)
{
    hr_tensor *grad, *output = NULL, *none;
    HR_TRY(make_plan(s, m, false, fl));
    HR_TRY(hr_schedule_plan_run(fl->base.plan, NULL, NULL, NULL, &output));
    hr_status st = hr__flight_loss_in_place(&fl->base, output, s->o->forward_only);
    hr_tensor_release(output);
    HR_TRY(st);
    HR_TRY(count_and_divide(s, fl));
    if (s->o->forward_only)
        return HR_OK;
    HR_TRY(hr__flight_loss_backward(&fl->base, &grad));
    return hr_schedule_plan_run(NULL, fl->base.plan, grad, NULL, &none);
}

static hr_status serial_microbatch(step *s, int m)
{
    flight fl;
    hr_status st = one_after_the_other(s, m, &fl);
    hr__flight_end(&fl.base);
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
