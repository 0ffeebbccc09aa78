#include "unit/moe/moe_flow.h"
#include "base/try.h" /* HR_TRY */
#include "tensor/bf16.h"
#include <stdlib.h>
#include <string.h>

/* ---- tensors with made-up contents ------------------------------------------------------ */
static hr_status make(const moe_case *c, int kind, int b, int64_t first, int ndim,
                      const int64_t *shape, hr_tensor **out)
{
    HR_TRY(hr_tensor_create(kind == MADE_PROB ? HR_F32 : c->type, ndim, shape, out));
    const size_t n = (size_t)hr_tensor_count(*out);
    void *values = malloc((n + 1) * sizeof(float));

    if (values == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "test: no memory");
    for (size_t i = 0; i < n; i++) {
        float value = made_up(kind, b, first + (int64_t)i);
        if (hr_tensor_dtype(*out) == HR_BF16)
            ((hr__bf16 *)values)[i] = hr__bf16_near(value);
        else
            ((float *)values)[i] = value;
    }
    hr_status st = hr_tensor_write(*out, values, hr_tensor_bytes(*out));
    free(values);
    return st;
}

static hr_status make_leaf(const moe_case *c, int kind, int b, int64_t first, int ndim,
                           const int64_t *shape, hr_tensor **out)
{
    HR_TRY(make(c, kind, b, first, ndim, shape, out));
    return hr_tensor_set_requires_grad(*out, true);
}

static hr_status read_into(hr_tensor *t, double *to)
{
    const size_t n = t == NULL ? 0 : (size_t)hr_tensor_count(t);
    void *values;
    hr_status st;

    if (t == NULL)
        return hr_fail(HR_ERR_STATE, "absent", "test: a gradient is absent");
    values = malloc((n + 1) * sizeof(float));
    if (values == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "test: no memory");
    st = hr_tensor_read(t, values, hr_tensor_bytes(t));
    for (size_t i = 0; st >= 0 && i < n; i++)
        to[i] = hr_tensor_dtype(t) == HR_BF16 ? hr__bf16_wide(((hr__bf16 *)values)[i])
                                              : ((float *)values)[i];
    free(values);
    return st;
}

/* ---- a rank ------------------------------------------------------------------------------- */
static hr_status make_streams(hr_device *dev, int two_streams, moe_rank *r)
{
    r->compute = r->comm = hr_device_default_stream(dev);
    if (two_streams)
        HR_TRY(hr_stream_create(
            dev, &(hr_stream_opts){HR_INIT(hr_stream_opts), .name = "communication"},
            &r->comm));
    return hr_stream_create(
        dev, &(hr_stream_opts){HR_INIT(hr_stream_opts), .name = "counts"},
        &r->counts_stream);
}

hr_status rank_begin(const moe_case *c, hr_group *world, int two_streams, moe_rank *r)
{
    memset(r, 0, sizeof *r);
    r->c = c;
    r->world = world;
    HR_TRY(make_streams(hr_group_device(world), two_streams, r));
    HR_TRY(hr_group_create(world, NULL, 0, &r->tokens));
    HR_TRY(hr_group_create(world, NULL, 0, &r->counts));
    HR_TRY(hr_dispatcher_create(
        &(hr_dispatcher_opts){
            HR_INIT(hr_dispatcher_opts), .experts = c->experts, .top_k = c->top_k,
            .tokens = r->tokens, .counts = r->counts, .counts_stream = r->counts_stream,
            .kind = c->kind, .max_tokens = case_most_tokens(c), .width = c->width,
            .poison = 1, .capacity_factor = c->capacity_factor, .type = c->type},
        &r->dispatcher));
    const int64_t local = hr_dispatcher_local_experts(r->dispatcher);
    const int64_t first = hr_group_rank(world) * local;
    const int64_t w1[3] = {local, (int64_t)2 * c->hidden, c->width};
    const int64_t w2[3] = {local, c->width, c->hidden};

    HR_TRY(make_leaf(c, MADE_W1, 0, first * w1[1] * w1[2], 3, w1, &r->w1));
    return make_leaf(c, MADE_W2, 0, first * w2[1] * w2[2], 3, w2, &r->w2);
}

void rank_end(moe_rank *r)
{
    hr_tensor_release(r->w1);
    hr_tensor_release(r->w2);
    hr_dispatcher_destroy(r->dispatcher);
    hr_group_release(r->tokens);
    hr_group_release(r->counts);
    hr_stream_destroy(r->counts_stream);
    if (r->comm != r->compute)
        hr_stream_destroy(r->comm);
}

hr_status rank_read(moe_rank *r, moe_result *into)
{
    const size_t rank = (size_t)hr_group_rank(r->world), ranks = (size_t)r->c->ranks;

    HR_TRY(
        read_into(hr_tensor_grad(r->w1), into->dw1 + rank * (into->weights1 / ranks)));
    return read_into(hr_tensor_grad(r->w2),
                     into->dw2 + rank * (into->weights2 / ranks));
}

/* ---- a microbatch ---------------------------------------------------------------------- */
static hr_status make_index(moe_flow *f, int first, int n)
{
    const moe_case *c = f->rank->c;
    const int64_t shape[2] = {n, c->top_k};
    int32_t *chosen = malloc((size_t)(n * c->top_k + 1) * sizeof *chosen);

    if (chosen == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "test: no memory");
    for (int t = 0; t < n; t++)
        for (int k = 0; k < c->top_k; k++)
            chosen[t * c->top_k + k] = c->choose(c, f->b, first + t, k);
    hr_status st = hr_tensor_create(HR_I32, 2, shape, &f->index);
    if (st >= 0)
        st = hr_tensor_write(f->index, chosen, (size_t)(n * c->top_k) * sizeof *chosen);
    free(chosen);
    return st;
}

hr_status flow_begin(moe_rank *r, int b, moe_flow *f)
{
    const moe_case *c = r->c;
    const int rank = hr_group_rank(r->world), n = c->tokens[rank];
    const int first = case_first_token(c, rank);
    const int64_t rows[2] = {n, c->width}, probs[2] = {n, c->top_k};

    memset(f, 0, sizeof *f);
    f->rank = r;
    f->b = b;
    HR_TRY(hr_event_create(hr_group_device(r->world), &f->done));
    HR_TRY(make_leaf(c, MADE_X, b, (int64_t)first * c->width, 2, rows, &f->in[0][0]));
    HR_TRY(
        make_leaf(c, MADE_PROB, b, (int64_t)first * c->top_k, 2, probs, &f->in[0][1]));
    HR_TRY(make(c, MADE_GRAD, b, (int64_t)first * c->width, 2, rows, &f->grad));
    return make_index(f, first, n);
}

void flow_end(moe_flow *f)
{
    for (int i = 0; i < SLOTS * 2; i++) {
        hr_tensor_release(f->in[i / 2][i % 2]);
        hr_tensor_release(f->out[i / 2][i % 2]);
    }
    hr_tensor_release(f->index);
    hr_tensor_release(f->grad);
    hr_route_release(f->route);
    hr_event_destroy(f->done);
}

hr_status flow_read(moe_flow *f, moe_result *into)
{
    const moe_case *c = f->rank->c;
    const int first = case_first_token(c, hr_group_rank(f->rank->world));
    const size_t at = (size_t)f->b * (size_t)case_tokens(c) + (size_t)first;
    const size_t row = at * (size_t)c->width;

    HR_TRY(hr_device_synchronize(hr_group_device(f->rank->world)));
    HR_TRY(read_into(f->out[SLOT_COMBINE][0], into->out + row));
    HR_TRY(read_into(hr_tensor_grad(f->in[SLOT_PRE][0]), into->dx + row));
    return read_into(hr_tensor_grad(f->in[SLOT_PRE][1]),
                     into->dprobs + at * (size_t)c->top_k);
}

/* ---- slots --------------------------------------------------------------------------------- */
static hr_status mlp(moe_flow *f, hr_tensor **in, hr_tensor **out)
{
    moe_rank *r = f->rank;
    hr_tensor *rows = NULL, *probs = NULL, *h = NULL, *act = NULL, *y = NULL;
    hr_status st;

    HR_TRY_GOTO(st, hr_moe_sort(f->route, in[0], in[1], &rows, &probs), end);
    HR_TRY_GOTO(st, hr_moe_grouped(f->route, rows, r->w1, f->queue, &h), end);
    HR_TRY_GOTO(st, hr_moe_swiglu(f->route, h, probs, &act), end);
    HR_TRY_GOTO(st, hr_moe_grouped_last(f->route, act, r->w2, f->queue, &y), end);
    HR_TRY_GOTO(st, hr_moe_unsort(f->route, y, &out[0]), end);
end:
    hr_tensor_release(rows);
    hr_tensor_release(probs);
    hr_tensor_release(h);
    hr_tensor_release(act);
    hr_tensor_release(y);
    return st;
}

static hr_status run_slot(moe_flow *f, int slot)
{
    hr_tensor **in = f->in[slot], **out = f->out[slot];

    switch (slot) {
    case SLOT_PRE:
        return hr_moe_preprocess(f->rank->dispatcher, in[0], in[1], f->index, &f->route,
                                 &out[0], &out[1]);
    case SLOT_DISPATCH:
        return hr_moe_dispatch(f->route, in[0], in[1], &out[0], &out[1]);
    case SLOT_MLP:
        return mlp(f, in, out);
    default:
        return hr_moe_combine(f->route, in[0], &out[0]);
    }
}

static hr_stream *slot_stream(const moe_flow *f, int slot)
{
    return slot == SLOT_DISPATCH || slot == SLOT_COMBINE ? f->rank->comm
                                                         : f->rank->compute;
}

/* What the slot before gave, cut from its graph, for use on stream `s`. */
static hr_status take_inputs(moe_flow *f, int slot, hr_stream *s)
{
    for (int i = 0; slot > SLOT_PRE && i < 2; i++) {
        if (f->out[slot - 1][i] == NULL)
            continue;
        if (f->whole) {
            f->in[slot][i] = hr_tensor_retain(f->out[slot - 1][i]);
            continue;
        }
        HR_TRY(hr_tensor_detach(f->out[slot - 1][i], &f->in[slot][i]));
        HR_TRY(hr_tensor_set_requires_grad(f->in[slot][i], true));
        HR_TRY(hr_tensor_record_stream(f->in[slot][i], s));
    }
    return HR_OK;
}

hr_status flow_forward(moe_flow *f, int slot)
{
    hr_stream *s = slot_stream(f, slot), *previous;

    hr_mark_set(0, f->b);
    HR_TRY(hr_event_wait(f->done, s));
    HR_TRY(take_inputs(f, slot, s));
    hr_stream_enter(s, &previous);
    hr_status st = run_slot(f, slot);
    hr_stream_exit(s, previous);
    HR_TRY(st);
    return hr_event_record(f->done, s);
}

/* Gradients of what the slot gave: those of the alias that the next slot took. */
static hr_status run_backward(moe_flow *f, int slot, hr_stream *s)
{
    hr_tensor *roots[2], *grads[2];
    int n = 0;

    for (int i = 0; i < 2; i++) {
        if (f->out[slot][i] == NULL)
            continue;
        roots[n] = f->out[slot][i];
        grads[n] = slot == SLOT_COMBINE ? f->grad : hr_tensor_grad(f->in[slot + 1][i]);
        if (grads[n] == NULL)
            return hr_fail(HR_ERR_STATE, "absent", "test: slot %d has no gradient %d",
                           slot, i);
        HR_TRY(hr_tensor_record_stream(grads[n], s));
        n++;
    }
    return hr_backward(roots, grads, n);
}

hr_status flow_backward(moe_flow *f, int slot)
{
    hr_stream *s = slot_stream(f, slot), *previous;

    hr_mark_set(0, f->b);
    HR_TRY(hr_event_wait(f->done, s));
    hr_stream_enter(s, &previous);
    hr_status st = run_backward(f, slot, s);
    hr_stream_exit(s, previous);
    HR_TRY(st);
    return hr_event_record(f->done, s);
}
