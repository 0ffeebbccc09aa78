/* The handy model; see handy.h. */
#include "unit/exec/handy.h"
#include "base/try.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

float handy_weight(int stage)
{
    static const float first[] = {2, 3, 5, 7}, then[] = {1, -1, 2};
    return stage < 4 ? first[stage] : then[(stage - 4) % 3];
}

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

static int length_of(const handy *h, int m)
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
    return make_long(h, length_of(h, m), out);
}

static hr_status make_output(const handy_stage *s, hr_action_kind kind, int m,
                             hr_tensor **out)
{
    bool wrong = goes_wrong(s, kind, m);
    bool longer = wrong && s->h->fault == HANDY_SHAPE;
    HR_TRY(make_long(s->h, length_of(s->h, m) + longer, out));
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
static void give_up(handy *h)
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
    HANDY_EXPECT((in == NULL) == at->first && s->x[m] == NULL);
    if (in) {
        HANDY_EXPECT(hr_tensor_count(in) == length_of(h, m));
        s->x[m] = hr_tensor_retain(in);
        note_place(h, in);
        return HR_OK;
    }
    HR_TRY(make(h, m, &s->x[m]));
    return launch((struct work){
        .out = hr_tensor_f32(s->x[m]), .by = (float)(m + 1), .n = length_of(h, m)});
}

static hr_status enter(const handy_stage *s, hr_action_kind kind, const hr_exec_at *at)
{
    handy *h = s->h;
    HANDY_EXPECT(h->n_log < HANDY_LOG && at->stage == s->stage);
    h->log[h->n_log++] = (hr_action){
        .microbatch = at->microbatch, .stage = (uint16_t)s->stage, .kind = kind};
    if (!at->paired)
        give_up(h);
    return maybe_fail(s, kind, at->microbatch);
}

static hr_status forward(void *ctx, const hr_exec_at *at, hr_tensor *in,
                         hr_tensor **out)
{
    handy_stage *s = ctx;
    int m = at->microbatch, n = length_of(s->h, m);
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
        .out = hr_tensor_f32(s->dy[m]), .by = s->scale[m], .n = length_of(s->h, m)});
}

/* From s->dy[m], which goes on to the weight gradient. */
static hr_status back(handy_stage *s, const hr_exec_at *at, hr_tensor *grad,
                      hr_tensor **out)
{
    int m = at->microbatch, n = length_of(s->h, m);
    HANDY_EXPECT((grad == NULL) == at->last && s->dy[m] == NULL);
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
    HANDY_EXPECT(s->x[m] && s->dy[m] && !s->reduced);
    hr_status st = launch((struct work){.a = hr_tensor_f32(s->x[m]),
                                        .b = hr_tensor_f32(s->dy[m]),
                                        .sum = s->dw,
                                        .n = length_of(s->h, m)});
    s->wgrads[m]++;
    let_go(&s->x[m]);
    let_go(&s->dy[m]);
    note_live(s->h, -1);
    return st;
}

static hr_status backward(void *ctx, const hr_exec_at *at, hr_tensor *grad,
                          hr_tensor **out)
{
    HANDY_EXPECT(!at->split);
    HR_TRY(enter(ctx, HR_ACTION_B, at));
    HR_TRY(back(ctx, at, grad, out));
    return weight(ctx, at->microbatch);
}

static hr_status input_grad(void *ctx, const hr_exec_at *at, hr_tensor *grad,
                            hr_tensor **out)
{
    HANDY_EXPECT(at->split);
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
    HANDY_EXPECT(f->at->paired && b->at->paired && comm);
    give_up(h);
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
    HANDY_EXPECT(s->stage == stage && !s->reduced);
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

static void drop(void *ctx)
{
    handy_stage *s = ctx;
    for (int m = 0; m < HANDY_MICROBATCHES; m++) {
        let_go(&s->x[m]);
        let_go(&s->dy[m]);
    }
    let_go(&s->h->put_out);
    s->h->live = 0;
}

/* ---- a rank ------------------------------------------------------------------------------------ */
static hr_status make_pipelines(handy *h)
{
    int ranks[64], p = hr_group_size(h->world) / h->lines;
    for (int line = 0; line < h->lines; line++) {
        hr_group *g;
        for (int r = 0; r < p; r++)
            ranks[r] = r * h->lines + line;
        HR_TRY(hr_group_create(h->world, ranks, p, &g));
        if (g)
            h->pp = g;
    }
    return HR_OK;
}

hr_status handy_init(handy *h, hr_group *world, int tp, int dp)
{
    hr_stream *s = hr_stream_current();
    void *there;
    *h = (handy){
        .world = world, .dp = dp, .lines = tp * dp, .fail_kind = HR_ACTION_RECV_B};
    h->line = hr_group_rank(world) % h->lines;
    HR_TRY(make_pipelines(h));
    for (int m = 0; m < HANDY_MICROBATCHES; m++) {
        h->length[m] = 2;
        h->tokens[m] = m % 4 < 2 ? 1 : 2 * (m % 4 - 1); /* 1 1 2 4: means are exact */
    }
    HR_TRY(
        hr_mem_alloc(s, (HANDY_STAGES + HANDY_MICROBATCHES) * sizeof(float), &there));
    h->dx = there;
    for (int i = 0; i < HANDY_STAGES; i++)
        h->stage[i] =
            (handy_stage){.h = h, .stage = i, .dw = h->dx + HANDY_MICROBATCHES + i};
    return hr_set_streams(NULL, false);
}

void handy_fini(handy *h)
{
    for (int i = 0; i < HANDY_STAGES; i++)
        drop(&h->stage[i]);
    hr_exec_destroy(h->e);
    hr_mem_free(h->dx, NULL);
    hr_group_release(h->pp);
}

static bool runs_here(const handy *h, const hr_schedule *s, int stage,
                      const hr_schedule_shape *shape)
{
    for (int m = 0; m < shape->microbatches; m++)
        if (hr_schedule_rank_of(s, stage, m) == hr_group_rank(h->pp))
            return true;
    return false;
}

static hr_exec_stage functions(handy *h, int stage)
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
                           .drop = drop};
}

static hr_status open_executor(handy *h, const hr_schedule_shape *shape)
{
    hr_exec_stage stage[HANDY_STAGES];
    hr_exec_shape shapes[HANDY_STAGES];
    for (int i = 0; i < h->n_mine; i++)
        stage[i] = functions(h, h->mine[i]);
    for (int i = 0; i < HANDY_STAGES; i++)
        shapes[i] = (hr_exec_shape){HR_F32, 1, {h->length[0]}};
    hr_exec_destroy(h->e);
    h->e = NULL;
    h->stages = shape->stages;
    return hr_exec_create(&(hr_exec_opts){HR_INIT(hr_exec_opts), .pp = h->pp,
                                          .world = h->world, .dp = h->dp,
                                          .stages = stage, .n_stages = h->n_mine,
                                          .shapes = h->vary ? NULL : shapes,
                                          .n_shapes = h->vary ? 0 : shape->stages},
                          &h->e);
}

hr_status handy_load(handy *h, const hr_schedule *s, hr_program **out)
{
    hr_schedule_shape shape;
    int n = 0, mine[HANDY_STAGES];
    hr_schedule_get_shape(s, &shape);
    for (int i = 0; i < shape.stages; i++)
        if (runs_here(h, s, i, &shape))
            mine[n++] = i;
    /* Any rank's change is one of all: a placement differs on all but the middle. */
    int64_t differs = !h->e || h->stages != shape.stages || n != h->n_mine ||
                      memcmp(mine, h->mine, (size_t)n * sizeof *mine) != 0;
    HR_TRY(hr_all_reduce(h->world, &differs, &differs, 1, HR_I64, HR_MAX,
                         hr_stream_current()));
    HR_TRY(hr_stream_synchronize(hr_stream_current()));
    if (differs) {
        h->n_mine = n;
        memcpy(h->mine, mine, (size_t)n * sizeof *mine);
        HR_TRY(open_executor(h, &shape));
    }
    return hr_exec_load(h->e, s, out);
}

hr_status handy_generate(handy *h, const char *name, int chunks, int microbatches,
                         hr_schedule **s, hr_program **out)
{
    *out = NULL;
    HR_TRY(hr_schedule_generate(
        name,
        &(hr_generate_opts){HR_INIT(hr_generate_opts), .ranks = hr_group_size(h->pp),
                            .chunks = chunks, .microbatches = microbatches},
        s));
    hr_status st = handy_load(h, *s, out);
    if (st < 0) {
        hr_schedule_destroy(*s);
        *s = NULL;
    }
    return st;
}

/* ---- what must come out ------------------------------------------------------------------------ */
hr_status handy_zero(handy *h)
{
    h->paired = h->live = h->peak = h->places = h->n_log = 0;
    for (int i = 0; i < HANDY_STAGES; i++) {
        handy_stage *s = &h->stage[i];
        s->reductions = 0;
        s->reduced = false;
        memset(s->wgrads, 0, sizeof s->wgrads);
    }
    return hr_fill(hr_stream_current(), h->dx, 0,
                   (HANDY_STAGES + HANDY_MICROBATCHES) * sizeof(float));
}

static double scale_of(const handy *h, int m, int microbatches, hr_loss_mode mode)
{
    int64_t all = 0;
    for (int i = 0; i < microbatches; i++)
        all += h->tokens[i];
    if (mode == HR_LOSS_MEAN_TOKEN)
        return 1.0 / (double)(all * h->dp);
    if (mode == HR_LOSS_MEAN_MICROBATCH)
        return 1.0 / (double)(h->tokens[m] * microbatches * h->dp);
    return 1;
}

static hr_status compare(const handy *h, const float *got,
                         const hr_schedule_shape *shape, hr_loss_mode mode)
{
    double product = 1, all = 0;
    for (int i = 0; i < shape->stages; i++)
        product *= handy_weight(i);
    for (int m = 0; m < shape->microbatches; m++) {
        double dx =
            product * scale_of(h, m, shape->microbatches, mode) * length_of(h, m);
        all += dx * (m + 1);
        if (got[m] != (float)dx)
            return hr_fail(HR_ERR_MISMATCH, "dx", "dx of %d is %g, not %g", m, got[m],
                           dx);
    }
    for (int i = 0; i < shape->stages; i++)
        if (got[HANDY_MICROBATCHES + i] != (float)(all / handy_weight(i)))
            return hr_fail(HR_ERR_MISMATCH, "dw", "dw of stage %d is %g, not %g", i,
                           got[HANDY_MICROBATCHES + i], all / handy_weight(i));
    return HR_OK;
}

/* Each weight gradient once, before the one reduction of its stage; nothing kept. */
static hr_status check_counts(const handy *h, const hr_schedule *s,
                              const hr_schedule_shape *shape)
{
    HANDY_EXPECT(h->live == 0);
    for (int i = 0; i < h->n_mine; i++) {
        const handy_stage *st = &h->stage[h->mine[i]];
        HANDY_EXPECT(st->reductions == !shape->forward_only);
        for (int m = 0; m < shape->microbatches; m++) {
            bool here = hr_schedule_rank_of(s, h->mine[i], m) == hr_group_rank(h->pp);
            HANDY_EXPECT(st->x[m] == NULL && st->dy[m] == NULL);
            HANDY_EXPECT(st->wgrads[m] == (here && !shape->forward_only));
        }
    }
    return HR_OK;
}

/* The functions were called as the schedule has it. */
static hr_status check_order(const handy *h, const hr_schedule *s)
{
    size_t n;
    int at = 0;
    const hr_action *a = hr_schedule_order(s, hr_group_rank(h->pp), &n);
    for (size_t i = 0; i < n; i++) {
        const hr_action *l = &h->log[at];
        if (a[i].kind > HR_ACTION_W)
            continue;
        HANDY_EXPECT(at++ < h->n_log && l->kind == a[i].kind &&
                     l->stage == a[i].stage && l->microbatch == a[i].microbatch);
    }
    HANDY_EXPECT(at == h->n_log);
    return HR_OK;
}

enum { ALL = HANDY_MICROBATCHES + HANDY_STAGES };

static hr_status sum_over(const handy *h, hr_group *g, float sum[ALL])
{
    hr_stream *s = hr_stream_current();
    void *there;
    HR_TRY(hr_mem_alloc(s, ALL * sizeof *sum, &there));
    hr_status st = hr_all_reduce(g, h->dx, there, ALL, HR_F32, HR_SUM, s);
    if (st >= 0)
        st = hr_copy(s, sum, there, ALL * sizeof *sum);
    hr_mem_free(there, s);
    hr_status ran = hr_device_synchronize(hr_group_device(g));
    return st < 0 ? st : ran;
}

hr_status handy_sums(const handy *h, hr_group *g, float dw[HANDY_STAGES])
{
    float sum[ALL];
    HR_TRY(sum_over(h, g, sum));
    memcpy(dw, sum + HANDY_MICROBATCHES, HANDY_STAGES * sizeof *dw);
    return HR_OK;
}

hr_status handy_check(handy *h, const hr_schedule *s, hr_loss_mode mode)
{
    float sum[ALL];
    hr_schedule_shape shape;
    hr_schedule_get_shape(s, &shape);
    give_up(h);
    HR_TRY(check_counts(h, s, &shape));
    HR_TRY(check_order(h, s));
    HR_TRY(sum_over(h, h->pp, sum));
    if (!shape.forward_only)
        return compare(h, sum, &shape, mode);
    for (int i = 0; i < ALL; i++)
        HANDY_EXPECT(sum[i] == 0);
    return HR_OK;
}

hr_status handy_step(handy *h, const hr_schedule *s, const hr_program *p,
                     hr_loss_mode mode)
{
    HR_TRY(handy_zero(h));
    HR_TRY(hr_exec_step(
        h->e, p, &(hr_exec_step_opts){HR_INIT(hr_exec_step_opts), .mode = mode}, NULL));
    return handy_check(h, s, mode);
}
