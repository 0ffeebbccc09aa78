/* See case_pipeline_step.h. Compute is written down by the stages' functions; transfers are read from
 * the lanes that the executor's channels have in a timeline. */
#include "case_pipeline_step.h"
#include "headrace/exec.h"

#include <string.h>

#define TRY(call)                                                                      \
    do {                                                                               \
        hr_status try_st = (call);                                                     \
        if (try_st < 0)                                                                \
            return try_st;                                                             \
    } while (0)

enum { IDS = 2, SPANS = 16384 };

typedef struct side side;
typedef struct one_stage {
    side *of;
    int stage;
} one_stage;

/* A rank. */
struct side {
    json_t *compute, *losses;
    bool pairs;
    one_stage stage[PIPELINE_STAGES];
};

typedef struct job {
    const hr_schedule *s;
    hr_schedule_shape shape;
    bool pairs;
    pipeline_log *log;
} job;

void pipeline_log_init(pipeline_log *log)
{
    log->losses = json_array();
    for (int r = 0; r < PIPELINE_RANKS; r++) {
        log->compute[r] = json_array();
        for (int t = 0; t < TRANSFERS; t++)
            log->moved[r][t] = json_array();
    }
}

void pipeline_log_fini(pipeline_log *log)
{
    json_decref(log->losses);
    for (int r = 0; r < PIPELINE_RANKS; r++) {
        json_decref(log->compute[r]);
        for (int t = 0; t < TRANSFERS; t++)
            json_decref(log->moved[r][t]);
    }
}

/* ---- tensors that say whose they are ------------------------------------------------------------ */
typedef struct id {
    float *at;
    float stage, microbatch; /* the stage that made it; gradients below 0 */
} id;

static hr_status write_id(const void *args, hr_team *team)
{
    const id *a = args;
    a->at[0] = a->stage;
    a->at[1] = a->microbatch;
    return HR_OK;
}

static hr_status check_id(const void *args, hr_team *team)
{
    const id *a = args;
    if (a->at[0] != a->stage || a->at[1] != a->microbatch)
        return hr_fail(
            HR_ERR_MISMATCH, "other_tensor",
            "stage %g, microbatch %g came in place of stage %g, microbatch %g",
            (double)a->at[0], (double)a->at[1], (double)a->stage,
            (double)a->microbatch);
    return HR_OK;
}

static float mark_of(int stage, bool grad)
{
    return (float)(grad ? -1 - stage : stage);
}

static hr_status make(int stage, int microbatch, bool grad, hr_tensor **out)
{
    TRY(hr_tensor_create(HR_F32, 1, &(int64_t){IDS}, out));
    id a = {hr_tensor_f32(*out), mark_of(stage, grad), (float)microbatch};
    hr_operand o = {a.at, IDS * sizeof(float), HR_WRITE};
    return hr_launch(hr_stream_current(), "write", write_id, &a, sizeof a, &o, 1);
}

static hr_status check(hr_tensor *t, int stage, int microbatch, bool grad)
{
    id a = {hr_tensor_f32(t), mark_of(stage, grad), (float)microbatch};
    hr_operand o = {a.at, IDS * sizeof(float), HR_READ};
    return hr_launch(hr_stream_current(), "check", check_id, &a, sizeof a, &o, 1);
}

/* ---- a stage's functions ------------------------------------------------------------------------ */
static json_t *half(const hr_exec_at *at)
{
    return at ? json_pack("[ii]", at->chunk, at->microbatch) : json_null();
}

static void log_run(const one_stage *s, const hr_exec_at *f, const hr_exec_at *b)
{
    if (s->of->pairs)
        json_array_append_new(s->of->compute,
                              json_pack("[soo]", "run", half(f), half(b)));
}

static void log_half(const one_stage *s, const char *what, const hr_exec_at *at)
{
    json_array_append_new(s->of->compute,
                          json_pack("[sii]", what, at->chunk, at->microbatch));
}

static hr_status do_forward(const one_stage *s, const hr_exec_at *at, hr_tensor *in,
                            hr_tensor **out)
{
    log_half(s, "F", at);
    if (in)
        TRY(check(in, s->stage - 1, at->microbatch, false));
    if (at->last)
        json_array_append_new(s->of->losses, json_integer(at->microbatch));
    return at->last ? HR_OK : make(s->stage, at->microbatch, false, out);
}

/* A whole backward ends with its weight gradients, which are named where pairs are. */
static hr_status do_backward(const one_stage *s, const hr_exec_at *at, hr_tensor *grad,
                             hr_tensor **grad_in)
{
    log_half(s, "B", at);
    if (grad)
        TRY(check(grad, s->stage + 1, at->microbatch, true));
    if (!at->first)
        TRY(make(s->stage, at->microbatch, true, grad_in));
    if (s->of->pairs)
        log_half(s, "W", at);
    return HR_OK;
}

static hr_status forward(void *ctx, const hr_exec_at *at, hr_tensor *in,
                         hr_tensor **out)
{
    log_run(ctx, at, NULL);
    return do_forward(ctx, at, in, out);
}

static hr_status backward(void *ctx, const hr_exec_at *at, hr_tensor *grad,
                          hr_tensor **grad_in)
{
    log_run(ctx, NULL, at);
    return do_backward(ctx, at, grad, grad_in);
}

static hr_status pair(const hr_exec_half *f, const hr_exec_half *b,
                      const hr_plan_hooks *hooks)
{
    log_run(f->ctx, f->at, b->at);
    TRY(hooks->pre_forward(hooks->ctx, f->at->chunk));
    TRY(do_forward(f->ctx, f->at, f->in, f->out));
    TRY(hooks->post_forward(hooks->ctx, *f->out, f->at->chunk));
    TRY(hooks->pre_backward(hooks->ctx, b->at->chunk));
    TRY(do_backward(b->ctx, b->at, b->in, b->out));
    return hooks->post_backward(hooks->ctx, *b->out, b->at->chunk);
}

/* ---- transfers ----------------------------------------------------------------------------------- */
/* The kind of transfer that a span tells of; TRANSFERS: none. */
static transfer kind_of(const hr_span *span)
{
    static const char *const name[] = {"send_f", "send_b", "recv_f", "recv_b"};
    int t = 0;
    while (t < TRANSFERS &&
           (span->kind != HR_SPAN_NODE || strcmp(span->name, name[t]) != 0))
        t++;
    return (transfer)t;
}

/* Named after the step that made it. */
static json_t *payload(const job *j, transfer t, const hr_span *span)
{
    int stage = span->layer + (t == RECV_B) - (t == RECV_F);
    return json_sprintf("%c%d.%d.%d", t == SEND_F || t == RECV_F ? 'a' : 'g',
                        stage % j->shape.ranks, stage / j->shape.ranks,
                        span->microbatch);
}

/* In a loop all transfers of a kind go one way, so that their order is the order of one channel. */
static hr_status read_lanes(const job *j, int rank, const hr_timeline *t)
{
    int lane_of[TRANSFERS] = {-1, -1, -1, -1};
    if (hr_timeline_dropped(t) > 0)
        return hr_fail(HR_ERR_STATE, "dropped", "no room for all spans");
    for (int i = 0; i < hr_timeline_lanes(t); i++) {
        size_t n;
        const hr_span *span = hr_lane_spans(hr_timeline_lane_at(t, i), &n);
        for (size_t k = 0; k < n; k++) {
            transfer kind = kind_of(&span[k]);
            if (kind == TRANSFERS)
                continue;
            if (lane_of[kind] >= 0 && lane_of[kind] != i)
                return hr_fail(HR_ERR_STATE, "two_channels", "%s on two channels",
                               span[k].name);
            lane_of[kind] = i;
            json_array_append_new(j->log->moved[rank][kind],
                                  payload(j, kind, &span[k]));
        }
    }
    return HR_OK;
}

/* ---- a rank -------------------------------------------------------------------------------------- */
static int fill_stages(const job *j, int rank, side *me, hr_exec_stage *out)
{
    int n = 0;
    for (int s = rank; s < j->shape.stages; s += j->shape.ranks) {
        me->stage[s] = (one_stage){me, s};
        out[n++] =
            (hr_exec_stage){HR_INIT(hr_exec_stage), .stage = s,
                            .ctx = &me->stage[s],   .forward = forward,
                            .backward = backward,   .pair = j->pairs ? pair : NULL};
    }
    return n;
}

static hr_status step(const job *j, hr_group *world)
{
    int rank = hr_group_rank(world);
    hr_exec_stage stages[PIPELINE_STAGES];
    hr_exec_shape shapes[PIPELINE_STAGES];
    hr_exec *e;
    hr_program *p;
    side me = {j->log->compute[rank], j->log->losses, j->pairs, {{0}}};
    int n = fill_stages(j, rank, &me, stages);
    for (int s = 0; s < j->shape.stages; s++)
        shapes[s] = (hr_exec_shape){HR_F32, 1, {IDS}};
    TRY(hr_exec_create(&(hr_exec_opts){HR_INIT(hr_exec_opts), .pp = world,
                                       .stages = stages, .n_stages = n,
                                       .shapes = shapes, .n_shapes = j->shape.stages},
                       &e));
    hr_status st = hr_exec_load(e, j->s, &p);
    if (st >= 0) {
        st = hr_exec_step(e, p, NULL, NULL);
        hr_program_destroy(p);
    }
    hr_exec_destroy(e);
    return st < 0 ? st : hr_device_synchronize(hr_device_current());
}

static hr_status each_rank(hr_group *world, void *arg)
{
    const job *j = arg;
    hr_timeline *t;
    TRY(hr_timeline_create(SPANS, &t));
    hr_status st = hr_device_set_timeline(hr_device_current(), t);
    if (st >= 0)
        st = step(j, world);
    if (st >= 0)
        st = hr_device_set_timeline(hr_device_current(), NULL);
    if (st >= 0)
        st = read_lanes(j, hr_group_rank(world), t);
    if (st < 0)
        (void)!hr_device_set_timeline(hr_device_current(), NULL);
    hr_timeline_destroy(t);
    return st;
}

hr_status pipeline_step(const hr_schedule *s, bool pairs, pipeline_log *log)
{
    job j = {.s = s, .pairs = pairs, .log = log};
    hr_schedule_get_shape(s, &j.shape);
    if (j.shape.ranks > PIPELINE_RANKS || j.shape.stages > PIPELINE_STAGES)
        return hr_fail(HR_ERR_INVALID, "size", "more than %d ranks or %d stages",
                       PIPELINE_RANKS, PIPELINE_STAGES);
    return hr_local_run(j.shape.ranks,
                        &(hr_local_opts){HR_INIT(hr_local_opts), .timeout_s = 60},
                        each_rank, &j);
}
