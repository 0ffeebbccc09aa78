/* train_profile.c: what the parts of the model cost, measured on this rank behind the last step, for
 * `headrace plan --profile`. One microbatch at a time goes through a model of one stage, everything on one
 * stream, in the three parts of a split backward. A first pass, which waits at every layer, counts
 * bytes; the others are timed, and the median of each part is taken. */
#include "profile.h"
#include "train.h"
#include <stdlib.h>
#include <string.h>

enum { PASSES = 5, DIRS = HR_DIR_WGRAD + 1, SPANS = 1 << 12 };

typedef struct measure {
    train_rank *r;
    hr_plan_stage *stage;
    profile *p;
    hr_timeline *timeline;
    double (*ns)[DIRS][PASSES]; /* [rows] */
    int64_t live;               /* bytes, at the last look */
} measure;

/* Of the calling rank, which is a thread, while its layers' hooks look at memory. */
static _Thread_local measure *looking;

/* ---- bytes ------------------------------------------------------------------------------- */

static profile_row *row_of(const measure *m, const void *layer)
{
    return &m->p->row[1 + (const hr_app_block *)layer - m->r->model->blocks];
}

/* How much is live more than at the last look. */
static hr_status look(measure *m, int64_t *more)
{
    hr_mem_stats now;
    APP_TRY(hr_device_synchronize(hr_device_current()));
    hr_mem_get_stats(hr_device_current(), &now);
    *more = (int64_t)now.live_bytes - m->live;
    m->live = (int64_t)now.live_bytes;
    return HR_OK;
}

static hr_status after_forward(void *layer, hr_layer_ctx *ctx)
{
    return look(looking, &row_of(looking, layer)->activation_bytes);
}

static hr_status after_weights(void *layer, hr_layer_ctx *ctx)
{
    int64_t more;
    APP_TRY(look(looking, &more));
    row_of(looking, layer)->stash_bytes = -more;
    return HR_OK;
}

static void set_hooks(measure *m, bool on)
{
    looking = on ? m : NULL;
    for (int i = 0; i < hr_app_all_layers(&m->r->model->shape); i++) {
        m->r->model->descs[i].post_forward = on ? after_forward : NULL;
        m->r->model->descs[i].post_backward = on ? after_weights : NULL;
    }
}

/* ---- one microbatch ---------------------------------------------------------------------- */

static hr_status pass(measure *m, bool bytes)
{
    const hr_exec_stage *s = hr_plan_stage_fns(m->stage);
    const hr_step_counts counts = {.mode = HR_LOSS_MEAN_MICROBATCH, .microbatches = 1};
    const hr_exec_at at = {.first = true,
                           .last = true,
                           .backward = true,
                           .split = true,
                           .step = &counts,
                           .scale =
                               hr_loss_scale(&counts, m->r->tokens_per_microbatch)};
    profile_row *loss = &m->p->row[hr_app_profile_rows(m->p) - 1];
    hr_tensor *none = NULL;
    int64_t more;
    if (bytes)
        APP_TRY(look(m, &more));
    hr_status st = s->forward(s->ctx, &at, NULL, &none);
    if (st >= 0 && bytes)
        st = look(m, &loss->activation_bytes);
    if (st >= 0)
        st = s->input_grad(s->ctx, &at, NULL, &none);
    if (st >= 0 && bytes)
        st = look(m, &more);
    if (st >= 0)
        st = s->weight_grad(s->ctx, &at);
    return st < 0 ? st : hr_device_synchronize(hr_device_current());
}

static hr_status count_bytes(measure *m)
{
    set_hooks(m, true);
    hr_status st = pass(m, true);
    set_hooks(m, false);
    return st;
}

/* ---- times ------------------------------------------------------------------------------- */

/* -1: of none. */
static int element_of(const measure *m, const hr_span *s)
{
    int rows = hr_app_profile_rows(m->p);
    if (s->kind != HR_SPAN_NODE || s->dir < HR_DIR_FORWARD)
        return -1;
    if (strcmp(s->name, "pre_process") == 0)
        return 0;
    if (strcmp(s->name, "post_process") == 0 || strcmp(s->name, "loss_func") == 0)
        return rows - 1;
    return s->layer >= 0 && s->layer < rows - 2 ? 1 + s->layer : -1;
}

static void add_spans(measure *m, int turn)
{
    for (int i = 0; i < hr_timeline_lanes(m->timeline); i++) {
        size_t n;
        const hr_span *s = hr_lane_spans(hr_timeline_lane_at(m->timeline, i), &n);
        for (size_t k = 0; k < n; k++) {
            int row = element_of(m, &s[k]);
            if (row >= 0)
                m->ns[row][s[k].dir][turn] += (double)(s[k].end_ns - s[k].begin_ns);
        }
    }
    hr_timeline_clear(m->timeline, -1);
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median_us(double ns[PASSES])
{
    qsort(ns, PASSES, sizeof *ns, by_size);
    return ns[PASSES / 2] / 1000;
}

static hr_status take_times(measure *m)
{
    hr_device *dev = hr_device_current();
    m->ns = calloc((size_t)hr_app_profile_rows(m->p), sizeof *m->ns);
    if (!m->ns)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for times");
    APP_TRY(hr_timeline_create(SPANS, &m->timeline));
    APP_TRY(hr_device_set_timeline(dev, m->timeline));
    hr_status st = HR_OK;
    for (int turn = 0; turn < PASSES && st >= 0; turn++) {
        st = pass(m, false);
        if (st >= 0)
            add_spans(m, turn);
    }
    hr_status detached = hr_device_set_timeline(dev, NULL);
    for (int i = 0; i < hr_app_profile_rows(m->p); i++) {
        m->p->row[i].forward_us = median_us(m->ns[i][HR_DIR_FORWARD]);
        m->p->row[i].input_grad_us = median_us(m->ns[i][HR_DIR_BACKWARD]);
        m->p->row[i].weight_grad_us = median_us(m->ns[i][HR_DIR_WGRAD]);
    }
    return st < 0 ? st : detached;
}

/* ---- what follows from shapes ------------------------------------------------------------- */

/* Of `n` parts of a parameter, `count` elements each: values (in bf16 too, if that is the precision), gradients
 * and two moments, of which the fullest rank has a share where they are sharded over `ranks`. */
static int64_t state_bytes(const train_options *o, int64_t n, int64_t count, int ranks)
{
    int64_t kept = o->shard_optimizer ? (count + ranks - 1) / ranks : count;
    int64_t rounded =
        o->precision == PRECISION_BF16 ? count * (int64_t)hr_dtype_bytes(HR_BF16) : 0;
    return n * (2 * (count + kept) * (int64_t)sizeof(float) + rounded);
}

/* Of what a stage of this part alone would hold. */
static int64_t param_bytes(const train_rank *r, const hr_layout_part *part)
{
    const hr_app_catalog *c = r->model->catalog;
    const train_options *o = r->job->opts;
    int64_t sum = 0;
    for (int i = 0; i < c->n; i++) {
        const hr_app_spec *spec = &c->list[i].spec;
        int64_t n = 1, experts = spec->shape[0];
        for (int d = 0; d < spec->ndim; d++)
            n *= spec->shape[d];
        if (!hr_app_catalog_in(c, i, part))
            continue;
        if (spec->region == EXPERT)
            sum += state_bytes(o, experts / o->ep, n / experts, o->dp / o->ep);
        else
            sum += state_bytes(o, 1, n, o->dp);
    }
    return sum;
}

static hr_layout_part part_of(const profile *p, int i)
{
    int rows = hr_app_profile_rows(p);
    if (i == 0 || i == rows - 1)
        return (hr_layout_part){.embedding = i == 0, .loss = i > 0};
    if (i <= p->layers)
        return (hr_layout_part){.first_layer = i - 1, .layers = 1};
    return (hr_layout_part){.first_mtp = i - 1 - p->layers, .mtp = 1};
}

static void fill_shapes(measure *m)
{
    profile *p = m->p;
    const train_rank *r = m->r;
    const train_options *o = r->job->opts;
    int64_t tokens = r->tokens_per_microbatch, ids = tokens * (int64_t)sizeof(int32_t);
    int64_t item = (int64_t)hr_dtype_bytes(r->model->type);
    int64_t hidden = tokens * o->model.width * item;
    for (int i = 0; i < hr_app_profile_rows(p); i++) {
        hr_layout_part part = part_of(p, i);
        int64_t shape[2];
        hr_app_stage_in_shape(&o->model, &part, tokens, shape);
        p->row[i].param_bytes = param_bytes(r, &part);
        p->row[i].boundary_bytes = i == 0 ? ids : shape[0] * shape[1] * item;
    }
    /* No hook stands between the embedding and the first layer: what it holds is known. */
    p->row[0].activation_bytes = 2 * ids + hidden;
    p->row[1].activation_bytes -= p->row[0].activation_bytes;
    for (int i = 0; i < hr_app_profile_rows(p); i++) {
        profile_row *row = &p->row[i];
        row->activation_bytes = row->activation_bytes > 0 ? row->activation_bytes : 0;
        row->stash_bytes = row->stash_bytes < 0 ? 0
                           : row->stash_bytes > row->activation_bytes
                               ? row->activation_bytes
                               : row->stash_bytes;
    }
    p->transfer_us = o->link_gbps > 0 ? (double)hidden * 8 / (o->link_gbps * 1e3) : 0;
    p->latency_us = o->link_us;
}

/* ---- all of it --------------------------------------------------------------------------- */

static hr_status run(measure *m)
{
    const train_options *o = m->r->job->opts;
    const model_shape *s = &o->model;
    APP_TRY(hr_app_profile_create(s->layers, s->mtp, &m->p));
    m->p->width = s->width;
    m->p->heads = s->heads;
    m->p->experts = s->experts;
    m->p->top_k = s->top_k;
    m->p->seq = s->seq;
    m->p->micro_batch_size = o->micro_batch_size;
    m->p->ep = o->ep;
    APP_TRY(hr_app_stage_open_serial(m->r, 0, &m->stage));
    APP_TRY(count_bytes(m));
    APP_TRY(take_times(m));
    fill_shapes(m);
    return hr_group_rank(m->r->groups.world) == 0
               ? hr_app_profile_write(m->p, o->profile)
               : HR_OK;
}

hr_status hr_app_rank_profile(train_rank *r)
{
    measure m = {.r = r};
    hr_status st = run(&m);
    hr_plan_stage_destroy(m.stage);
    hr_timeline_destroy(m.timeline);
    hr_app_profile_destroy(m.p);
    free(m.ns);
    return st;
}
