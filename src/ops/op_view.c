/* view: another shape of the same bytes, and the same the other way for the gradient. */
#include "ops/op.h"
#include <string.h>

struct view_ctx {
    int ndim;
    int64_t shape[HR_MAX_DIMS]; /* of the input */
};

static hr_status view_backward(hr_function *fn, hr_tensor *const *grad_out,
                               hr_tensor **grad_in)
{
    const struct view_ctx *c = hr_function_ctx(fn);
    return hr_tensor_view(grad_out[0], c->ndim, c->shape, &grad_in[0]);
}

static const hr_function_class view_class = {
    .name = "view", .ctx_bytes = sizeof(struct view_ctx), .backward = view_backward};

hr_status hr_op_view(hr_tensor *x, int ndim, const int64_t *shape, hr_tensor **out)
{
    HR_TRY(hr__op_out("view", out));
    if (!x)
        return hr_fail(HR_ERR_INVALID, "operand", "view: x is NULL");
    hr_tensor *y;
    HR_TRY(hr_tensor_view(x, ndim, shape, &y));
    struct view_ctx ctx = {.ndim = hr_tensor_ndim(x)};
    memcpy(ctx.shape, hr_tensor_shape(x), (size_t)ctx.ndim * sizeof ctx.shape[0]);
    hr_status st = hr__op_record(&view_class, &x, 1, NULL, 0, &ctx, y);
    if (st < 0) {
        hr_tensor_release(y);
        return st;
    }
    *out = y;
    return HR_OK;
}
