/* A stage made of plans. Between the forward and the backward of a microbatch it keeps a flight: what
 * came in and the plan, or with recompute what came in alone. */
#include "base/try.h"
#include "headrace/exec.h"
#include "plan/chunk_plan.h"
#include "plan/flight.h"
#include "tensor/pool.h"

typedef struct flight {
    hr__flight base; /* first: what the loss is called with */
    hr_plan_stage *s;
    const hr_exec_at *at; /* of the call that is running */
    hr_tensor *in;        /* a leaf over what came; NULL: the first stage */
    struct flight *next;
} flight;

struct hr_plan_stage {
    hr_plan_stage_opts opts;
    hr_exec_stage fns;
    hr_wgrad_store *store;
    flight *head, **tail; /* in order of forward, which is mostly that of backward */
};

/* ---- flights ------------------------------------------------------------------------------ */
/* Where it hangs; what that points to is NULL if there is none. */
static flight **find(hr_plan_stage *s, int microbatch)
{
    flight **p = &s->head;
    while (*p && (*p)->base.microbatch != microbatch)
        p = &(*p)->next;
    return p;
}

static void land(flight *fl)
{
    flight **p = find(fl->s, fl->base.microbatch);
    *p = fl->next;
    if (fl->next == NULL)
        fl->s->tail = p;
    hr__flight_end(&fl->base);
    hr_tensor_release(fl->in);
    hr__pool_put(fl, sizeof *fl);
}

static hr_status call_loss(hr__flight *base, hr_tensor *output, hr_tensor **loss)
{
    flight *fl = (flight *)base;
    const hr_plan_stage_opts *o = &fl->s->opts;
    if (o->loss == NULL)
        return hr_fail(HR_ERR_INVALID, "no_argument",
                       "stage %d is the last, but has no function for the loss",
                       o->stage);
    return o->loss(o->ctx, fl->at, output, loss);
}

static hr_status take_off(hr_plan_stage *s, const hr_exec_at *at, hr_tensor *in,
                          flight **out)
{
    if (*find(s, at->microbatch))
        return hr_fail(HR_ERR_STATE, "forward_twice",
                       "stage %d, microbatch %d: forward again before its backward",
                       s->opts.stage, at->microbatch);
    flight *fl = hr__pool_get(sizeof *fl);
    if (fl == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a microbatch");
    *fl = (flight){.base = {.microbatch = at->microbatch, .make_loss = call_loss},
                   .s = s,
                   .at = at};
    *s->tail = fl;
    s->tail = &fl->next;
    *out = fl;
    return in ? hr__flight_receive(in, at->backward, &fl->in) : HR_OK;
}

static hr_status approach(hr_plan_stage *s, const hr_exec_at *at, flight **out)
{
    flight *fl = *out = *find(s, at->microbatch);
    if (fl == NULL)
        return hr_fail(HR_ERR_STATE, "no_forward",
                       "stage %d, microbatch %d: backward without its forward",
                       s->opts.stage, at->microbatch);
    fl->at = at;
    return HR_OK;
}

static hr_status build(flight *fl)
{
    hr_plan_stage *s = fl->s;
    const hr_plan_stage_opts *o = &s->opts;
    if (!o->serial && hr_get_comm_stream() == NULL)
        HR_TRY(hr_set_streams(NULL, false));
    hr_build_plan_opts opts = {HR_INIT(hr_build_plan_opts),
                               .microbatch = fl->base.microbatch,
                               .delay_wgrad = o->delay_wgrad,
                               .serial = o->serial,
                               .ncclep_zero_copy = o->ncclep_zero_copy,
                               .wgrad_store = fl->at->split ? s->store : NULL};
    HR_TRY(o->plan(o->ctx, fl->at, fl->in, &opts, &fl->base.plan));
    return hr__flight_check_plan(&fl->base);
}

/* ---- forward ------------------------------------------------------------------------------ */
/* What goes out has the only claim: the graph needs its outputs no more, and once it is sent the bytes
 * are free. */
static hr_status hand_out(hr_tensor *output, hr_tensor **out)
{
    if (output == NULL)
        return hr_fail(HR_ERR_CALLBACK, "no_output", "the plan put out nothing");
    HR_TRY(hr_tensor_alias(output, out));
    hr_tensor_drop(output, hr_get_comp_stream());
    return HR_OK;
}

/* Takes `output`. */
static hr_status end_forward(flight *fl, hr_tensor *output, hr_tensor **out)
{
    hr_status st;
    if (!fl->at->last)
        st = hand_out(output, out);
    else if (fl->s->opts.serial)
        st = hr__flight_loss_in_place(&fl->base, output, !hr_grad_mode());
    else
        st = hr__flight_loss_in_node(&fl->base, output);
    hr_tensor_release(output);
    return st;
}

static hr_status run_forward(flight *fl, hr_tensor **out)
{
    hr_tensor *output;
    HR_TRY(build(fl));
    HR_TRY(hr_schedule_plan_run(fl->base.plan, NULL, NULL, NULL, &output));
    return end_forward(fl, output, out);
}

static hr_status run_without_graph(flight *fl, hr_tensor **out)
{
    bool before = hr_grad_mode_set(false);
    hr_status st = run_forward(fl, out);
    hr_grad_mode_set(before);
    hr__flight_end(&fl->base);
    return st;
}

static hr_status forward(void *ctx, const hr_exec_at *at, hr_tensor *in,
                         hr_tensor **out)
{
    hr_plan_stage *s = ctx;
    flight *fl;
    *out = NULL;
    HR_TRY(take_off(s, at, in, &fl));
    if (at->backward && !s->opts.recompute)
        return run_forward(fl, out);
    hr_status st = run_without_graph(fl, out);
    if (!at->backward)
        land(fl);
    return st;
}

/* The same operations on the same input: the same bits. Its output was sent the first time. */
static hr_status forward_again(flight *fl)
{
    hr_tensor *again = NULL;
    hr_status st = run_forward(fl, &again);
    hr_tensor_release(again);
    return st;
}

/* ---- backward ----------------------------------------------------------------------------- */
static hr_status end_backward(flight *fl, hr_tensor **grad_in)
{
    HR_TRY(hr__flight_free_output(&fl->base));
    if (fl->in) {
        hr_tensor *grad = hr_tensor_grad(fl->in);
        if (grad == NULL)
            return hr_fail(HR_ERR_CALLBACK, "no_grad",
                           "stage %d, microbatch %d: its input got no gradient",
                           fl->s->opts.stage, fl->base.microbatch);
        *grad_in = hr_tensor_retain(grad);
    }
    land(fl);
    return HR_OK;
}

/* Whole, or for the input alone: the plan was built for what comes. */
static hr_status backward(void *ctx, const hr_exec_at *at, hr_tensor *grad,
                          hr_tensor **grad_in)
{
    flight *fl;
    hr_tensor *none;
    *grad_in = NULL;
    HR_TRY(approach(ctx, at, &fl));
    if (fl->s->opts.recompute)
        HR_TRY(forward_again(fl));
    if (at->last)
        HR_TRY(hr__flight_loss_backward(&fl->base, &grad));
    HR_TRY(hr_schedule_plan_run(NULL, fl->base.plan, grad, NULL, &none));
    return end_backward(fl, grad_in);
}

static hr_status weight_grad(void *ctx, const hr_exec_at *at)
{
    hr_plan_stage *s = ctx;
    int chunk = s->opts.vp_stage == HR_NO_STAGE ? 0 : s->opts.vp_stage;
    return hr_wgrad_store_run(s->store, chunk, at->microbatch);
}

/* ---- both --------------------------------------------------------------------------------- */
/* A hook that would be given something else than what leaves the stage is not called: the executor
 * makes up for it at the end. */
static hr_plan_hooks hooks_for(const hr_plan_hooks *given, const flight *f,
                               const flight *b)
{
    hr_plan_hooks h = *given;
    if (f->at->last || !hr__plan_ends_with_layers(f->base.plan))
        h.post_forward = NULL;
    if (b->at->first || !hr__plan_begins_with_layers(b->base.plan))
        h.post_backward = NULL;
    return h;
}

static hr_status pair(const hr_exec_half *f, const hr_exec_half *b,
                      const hr_plan_hooks *hooks)
{
    flight *ff, *bf;
    hr_tensor *grad = b->in, *output;
    *f->out = *b->out = NULL;
    HR_TRY(approach(b->ctx, b->at, &bf));
    HR_TRY(take_off(f->ctx, f->at, f->in, &ff));
    HR_TRY(build(ff));
    hr_plan_hooks h = hooks_for(hooks, ff, bf);
    if (b->at->last)
        HR_TRY(hr__flight_loss_backward(&bf->base, &grad));
    HR_TRY(hr_schedule_plan_run(ff->base.plan, bf->base.plan, grad, &h, &output));
    hr_status st = end_backward(bf, b->out);
    if (st < 0) {
        hr_tensor_release(output);
        return st;
    }
    return end_forward(ff, output, f->out);
}

/* ---- life --------------------------------------------------------------------------------- */
static hr_status reduce(void *ctx, int stage)
{
    hr_plan_stage *s = ctx;
    return s->opts.reduce(s->opts.ctx, stage);
}

static hr_status tokens(void *ctx, int microbatch, int64_t *n)
{
    hr_plan_stage *s = ctx;
    return s->opts.tokens(s->opts.ctx, microbatch, n);
}

static void drop(void *ctx)
{
    hr_plan_stage *s = ctx;
    while (s->head)
        land(s->head);
    hr_wgrad_store_clear(s->store);
}

static void fill(hr_plan_stage *s, const hr_plan_stage_opts *o)
{
    bool pairs = !o->serial && !o->recompute;
    s->opts = *o;
    s->tail = &s->head;
    s->fns = (hr_exec_stage){HR_INIT(hr_exec_stage),
                             .stage = o->stage,
                             .ctx = s,
                             .forward = forward,
                             .backward = backward,
                             .input_grad = backward,
                             .weight_grad = weight_grad,
                             .pair = pairs ? pair : NULL,
                             .reduce = o->reduce ? reduce : NULL,
                             .tokens = o->tokens ? tokens : NULL,
                             .drop = drop};
}

hr_status hr_plan_stage_create(const hr_plan_stage_opts *opts, hr_plan_stage **out)
{
    HR_NEED(out);
    *out = NULL;
    if (opts == NULL || opts->plan == NULL)
        return hr_fail(HR_ERR_INVALID, "no_argument",
                       "a stage needs a function for its plans");
    HR_CHECK_OPTS(opts, hr_plan_stage_opts);
    hr_plan_stage *s = hr__pool_get(sizeof *s);
    if (s == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a stage");
    fill(s, opts);
    hr_status st = hr_wgrad_store_create(opts->stage, &s->store);
    if (st < 0) {
        hr_plan_stage_destroy(s);
        return st;
    }
    *out = s;
    return HR_OK;
}

void hr_plan_stage_destroy(hr_plan_stage *s)
{
    if (s == NULL)
        return;
    drop(s);
    hr_wgrad_store_destroy(s->store);
    hr__pool_put(s, sizeof *s);
}

const hr_exec_stage *hr_plan_stage_fns(const hr_plan_stage *s)
{
    return &s->fns;
}
