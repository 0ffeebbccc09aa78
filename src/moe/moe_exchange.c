/* moe/moe_exchange.c: dispatch and combine: the all-to-all of rows there and back, as functions
 * of the graph. Every rank issues the same operations in the same order, whatever the counts:
 *
 *     dispatch forward   tokens, probs       backward  probs, tokens
 *     combine  forward   tokens              backward  tokens
 *
 * Dispatch is one function with two outputs, so that this order is written here and does not
 * follow from who of the two is used first. */
#include "base/try.h" /* HR_TRY */
#include "moe/moe_route.h"

enum way { TO_EXPERTS, TO_TOKENS };

/* Rows of `in` ([rows,C] or [rows]) to where the route says, on the current stream. */
static hr_status exchange(const hr_route *r, enum way way, hr_tensor *in,
                          hr_tensor **out)
{
    const hr_dispatcher *d = r->owner;
    const bool there = way == TO_EXPERTS;
    const int ndim = hr_tensor_ndim(in);
    const int64_t shape[2] = {there ? r->received : r->sent,
                              ndim == 2 ? hr_tensor_dim(in, 1) : 1};

    HR_TRY(hr_tensor_create(hr_tensor_dtype(in), ndim, shape, out));
    hr__use_here(in);
    hr_status st = hr_all_to_all_v(
        d->tokens, hr_tensor_data(in), there ? r->send : r->recv, hr_tensor_data(*out),
        there ? r->recv : r->send,
        (size_t)shape[1] * hr_dtype_bytes(hr_tensor_dtype(in)), hr_stream_current());
    if (st < 0) {
        hr_tensor_release(*out);
        *out = NULL;
    }
    return st;
}

/* ---- the functions ------------------------------------------------------------------- */
typedef struct exchange_ctx {
    hr_route *route; /* retained */
    int64_t width;   /* C */
    hr_dtype type;   /* of the rows */
} exchange_ctx;

static void exchange_fini(void *ctx)
{
    hr_route_release(((exchange_ctx *)ctx)->route);
}

/* A gradient's way back. Where none came zeros travel: the peers take part all the same. */
static hr_status exchange_grad(const hr_route *r, enum way way, hr_tensor *grad,
                               hr_dtype type, int ndim, int64_t width, hr_tensor **out)
{
    hr_tensor *zeros = NULL;

    if (grad == NULL) {
        const int64_t shape[2] = {way == TO_TOKENS ? r->received : r->sent, width};
        HR_TRY(hr_tensor_zeros(type, ndim, shape, &zeros));
        grad = zeros;
    }
    hr_status st = exchange(r, way, grad, out);
    hr_tensor_release(zeros);
    return st;
}

static hr_status dispatch_backward(hr_function *fn, hr_tensor *const *grad_out,
                                   hr_tensor **grad_in)
{
    const exchange_ctx *ctx = hr_function_ctx(fn);

    if (hr_function_needs(fn, 1))
        HR_TRY(exchange_grad(ctx->route, TO_TOKENS, grad_out[1], HR_F32, 1, 1,
                             &grad_in[1]));
    if (hr_function_needs(fn, 0))
        HR_TRY(exchange_grad(ctx->route, TO_TOKENS, grad_out[0], ctx->type, 2,
                             ctx->width, &grad_in[0]));
    return HR_OK;
}

static hr_status combine_backward(hr_function *fn, hr_tensor *const *grad_out,
                                  hr_tensor **grad_in)
{
    const exchange_ctx *ctx = hr_function_ctx(fn);

    return exchange_grad(ctx->route, TO_EXPERTS, grad_out[0], ctx->type, 2, ctx->width,
                         &grad_in[0]);
}

static const hr_function_class dispatch_class = {.name = "moe_dispatch",
                                                 .ctx_bytes = sizeof(exchange_ctx),
                                                 .backward = dispatch_backward,
                                                 .fini = exchange_fini};
static const hr_function_class combine_class = {.name = "moe_combine",
                                                .ctx_bytes = sizeof(exchange_ctx),
                                                .backward = combine_backward,
                                                .fini = exchange_fini};

/* Put outputs that are made already into the graph; they stay the caller's on failure. */
static hr_status link_graph(const hr_function_class *cls, hr_route *r,
                            hr_tensor *const *in, hr_tensor *const *out, int n)
{
    hr_function *fn;

    HR_TRY(hr_function_create(cls, in, n, &fn));
    if (fn == NULL)
        return HR_OK;
    exchange_ctx *ctx = hr_function_ctx(fn);
    ctx->route = hr_route_retain(r);
    ctx->width = hr_tensor_dim(in[0], 1);
    ctx->type = hr_tensor_dtype(in[0]);
    return hr_function_finish(fn, out, n);
}

/* ---- the public calls ------------------------------------------------------------------ */
hr_status hr_moe_dispatch(hr_route *route, hr_tensor *tokens, hr_tensor *probs,
                          hr_tensor **received, hr_tensor **received_probs)
{
    hr_tensor *in[2] = {tokens, probs}, *out[2] = {NULL, NULL};
    hr_status st;

    *received = *received_probs = NULL;
    if (route == NULL)
        return hr_fail(HR_ERR_INVALID, "null", "moe_dispatch: route is NULL");
    HR_TRY(hr__check_rows(tokens, 2, route->sent, "moe_dispatch", "tokens"));
    HR_TRY(hr__check_rows(probs, 1, route->sent, "moe_dispatch", "probs"));
    if (route->owner->zc != NULL)
        return hr__zero_copy_dispatch(route, tokens, probs, received, received_probs);
    HR_TRY(hr__route_learn(route));
    HR_TRY(exchange(route, TO_EXPERTS, tokens, &out[0]));
    HR_TRY_GOTO(st, exchange(route, TO_EXPERTS, probs, &out[1]), fail);
    HR_TRY_GOTO(st, link_graph(&dispatch_class, route, in, out, 2), fail);
    *received = out[0];
    *received_probs = out[1];
    return HR_OK;
fail:
    hr_tensor_release(out[0]);
    hr_tensor_release(out[1]);
    return st;
}

static hr_status plain_combine(hr_route *route, hr_tensor *y, hr_tensor **back)
{
    HR_TRY(exchange(route, TO_TOKENS, y, back));
    hr_status st = link_graph(&combine_class, route, &y, back, 1);
    if (st < 0) {
        hr_tensor_release(*back);
        *back = NULL;
    }
    return st;
}

hr_status hr_moe_combine(hr_route *route, hr_tensor *y, hr_tensor **out)
{
    hr_tensor *back;

    *out = NULL;
    HR_TRY(hr__route_check_known(route, "moe_combine"));
    HR_TRY(hr__check_rows(y, 2, route->received, "moe_combine", "y"));
    HR_TRY(route->owner->zc != NULL ? hr__zero_copy_combine(route, y, &back)
                                    : plain_combine(route, y, &back));
    hr__use_here(route->source);
    hr__use_here(route->slot);
    hr_status st = hr_op_unpermute(back, route->source, route->slot, out);
    hr_tensor_release(back);
    return st;
}
