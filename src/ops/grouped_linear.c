/* grouped_linear: one product an expert over sorted rows. x [R,I], w [L,O,I] -> [R,O]. The limits
 * of the experts' rows go to the device as arguments of small launches, in stream order. */
#include "device/put.h"
#include "ops/kernels.h"
#include "ops/op.h"

struct grouped_ctx {
    hr_wgrad_queue *queue;
    int64_t experts, width; /* L, I */
};

static hr__grouped_args grouped_args(const hr_tensor *x, const hr_tensor *w,
                                     const hr_tensor *y, const hr_tensor *offsets)
{
    return (hr__grouped_args){
        .x = hr_tensor_data(x),
        .w = hr_tensor_data(w),
        .y = hr_tensor_data(y),
        .offsets = hr_tensor_data(offsets),
        .rows = hr_tensor_dim(x, 0),
        .experts = hr_tensor_dim(w, 0),
        .in = hr_tensor_dim(w, 2),
        .out = hr_tensor_dim(w, 1),
        .type = hr_tensor_dtype(x),
    };
}

/* tensor: dw, dy, x, offsets */
static hr_status grouped_wgrad(const hr_wgrad_item *it)
{
    hr_tensor *dw = it->tensor[0], *dy = it->tensor[1], *x = it->tensor[2],
              *offsets = it->tensor[3];
    hr__grouped_args args = grouped_args(x, dw, dy, offsets);
    return HR__LAUNCH("grouped wgrad", hr__k_grouped_dw, args, HR__INOUT(dw),
                      HR__IN(dy), HR__IN(x), HR__IN(offsets));
}

static hr_status grouped_backward(hr_function *fn, hr_tensor *const *grad_out,
                                  hr_tensor **grad_in)
{
    const struct grouped_ctx *c = hr_function_ctx(fn);
    hr_tensor *dy = grad_out[0], *w = hr_function_saved(fn, 2), *dw;
    hr_tensor *x = hr_function_saved(fn, 0), *offsets = hr_function_saved(fn, 1);
    if (hr_function_needs(fn, 0)) {
        HR_TRY(hr_tensor_create(hr_tensor_dtype(dy),
                                HR__DIMS(hr_tensor_dim(dy, 0), c->width), &grad_in[0]));
        hr__grouped_args args = grouped_args(grad_in[0], w, dy, offsets);
        HR_TRY(HR__LAUNCH("grouped backward", hr__k_grouped_dx, args,
                          HR__OUT(grad_in[0]), HR__IN(dy), HR__IN(w), HR__IN(offsets)));
    }
    if (!hr_function_needs(fn, 1))
        return HR_OK;
    HR_TRY(hr__op_weight_grad(
        fn, 1, HR__DIMS(c->experts, hr_tensor_dim(dy, 1), c->width), &grad_in[1], &dw));
    hr_wgrad_item item = {
        .run = grouped_wgrad, .tensor = {dw, dy, x, offsets}, .name = "grouped_linear"};
    return c->queue && !grad_in[1] ? hr_wgrad_push(c->queue, &item)
                                   : grouped_wgrad(&item);
}

static const hr_function_class grouped_class = {.name = "grouped_linear",
                                                .ctx_bytes = sizeof(struct grouped_ctx),
                                                .backward = grouped_backward};

static hr_status check(const hr_tensor *x, const hr_tensor *w)
{
    hr_dtype type = hr__op_type(x);
    HR_TRY(hr__op_expect("grouped_linear", "x", x, type, HR__DIMS(HR__ANY, HR__ANY)));
    return hr__op_expect("grouped_linear", "w", w, type,
                         HR__DIMS(HR__ANY, HR__ANY, hr_tensor_dim(x, 1)));
}

static hr_status check_offsets(const hr_tensor *x, const hr_tensor *w,
                               const int64_t *offsets)
{
    int64_t rows = hr_tensor_dim(x, 0), experts = hr_tensor_dim(w, 0);
    if (!offsets || offsets[0] != 0 || offsets[experts] != rows)
        return hr_fail(HR_ERR_INVALID, "offsets",
                       "grouped_linear: offsets go from %lld to %lld, not from 0 to "
                       "the %lld rows of x",
                       offsets ? (long long)offsets[0] : -1,
                       offsets ? (long long)offsets[experts] : -1, (long long)rows);
    for (int64_t l = 0; l < experts; l++)
        if (offsets[l + 1] < offsets[l])
            return hr_fail(HR_ERR_INVALID, "offsets",
                           "grouped_linear: offsets fall from %lld to %lld at expert "
                           "%lld",
                           (long long)offsets[l], (long long)offsets[l + 1],
                           (long long)l);
    return HR_OK;
}

static hr_status upload(const int64_t *numbers, int64_t count, hr_tensor **out)
{
    enum { ONCE = HR__PUT_BYTES / sizeof(int64_t) };
    hr_tensor *t;
    HR_TRY(hr_tensor_create(HR_I64, HR__DIMS(count), &t));
    for (int64_t at = 0; at < count; at += ONCE) {
        int64_t n = count - at < ONCE ? count - at : ONCE;
        hr_status st = hr__put_small(hr_stream_current(), "numbers",
                                     (int64_t *)hr_tensor_data(t) + at, numbers + at,
                                     (size_t)n * sizeof *numbers);
        if (st < 0) {
            hr_tensor_release(t);
            return st;
        }
    }
    *out = t;
    return HR_OK;
}

/* `into` may be NULL; else the result lies there, and *out is an alias of it. */
static hr_status product(hr_tensor *x, hr_tensor *w, hr_tensor *limits,
                         hr_wgrad_queue *queue, hr_tensor *into, hr_tensor **out)
{
    hr_tensor *y = NULL;
    hr_status st;
    if (into)
        HR_TRY(hr_tensor_alias(into, &y));
    else
        HR_TRY(hr_tensor_create(hr_tensor_dtype(x),
                                HR__DIMS(hr_tensor_dim(x, 0), hr_tensor_dim(w, 1)),
                                &y));
    hr__grouped_args args = grouped_args(x, w, y, limits);
    HR_TRY_GOTO(st,
                HR__LAUNCH("grouped_linear", hr__k_grouped, args, HR__OUT(y), HR__IN(x),
                           HR__IN(w), HR__IN(limits)),
                fail);
    HR_TRY_GOTO(
        st,
        hr__op_record(
            &grouped_class, (hr_tensor *[]){x, w}, 2,
            (hr_tensor *[]){hr_tensor_requires_grad(w) ? x : NULL, limits,
                            hr_tensor_requires_grad(x) ? w : NULL},
            3, &(struct grouped_ctx){queue, hr_tensor_dim(w, 0), hr_tensor_dim(w, 2)},
            y),
        fail);
    *out = y;
    return HR_OK;
fail:
    hr_tensor_release(y);
    return st;
}

hr_status hr_op_grouped_linear(hr_tensor *x, hr_tensor *w, const int64_t *offsets,
                               hr_wgrad_queue *queue, hr_tensor **out)
{
    hr_tensor *limits;
    HR_TRY(hr__op_out("grouped_linear", out));
    HR_TRY(check(x, w));
    HR_TRY(check_offsets(x, w, offsets));
    HR_TRY(upload(offsets, hr_tensor_dim(w, 0) + 1, &limits));
    hr_status st = product(x, w, limits, queue, NULL, out);
    hr_tensor_release(limits);
    return st;
}

hr_status hr_op_grouped_linear_slack(hr_tensor *x, hr_tensor *w, hr_tensor *offsets,
                                     hr_wgrad_queue *queue, hr_tensor *into,
                                     hr_tensor **out)
{
    HR_TRY(hr__op_out("grouped_linear", out));
    HR_TRY(check(x, w));
    HR_TRY(hr__op_expect("grouped_linear", "offsets", offsets, HR_I64,
                         HR__DIMS(hr_tensor_dim(w, 0) + 1)));
    if (into)
        HR_TRY(hr__op_expect("grouped_linear", "into", into, hr_tensor_dtype(x),
                             HR__DIMS(hr_tensor_dim(x, 0), hr_tensor_dim(w, 1))));
    return product(x, w, offsets, queue, into, out);
}
