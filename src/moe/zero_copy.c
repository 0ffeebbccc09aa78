/* moe/zero_copy.c: dispatch and combine of the symmetric kind, as functions of the graph. Who reads and
 * writes what (peers in CAPITALS, [comm] on the stream of the transfers):
 *
 *     forward    dispatch   plain tokens --STORE--> P          [comm]
 *                experts    P -> ... -> F                      (moe_experts.c)
 *                combine    F --LOAD--> plain                  [comm]
 *     backward   combine    plain gradient --STORE--> B -> plain copy   [comm]
 *                experts    plain -> plain
 *                stage      plain -> B                         [comm], hr_stage_dispatch_bwd_grad()
 *                dispatch   B --LOAD--> plain                  [comm]
 *
 * What lands in B is copied out here and not by whoever gets the gradient: so no graph, whole or cut
 * into nodes, and no delayed weight gradient ever holds B. */
#include "base/try.h"          /* HR_TRY */
#include "headrace/pipeline.h" /* hr_stage_dispatch_bwd_grad */
#include "moe/moe_kernels.h"
#include "moe/moe_route.h"
#include <string.h>

typedef struct zero_copy_ctx {
    hr_route *route; /* retained */
} zero_copy_ctx;

static void zero_copy_fini(void *ctx)
{
    hr_route_release(((zero_copy_ctx *)ctx)->route);
}

/* ---- transfers ------------------------------------------------------------------------- */
/* What the rows of `plain` ([M,C] or [M]) and of `b` are to a transfer. */
static hr_rows describe(const hr_route *r, const hr__buffer *b, const hr_tensor *plain)
{
    const hr__zero_copy *zc = r->owner->zc;
    const bool rows = hr_tensor_ndim(plain) == 2;

    hr_mem_record_stream(r->device_counts, hr_stream_current());
    return (hr_rows){HR_INIT(hr_rows),
                     .counts = r->device_counts,
                     .parts = r->owner->local,
                     .row_bytes = (size_t)(rows ? zc->width : 1) *
                                  hr_dtype_bytes(hr_tensor_dtype(plain)),
                     .plain = hr_tensor_data(plain),
                     .plain_rows = hr_tensor_dim(plain, 0),
                     .window = b->window,
                     .at = rows ? 0 : b->weights_at,
                     .window_rows = zc->capacity};
}

static hr_status store(const hr_route *r, hr_tensor *plain, const hr__buffer *b)
{
    const hr_rows rows = describe(r, b, plain);

    hr__use_here(plain);
    return hr_rows_store(r->owner->tokens, &rows, hr_stream_current());
}

/* The rows (ndim 2), or their weights. */
static hr_status load(const hr_route *r, const hr__buffer *b, int ndim, hr_tensor **out)
{
    const hr__zero_copy *zc = r->owner->zc;
    const int64_t shape[2] = {r->sent, zc->width};

    HR_TRY(hr_tensor_create(ndim == 2 ? zc->type : HR_F32, ndim, shape, out));
    const hr_rows rows = describe(r, b, *out);
    hr_status st = hr_rows_load(r->owner->tokens, &rows, hr_stream_current());
    if (st < 0) {
        hr_tensor_release(*out);
        *out = NULL;
    }
    return st;
}

/* ---- copies of the rows that there are ---------------------------------------------------- */
static hr_status live_kernel(const void *args, hr_team *team)
{
    const hr__live_args *a = args;

    if (*a->live > 0)
        memcpy(a->to, a->from, (size_t)*a->live * (size_t)a->width * (size_t)a->item);
    return HR_OK;
}

static const hr__kernel live_forms = HR__KERNEL(live_kernel, hr__cuda_moe_live);

static hr_status copy_live(const hr_route *r, hr_tensor *to, hr_tensor *from)
{
    const int64_t *limits = hr_tensor_data(r->limits);
    const hr__live_args args = {.to = hr_tensor_data(to),
                                .from = hr_tensor_data(from),
                                .live = limits + r->owner->local,
                                .width =
                                    hr_tensor_ndim(to) == 2 ? hr_tensor_dim(to, 1) : 1,
                                .rows = hr_tensor_dim(to, 0),
                                .item = (int32_t)hr_dtype_bytes(hr_tensor_dtype(to))};
    const hr_operand touched[] = {{args.to, hr_tensor_bytes(to), HR_WRITE},
                                  {args.from, hr_tensor_bytes(from), HR_READ},
                                  {limits, hr_tensor_bytes(r->limits), HR_READ}};

    hr__use_here(from);
    hr__use_here(r->limits);
    return hr__launch_kernel(hr_stream_current(), "moe_live_rows", &live_forms, &args,
                             sizeof args, touched, 3);
}

/* ---- combine ------------------------------------------------------------------------------ */
static hr_status combine_backward(hr_function *fn, hr_tensor *const *grad_out,
                                  hr_tensor **grad_in)
{
    static const char call[] = "moe_combine backward";
    hr_route *r = ((zero_copy_ctx *)hr_function_ctx(fn))->route;
    const hr__zero_copy *zc = r->owner->zc;
    hr__buffer *b = zc->b;

    HR_TRY(hr__buffer_step(b, HR__FREE, HR__LANDING, call));
    HR_TRY(store(r, grad_out[0], b));
    HR_TRY(hr__buffer_step(b, HR__LANDING, HR__LANDED, call));
    HR_TRY(hr_tensor_create(zc->type, 2, hr_tensor_shape(b->rows), &grad_in[0]));
    HR_TRY(copy_live(r, grad_in[0], b->rows));
    return hr__buffer_consumed(zc, b, call);
}

static const hr_function_class combine_class = {.name = "moe_combine",
                                                .ctx_bytes = sizeof(zero_copy_ctx),
                                                .backward = combine_backward,
                                                .fini = zero_copy_fini};

static hr_status link_graph(const hr_function_class *cls, hr_route *r,
                            hr_tensor *const *in, int n_in, hr_tensor *const *out,
                            int n_out)
{
    hr_function *fn;

    HR_TRY(hr_function_create(cls, in, n_in, &fn));
    if (fn == NULL)
        return HR_OK;
    ((zero_copy_ctx *)hr_function_ctx(fn))->route = hr_route_retain(r);
    return hr_function_finish(fn, out, n_out);
}

hr_status hr__zero_copy_combine(hr_route *r, hr_tensor *y, hr_tensor **back)
{
    static const char call[] = "moe_combine";
    const hr__zero_copy *zc = r->owner->zc;

    if (!hr__buffer_holds(zc->f, y))
        return hr_fail(
            HR_ERR_INVALID, "not_in_f",
            "%s: its input does not lie in buffer F; the last product of the "
            "experts is hr_moe_grouped_last()",
            call);
    if (zc->f->state == HR__STAGED && zc->f->owner != r)
        return hr_fail(HR_ERR_STATE, "buffer_state",
                       "%s: buffer F is STAGED with the rows of another layer or "
                       "microbatch",
                       call);
    HR_TRY(hr__buffer_step(zc->f, HR__STAGED, HR__INFLIGHT, call));
    HR_TRY(load(r, zc->f, 2, back));
    hr_status st = hr__buffer_consumed(zc, zc->f, call);
    if (st >= 0)
        st = link_graph(&combine_class, r, &y, 1, back, 1);
    if (st < 0) {
        hr_tensor_release(*back);
        *back = NULL;
    }
    return st;
}

/* ---- dispatch ------------------------------------------------------------------------------ */
/* The gradient of what was dispatched is in B, where the staging put it; where none came zeros
 * travel, for the peers take part all the same. */
static hr_status expect_staged(const hr__zero_copy *zc, const hr_tensor *grad,
                               const char *call)
{
    if (grad != NULL && !hr__buffer_holds(zc->b, grad))
        return hr_fail(HR_ERR_STATE, "not_staged",
                       "%s: the gradient does not lie in buffer B", call);
    if (grad != NULL)
        return HR_OK;
    HR_TRY(hr__buffer_step(zc->b, HR__FREE, HR__STAGED, call));
    return hr_fill(hr_stream_current(), hr_tensor_data(zc->b->rows), 0,
                   hr_tensor_bytes(zc->b->rows));
}

static hr_status stage_weights(const hr_route *r, hr_tensor *grad)
{
    hr_tensor *to = r->owner->zc->b->weights;

    if (grad != NULL)
        return copy_live(r, to, grad);
    return hr_fill(hr_stream_current(), hr_tensor_data(to), 0, hr_tensor_bytes(to));
}

static hr_status dispatch_backward(hr_function *fn, hr_tensor *const *grad_out,
                                   hr_tensor **grad_in)
{
    static const char call[] = "moe_dispatch backward";
    hr_route *r = ((zero_copy_ctx *)hr_function_ctx(fn))->route;
    const hr__zero_copy *zc = r->owner->zc;

    HR_TRY(expect_staged(zc, grad_out[0], call));
    HR_TRY(stage_weights(r, grad_out[1]));
    HR_TRY(hr__buffer_step(zc->b, HR__STAGED, HR__INFLIGHT, call));
    if (hr_function_needs(fn, 1))
        HR_TRY(load(r, zc->b, 1, &grad_in[1]));
    if (hr_function_needs(fn, 0))
        HR_TRY(load(r, zc->b, 2, &grad_in[0]));
    return hr__buffer_consumed(zc, zc->b, call);
}

static const hr_function_class dispatch_class = {.name = "moe_dispatch",
                                                 .ctx_bytes = sizeof(zero_copy_ctx),
                                                 .backward = dispatch_backward,
                                                 .fini = zero_copy_fini};

/* For the staging, when backward comes to it. */
static hr_status stage_buffer(void *ctx, hr_tensor **buffer)
{
    const hr__zero_copy *zc = ctx;

    HR_TRY(
        hr__buffer_step(zc->b, HR__FREE, HR__STAGED, "staging the dispatch gradient"));
    *buffer = zc->b->rows;
    return HR_OK;
}

static hr_status land(hr_route *r, hr_tensor *tokens, hr_tensor *probs, hr__buffer *p)
{
    static const char call[] = "moe_dispatch";

    HR_TRY(hr_event_wait(r->ready, hr_stream_current())); /* the counts */
    HR_TRY(hr__buffer_step(p, HR__RESERVED, HR__LANDING, call));
    HR_TRY(store(r, tokens, p));
    HR_TRY(store(r, probs, p));
    HR_TRY(hr__buffer_step(p, HR__LANDING, HR__RECEIVED, call));
    return hr__buffer_used(p);
}

hr_status hr__zero_copy_dispatch(hr_route *r, hr_tensor *tokens, hr_tensor *probs,
                                 hr_tensor **received, hr_tensor **received_probs)
{
    hr_tensor *const in[2] = {tokens, probs};
    hr_tensor *out[2] = {NULL, NULL};
    hr__zero_copy *zc = r->owner->zc;
    hr__buffer *p = r->reserved;
    hr_status st;

    if (p == NULL)
        return hr_fail(HR_ERR_STATE, "buffer_state",
                       "moe_dispatch: this route has been dispatched");
    HR_TRY(land(r, tokens, probs, p));
    HR_TRY(hr_tensor_alias(p->rows, &out[0]));
    HR_TRY_GOTO(st, hr_tensor_alias(p->weights, &out[1]), done);
    r->reserved = NULL; /* from here on its claims hold it */
    r->known = true;
    HR_TRY_GOTO(st, link_graph(&dispatch_class, r, in, 2, out, 2), done);
    const hr_grad_staging staging = {stage_buffer, zc};
    HR_TRY_GOTO(st, hr_stage_dispatch_bwd_grad(out[0], &staging, received), done);
    *received_probs = out[1];
    out[1] = NULL;
done:
    hr_tensor_release(out[0]);
    hr_tensor_release(out[1]);
    return st;
}
