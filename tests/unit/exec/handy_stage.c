/* The handy model: the functions of a stage and their kernels; see handy.h. */
#include "base/try.h"
#include "unit/exec/handy.h"

#include <sched.h>

/* ---- kernels ----------------------------------------------------------------------------------- */
struct work {
    float *out, *sum; /* NULL: none */
    const float *a, *b;
    float by;
    int n;
};

/* out = by * a, or by; sum += a . b */
static hr_status multiply(const void *args, hr_team *team)
{
    const struct work *w = args;
    for (int i = 0; w->out && i < w->n; i++)
        w->out[i] = w->a ? w->by * w->a[i] : w->by;
    for (int i = 0; w->sum && i < w->n; i++)
        *w->sum += w->b ? w->a[i] * w->b[i] : w->a[i];
    return HR_OK;
}

static hr_status launch(struct work w)
{
    size_t bytes = (size_t)w.n * sizeof(float);
    hr_operand o[4];
    int n = 0;
    if (w.out)
        o[n++] = (hr_operand){w.out, bytes, HR_WRITE};
    if (w.sum)
        o[n++] = (hr_operand){w.sum, sizeof(float), HR_READ_WRITE};
    if (w.a)
        o[n++] = (hr_operand){w.a, bytes, HR_READ};
    if (w.b)
        o[n++] = (hr_operand){w.b, bytes, HR_READ};
    return hr_launch(hr_stream_current(), "multiply", multiply, &w, sizeof w, o, n);
}

/* ---- the functions of a stage ------------------------------------------------------------------ */
static bool goes_wrong(const handy_stage *s, hr_action_kind kind, int m)
{
    const handy *h = s->h;
    return kind == h->fail_kind && s->stage == h->fail_stage && m == h->fail_microbatch;
}

static hr_status fail_here(const void *args, hr_team *team)
{
    return hr_fail(HR_ERR_CALLBACK, "made_up", "out of memory, say");
}

static hr_status maybe_fail(const handy_stage *s, hr_action_kind kind, int m)
{
    if (!goes_wrong(s, kind, m))
        return HR_OK;
    if (s->h->fault == HANDY_FAILS)
        return fail_here(NULL, NULL);
    if (s->h->fault == HANDY_KERNEL)
        return hr_launch(hr_stream_current(), "fail_here", fail_here, NULL, 0, NULL, 0);
    while (s->h->fault == HANDY_STUCK && hr_group_status(s->h->world) == HR_OK)
        sched_yield();
    return HR_OK;
}

int handy_length(const handy *h, int m)
{
    return h->length[h->vary ? m : 0];
}

static void note_place(handy *h, const hr_tensor *t)
{
    const void *at = hr_tensor_data(t);
    for (int i = 0; i < h->places; i++)
        if (h->place[i] == at)
            return;
    if (h->places < (int)(sizeof h->place / sizeof h->place[0]))
        h->place[h->places++] = at;
}

static hr_status make_long(handy *h, int64_t n, hr_tensor **out)
{
    HR_TRY(hr_tensor_create(HR_F32, 1, &n, out));
    note_place(h, *out);
    return HR_OK;
}

static hr_status make(handy *h, int m, hr_tensor **out)
{
    return make_long(h, handy_length(h, m), out);
}

static hr_status make_output(const handy_stage *s, hr_action_kind kind, int m,
                             hr_tensor **out)
{
    bool wrong = goes_wrong(s, kind, m);
    bool longer = wrong && s->h->fault == HANDY_SHAPE;
    HR_TRY(make_long(s->h, handy_length(s->h, m) + longer, out));
    return wrong && s->h->fault == HANDY_HALF ? fail_here(NULL, NULL) : HR_OK;
}

static void note_live(handy *h, int change)
{
    h->live += change;
    h->peak = h->live > h->peak ? h->live : h->peak;
}

static void let_go(hr_tensor **t)
{
    hr_tensor_release(*t);
    *t = NULL;
}

/* What was put out is on its way. */
void handy_give_up(handy *h)
{
    if (h->put_out)
        hr_tensor_drop(h->put_out, NULL);
    let_go(&h->put_out);
}

static bool is_mine(const handy *h, int stage)
{
    for (int i = 0; i < h->n_mine; i++)
        if (h->mine[i] == stage)
            return true;
    return false;
}

/* To be given up, unless the neighbour on this rank has the same handle. */
static void note_output(handy_stage *s, hr_tensor *out, int neighbour)
{
    if (!s->h->free_early || s->h->put_out || is_mine(s->h, neighbour))
        return;
    s->h->put_out = hr_tensor_retain(out);
}

static hr_status keep_input(handy_stage *s, const hr_exec_at *at, hr_tensor *in)
{
    handy *h = s->h;
    int m = at->microbatch;
    HOLDS((in == NULL) == at->first && s->x[m] == NULL);
    if (in) {
        HOLDS(hr_tensor_count(in) == handy_length(h, m));
        s->x[m] = hr_tensor_retain(in);
        note_place(h, in);
        return HR_OK;
    }
    HR_TRY(make(h, m, &s->x[m]));
    return launch((struct work){
        .out = hr_tensor_f32(s->x[m]), .by = (float)(m + 1), .n = handy_length(h, m)});
}

static hr_status enter(const handy_stage *s, hr_action_kind kind, const hr_exec_at *at)
{
    handy *h = s->h;
    HOLDS(h->n_log < HANDY_LOG && at->stage == s->stage);
    h->log[h->n_log++] = (hr_action){
        .microbatch = at->microbatch, .stage = (uint16_t)s->stage, .kind = kind};
    if (!at->paired)
        handy_give_up(h);
    return maybe_fail(s, kind, at->microbatch);
}

static hr_status forward(void *ctx, const hr_exec_at *at, hr_tensor *in,
                         hr_tensor **out)
{
    handy_stage *s = ctx;
    int m = at->microbatch, n = handy_length(s->h, m);
    HR_TRY(enter(s, HR_ACTION_F, at));
    HR_TRY(keep_input(s, at, in));
    if (at->last) {
        s->scale[m] = (float)at->scale; /* the loss is the sum of y, times that */
    } else {
        HR_TRY(make_output(s, HR_ACTION_F, m, out));
        HR_TRY(launch((struct work){.out = hr_tensor_f32(*out),
                                    .a = hr_tensor_f32(s->x[m]),
                                    .by = handy_weight(s->stage),
                                    .n = n}));
        note_output(s, *out, s->stage + 1);
    }
    if (at->backward)
        note_live(s->h, 1);
    else
        let_go(&s->x[m]);
    return HR_OK;
}

/* Where the model ends its gradient is the scale of the loss. */
static hr_status keep_grad(handy_stage *s, const hr_exec_at *at, hr_tensor *grad)
{
    int m = at->microbatch;
    if (!at->last) {
        s->dy[m] = hr_tensor_retain(grad);
        note_place(s->h, grad);
        return HR_OK;
    }
    HR_TRY(make(s->h, m, &s->dy[m]));
    return launch((struct work){
        .out = hr_tensor_f32(s->dy[m]), .by = s->scale[m], .n = handy_length(s->h, m)});
}

/* From s->dy[m], which goes on to the weight gradient. */
static hr_status back(handy_stage *s, const hr_exec_at *at, hr_tensor *grad,
                      hr_tensor **out)
{
    int m = at->microbatch, n = handy_length(s->h, m);
    HOLDS((grad == NULL) == at->last && s->dy[m] == NULL);
    HR_TRY(keep_grad(s, at, grad));
    struct work w = {
        .a = hr_tensor_f32(s->dy[m]), .by = handy_weight(s->stage), .n = n};
    if (at->first) {
        hr_tensor *dx;
        HR_TRY(make(s->h, m, &dx));
        w.out = hr_tensor_f32(dx);
        hr_status st = launch(w);
        if (st >= 0)
            st = launch((struct work){.a = w.out, .sum = &s->h->dx[m], .n = n});
        hr_tensor_release(dx);
        return st;
    }
    HR_TRY(make_output(s, at->split ? HR_ACTION_I : HR_ACTION_B, m, out));
    w.out = hr_tensor_f32(*out);
    note_output(s, *out, s->stage - 1);
    return launch(w);
}

static hr_status weight(handy_stage *s, int m)
{
    HOLDS(s->x[m] && s->dy[m] && !s->reduced);
    hr_status st = launch((struct work){.a = hr_tensor_f32(s->x[m]),
                                        .b = hr_tensor_f32(s->dy[m]),
                                        .sum = s->dw,
                                        .n = handy_length(s->h, m)});
    s->wgrads[m]++;
    let_go(&s->x[m]);
    let_go(&s->dy[m]);
    note_live(s->h, -1);
    return st;
}

static hr_status backward(void *ctx, const hr_exec_at *at, hr_tensor *grad,
                          hr_tensor **out)
{
    HOLDS(!at->split);
    HR_TRY(enter(ctx, HR_ACTION_B, at));
    HR_TRY(back(ctx, at, grad, out));
    return weight(ctx, at->microbatch);
}

static hr_status input_grad(void *ctx, const hr_exec_at *at, hr_tensor *grad,
                            hr_tensor **out)
{
    HOLDS(at->split);
    HR_TRY(enter(ctx, HR_ACTION_I, at));
    return back(ctx, at, grad, out);
}

static hr_status weight_grad(void *ctx, const hr_exec_at *at)
{
    HR_TRY(enter(ctx, HR_ACTION_W, at));
    return weight(ctx, at->microbatch);
}

/* As a plan does it: the forward's output leaves from another stream, before the pair is through. */
static hr_status run_pair(handy *h, const hr_exec_half *f, const hr_exec_half *b,
                          const hr_plan_hooks *hooks, hr_event *done)
{
    hr_stream *compute = hr_stream_current(), *comm = hr_get_comm_stream(), *previous;
    HOLDS(f->at->paired && b->at->paired && comm);
    handy_give_up(h);
    h->paired++;
    HR_TRY(hooks->pre_forward(hooks->ctx, 0));
    HR_TRY(forward(f->ctx, f->at, f->in, f->out));
    HR_TRY(hr_event_record(done, compute));
    HR_TRY(hr_event_wait(done, comm));
    hr_stream_enter(comm, &previous);
    hr_status st = hooks->post_forward(hooks->ctx, *f->out, 0);
    hr_stream_exit(comm, previous);
    HR_TRY(st);
    HR_TRY(hooks->pre_backward(hooks->ctx, 0));
    HR_TRY((b->at->split ? input_grad : backward)(b->ctx, b->at, b->in, b->out));
    return hooks->post_backward(hooks->ctx, *b->out, 0);
}

static hr_status pair(const hr_exec_half *f, const hr_exec_half *b,
                      const hr_plan_hooks *hooks)
{
    hr_event *done;
    handy *h = ((handy_stage *)f->ctx)->h;
    HR_TRY(hr_event_create(hr_group_device(h->world), &done));
    hr_status st = run_pair(h, f, b, hooks, done);
    hr_event_destroy(done);
    return st;
}

static hr_status reduce(void *ctx, int stage)
{
    handy_stage *s = ctx;
    HOLDS(s->stage == stage && !s->reduced);
    s->reduced = true;
    s->reductions++;
    return HR_OK;
}

static hr_status tokens(void *ctx, int microbatch, int64_t *out)
{
    const handy_stage *s = ctx;
    *out = s->h->tokens[microbatch];
    return HR_OK;
}

void handy_drop(void *ctx)
{
    handy_stage *s = ctx;
    for (int m = 0; m < HANDY_MICROBATCHES; m++) {
        let_go(&s->x[m]);
        let_go(&s->dy[m]);
    }
    let_go(&s->h->put_out);
    s->h->live = 0;
}

hr_exec_stage handy_functions(handy *h, int stage)
{
    return (hr_exec_stage){HR_INIT(hr_exec_stage),
                           .stage = stage,
                           .ctx = &h->stage[stage],
                           .forward = forward,
                           .backward = backward,
                           .input_grad = h->no_split ? NULL : input_grad,
                           .weight_grad = h->no_split ? NULL : weight_grad,
                           .pair = h->pairs ? pair : NULL,
                           .reduce = reduce,
                           .tokens = tokens,
                           .drop = handy_drop};
}
