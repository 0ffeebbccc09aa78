/* One step: ranks compare what they are about to do, then each walks its program once and issues. */
#include "base/try.h"
#include "exec/exec_impl.h"

/* ---- before ------------------------------------------------------------------------------------ */
static hr_status check(const hr_exec *e, const hr_program *p,
                       const hr_exec_step_opts *opts)
{
    if (!p)
        return hr_fail(HR_ERR_INVALID, "no_program", "hr_exec_step: no program");
    HR_CHECK_OPTS(opts, hr_exec_step_opts);
    if (p->e != e)
        return hr_fail(HR_ERR_INVALID, "other_exec",
                       "hr_exec_step: the program is of another executor");
    if (opts && ((int)opts->mode < HR_LOSS_SUM || opts->mode > HR_LOSS_MEAN_TOKEN))
        return hr_fail(HR_ERR_INVALID, "loss_mode", "hr_exec_step: mode %d is none",
                       (int)opts->mode);
    return HR_OK;
}

/* Valid tokens of the microbatches whose loss is made here; `sum` of them all. */
static hr_status count_tokens(hr__step *x, int64_t *sum)
{
    const hr_program *p = x->p;
    *sum = 0;
    for (int i = 0; x->counts.mode != HR_LOSS_SUM && i < p->n_acts; i++) {
        const hr__act *a = &p->act[i];
        const hr_exec_stage *s = &x->e->stage[a->mine];
        if (a->kind != HR_ACTION_F || s->stage + 1 != p->stages)
            continue;
        int64_t *n = &p->tokens[a->microbatch];
        hr_error_clear();
        hr_status st = s->tokens
                           ? s->tokens(s->ctx, a->microbatch, n)
                           : hr_fail(HR_ERR_INVALID, "exec_tokens",
                                     "a mean, and the stage does not count tokens");
        if (st >= 0 && *n < 0)
            st = hr_fail(HR_ERR_CALLBACK, "exec_tokens", "%lld tokens", (long long)*n);
        if (st < 0)
            return hr__act_failed(x, a, st);
        *sum += *n;
    }
    return HR_OK;
}

/* Pipelines that hold the same sequences (tensor parallel) all count them. */
static int64_t tokens_of_all(const hr_exec *e)
{
    int n = hr_group_size(e->world);
    int64_t sum = 0;
    for (int r = 0; r < n; r++)
        sum += e->seen[r].tokens;
    return sum / (n / (e->ranks * e->dp));
}

static hr_status say(hr__step *x, const hr_exec_step_opts *opts, hr__word *w)
{
    const hr_program *p = x->p;
    HR_TRY(check(x->e, p, opts));
    x->counts.mode = opts ? opts->mode : HR_LOSS_SUM;
    *w = (hr__word){.deed = HR__STEPS,
                    .ranks = p->ranks,
                    .stages = p->stages,
                    .microbatches = p->microbatches,
                    .forward_only = p->forward_only,
                    .mode = x->counts.mode,
                    .hash = p->hash,
                    .fingerprint = x->e->fingerprint};
    return count_tokens(x, &w->tokens);
}

/* One rank's failure to begin is that of all. */
static hr_status agree(hr__step *x, const hr_exec_step_opts *opts)
{
    const hr_program *p = x->p;
    hr__word w = {.deed = HR__STEPS};
    hr_status st = say(x, opts, &w);
    if (st < 0)
        hr__word_fail(&w, st);
    HR_TRY(hr__agree(x->e, &w));
    x->counts.microbatches = (int64_t)p->microbatches * x->e->dp;
    if (x->counts.mode == HR_LOSS_MEAN_TOKEN)
        x->counts.tokens = tokens_of_all(x->e);
    return HR_OK;
}

/* ---- the walk ---------------------------------------------------------------------------------- */
static hr_status begin(hr__step *x)
{
    hr_exec *e = x->e;
    for (int i = 0; i < HR__SLOTS_BEHIND; i++)
        HR_TRY(hr_event_record(e->slot[i], x->compute));
    for (int i = 0; i < e->n_wires; i++) {
        e->wire[i].sends = 0;
        e->wire[i].used = false;
        e->wire[i].waited = HR__NONE;
        e->wire[i].pending = HR__NONE;
    }
    return HR_OK;
}

static hr_status reduce(const hr__step *x, const hr__op *op)
{
    const hr_exec_stage *s = &x->e->stage[op->mine];
    return s->reduce ? s->reduce(s->ctx, s->stage) : HR_OK;
}

static hr_status run_op(hr__step *x, const hr__op *op)
{
    hr_error_clear();
    switch (op->kind) {
    case HR__SLOT:
        return hr__run_slot(x, op);
    case HR__SEND:
        return hr__send(x, op);
    case HR__RECV:
        return hr__recv(x, op);
    default:
        return reduce(x, op);
    }
}

/* Where the job has failed meanwhile nothing more is begun. */
static hr_status walk(hr__step *x)
{
    HR_TRY(begin(x));
    for (int i = 0; i < x->p->n_ops; i++) {
        const hr__op *op = &x->p->op[i];
        HR_TRY(hr_device_status(x->e->dev));
        hr_status st = run_op(x, op);
        if (st < 0)
            return hr__op_failed(x, op, st);
    }
    HR_TRY(hr__await_sends(x));
    return hr_device_status(x->e->dev);
}

/* The first cause is what all ranks return, and nothing stays. */
static hr_status give_up(hr__step *x, hr_status st)
{
    hr_exec *e = x->e;
    hr_group_abort(e->world, st);
    for (int i = 0; i < x->p->n_cells; i++)
        hr__drop_cell(x->p, i);
    for (int i = 0; i < e->n_stages; i++)
        if (e->stage[i].drop)
            e->stage[i].drop(e->stage[i].ctx);
    return hr_group_status(e->world);
}

static hr_status run(hr__step *x)
{
    int layer, microbatch;
    hr_mark_get(&layer, &microbatch);
    bool grad_mode = hr_grad_mode_set(hr_grad_mode() && !x->p->forward_only);
    hr_status st = walk(x);
    hr_grad_mode_set(grad_mode);
    hr_mark_set(layer, microbatch);
    return st < 0 ? give_up(x, st) : HR_OK;
}

hr_status hr_exec_step(hr_exec *e, const hr_program *p, const hr_exec_step_opts *opts,
                       hr_step_counts *counts)
{
    if (!e)
        return hr_fail(HR_ERR_INVALID, "no_exec", "hr_exec_step: no executor");
    HR_TRY(hr_device_status(e->dev));
    hr__step x = {.e = e, .p = p, .compute = hr_stream_current()};
    HR_TRY(agree(&x, opts));
    if (counts)
        *counts = x.counts;
    return run(&x);
}
