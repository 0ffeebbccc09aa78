/* One slot: a computation, or an overlapped pair of them. */
#include "base/try.h"
#include "exec/exec_impl.h"

/* ---- before and after a computation ----------------------------------------------------------- */
static bool is_backward(const hr__act *a)
{
    return a->kind == HR_ACTION_B || a->kind == HR_ACTION_I;
}

static const hr_exec_stage *stage_of(const hr__step *x, const hr__act *a)
{
    return &x->e->stage[a->mine];
}

static hr_exec_at where(const hr__step *x, const hr__act *a, bool paired)
{
    int stage = stage_of(x, a)->stage;
    bool last = stage + 1 == x->p->stages;
    return (hr_exec_at){
        .stage = stage,
        .chunk = a->mine,
        .microbatch = a->microbatch,
        .first = stage == 0,
        .last = last,
        .backward = !x->p->forward_only,
        .split = a->split,
        .paired = paired,
        .step = &x->counts,
        .scale = last ? hr_loss_scale(&x->counts, x->p->tokens[a->microbatch]) : 0,
    };
}

static hr_tensor *value(const hr__step *x, int cell)
{
    return cell == HR__NONE ? NULL : x->p->cell[cell].t;
}

/* The host has what it needs, and the stage's output of this microbatch has left: it was used on
 * the other side for the gradient to come. */
static hr_status before(hr__step *x, const hr__act *a)
{
    if (a->left != HR__NONE)
        HR_TRY(hr_event_wait(x->p->left[a->left], x->compute));
    return hr__expect_cell(x, a->in);
}

static hr_status check_output(const hr__step *x, const hr__act *a, const hr_tensor *out)
{
    int stage = stage_of(x, a)->stage;
    if ((out != NULL) != (a->out != HR__NONE))
        return hr_fail(HR_ERR_CALLBACK, "exec_output",
                       out ? "put something out, though the model ends here"
                           : "put nothing out");
    return out ? hr__shape_check(x, is_backward(a) ? stage : stage + 1, out) : HR_OK;
}

/* Takes `out`. */
static hr_status after(hr__step *x, const hr__act *a, hr_tensor *out)
{
    hr_status st = check_output(x, a, out);
    if (is_backward(a))
        hr__drop_cell(x->p, a->in);
    hr__drop_cell(x->p, a->done);
    if (st < 0 || a->out == HR__NONE || x->p->cell[a->out].sent)
        hr_tensor_release(out);
    else
        x->p->cell[a->out].t = out;
    return st;
}

/* ---- one --------------------------------------------------------------------------------------- */
static hr_status call(const hr__step *x, const hr__act *a, hr_tensor **out)
{
    const hr_exec_stage *s = stage_of(x, a);
    hr_exec_at at = where(x, a, false);
    hr_tensor *in = value(x, a->in);
    switch (a->kind) {
    case HR_ACTION_F:
        return s->forward(s->ctx, &at, in, out);
    case HR_ACTION_B:
        return s->backward(s->ctx, &at, in, out);
    case HR_ACTION_I:
        return s->input_grad(s->ctx, &at, in, out);
    default:
        return s->weight_grad(s->ctx, &at);
    }
}

static hr_status run(hr__step *x, const hr__act *a)
{
    hr_tensor *out = NULL;
    HR_TRY(before(x, a));
    HR_TRY(hr__wait_cell(x, a->in));
    hr_mark_set(-1, a->microbatch);
    hr_status st = call(x, a, &out);
    if (st < 0) {
        hr_tensor_release(out);
        return st;
    }
    return after(x, a, out);
}

static hr_status run_act(hr__step *x, const hr__act *a)
{
    hr_error_clear();
    hr_status st = run(x, a);
    return st < 0 ? hr__act_failed(x, a, st) : HR_OK;
}

/* ---- two at once ------------------------------------------------------------------------------- */
typedef struct pair {
    hr__step *x;
    const hr__act *f, *b;
} pair;

static hr_status pre_forward(void *ctx, int vp_stage)
{
    pair *p = ctx;
    return hr__wait_cell(p->x, p->f->in);
}

static hr_status pre_backward(void *ctx, int vp_stage)
{
    pair *p = ctx;
    return hr__wait_cell(p->x, p->b->in);
}

/* Along one channel sends keep their order: does one before `at` still stand out there? */
static bool is_next(const hr__step *x, int at)
{
    const hr__op *op = &x->p->op[at];
    for (int i = at - 1; i >= 0 && x->p->op[i].kind == HR__SEND; i--)
        if (x->p->op[i].wire == op->wire && !x->p->cell[x->p->op[i].cell].sent)
            return false;
    return true;
}

/* What does not leave here leaves behind the slot. */
static hr_status leave(hr__step *x, const hr__act *a, hr_tensor *t)
{
    if (!t || a->send == HR__NONE || x->p->cell[a->out].sent || !is_next(x, a->send))
        return HR_OK;
    HR_TRY(check_output(x, a, t));
    HR_TRY(hr__post_send(x, &x->p->op[a->send], t));
    x->p->cell[a->out].sent = true;
    return HR_OK;
}

static hr_status post_forward(void *ctx, hr_tensor *output, int vp_stage)
{
    pair *p = ctx;
    return leave(p->x, p->f, output);
}

static hr_status post_backward(void *ctx, hr_tensor *grad, int vp_stage)
{
    pair *p = ctx;
    return leave(p->x, p->b, grad);
}

static hr_status run_both(hr__step *x, const hr__act *f, const hr__act *b)
{
    pair p = {x, f, b};
    const hr_plan_hooks hooks = {&p, pre_forward, pre_backward, post_forward,
                                 post_backward};
    hr_exec_at f_at = where(x, f, true), b_at = where(x, b, true);
    hr_tensor *out = NULL, *back = NULL;
    HR_TRY(before(x, f));
    HR_TRY(before(x, b));
    hr_exec_half fh = {stage_of(x, f)->ctx, &f_at, value(x, f->in), &out};
    hr_exec_half bh = {stage_of(x, b)->ctx, &b_at, value(x, b->in), &back};
    hr_mark_set(-1, f->microbatch);
    hr_status st = stage_of(x, f)->pair(&fh, &bh, &hooks);
    if (st >= 0)
        st = hr__wait_cell(x, f->in);
    if (st >= 0)
        st = hr__wait_cell(x, b->in);
    if (st < 0) {
        hr_tensor_release(out);
        hr_tensor_release(back);
        return st;
    }
    st = after(x, f, out);
    hr_status second = after(x, b, back);
    return st < 0 ? st : second;
}

/* NULL: they run one after the other. */
static const hr__act *half(const hr__act *a, const hr__op *op, bool backward)
{
    for (int i = 0; i < op->n; i++)
        if (backward ? is_backward(&a[i]) : a[i].kind == HR_ACTION_F)
            return &a[i];
    return NULL;
}

static bool run_together(const hr__step *x, const hr__op *op, const hr__act **f,
                         const hr__act **b)
{
    const hr__act *a = &x->p->act[op->first];
    *f = half(a, op, false);
    *b = half(a, op, true);
    return op->n == 2 && *f && *b && stage_of(x, *f)->pair &&
           stage_of(x, *f)->pair == stage_of(x, *b)->pair;
}

/* What the first makes leaves before the second begins. */
static hr_status run_in_turn(hr__step *x, const hr__op *op)
{
    for (int i = 0; i < op->n; i++) {
        const hr__act *a = &x->p->act[op->first + i];
        HR_TRY(run_act(x, a));
        hr_status st = leave(x, a, value(x, a->out));
        if (st < 0)
            return hr__op_failed(x, &x->p->op[a->send], st);
        if (a->out != HR__NONE && x->p->cell[a->out].sent) {
            hr_tensor_release(x->p->cell[a->out].t);
            x->p->cell[a->out].t = NULL;
        }
    }
    return HR_OK;
}

hr_status hr__run_slot(hr__step *x, const hr__op *op)
{
    const hr__act *f, *b;
    if (run_together(x, op, &f, &b)) {
        hr_error_clear();
        hr_status st = run_both(x, f, b);
        if (st < 0)
            return hr__pair_failed(x, f, b, st);
    } else {
        HR_TRY(run_in_turn(x, op));
    }
    hr_event *end = x->e->slot[x->slots++ % HR__SLOTS_BEHIND];
    return hr_event_record(end, x->compute);
}
