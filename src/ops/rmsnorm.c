/* rmsnorm: x / sqrt(mean(x^2) + eps) * g by row. Only the inputs are saved; backward finds the root mean
 * square again. */
#include "ops/kernels.h"
#include "ops/op.h"

struct rmsnorm_ctx {
    float eps;
};

static hr_status rmsnorm_backward(hr_function *fn, hr_tensor *const *grad_out,
                                  hr_tensor **grad_in)
{
    const struct rmsnorm_ctx *c = hr_function_ctx(fn);
    hr_tensor *x = hr_function_saved(fn, 0), *g = hr_function_saved(fn, 1);
    hr_tensor *dg = NULL, *partial = NULL;
    hr_status st;
    int64_t n = hr_tensor_dim(x, 0), width = hr_tensor_dim(x, 1);
    HR_TRY(hr__op_like(x, &grad_in[0]));
    if (hr_function_needs(fn, 1)) {
        HR_TRY(hr__op_weight_grad(fn, 1, HR__DIMS(width), &grad_in[1], &dg));
        HR_TRY(hr_tensor_create(HR_F32, HR__DIMS(hr__parts(n, HR__NORM_ROWS), width),
                                &partial));
    }
    hr__rmsnorm_args args = {
        .x = hr_tensor_data(x),
        .g = hr_tensor_data(g),
        .dy = hr_tensor_data(grad_out[0]),
        .y = hr_tensor_data(grad_in[0]),
        .dg = dg ? hr_tensor_f32(dg) : NULL,
        .partial = dg ? hr_tensor_f32(partial) : NULL,
        .n = n,
        .width = width,
        .eps = c->eps,
        .type = hr_tensor_dtype(x),
    };
    st = HR__LAUNCH("rmsnorm backward", hr__k_rmsnorm_back, args, HR__OUT(grad_in[0]),
                    HR__INOUT(dg), HR__OUT(partial), HR__IN(x), HR__IN(g),
                    HR__IN(grad_out[0]));
    hr_tensor_release(partial);
    return st;
}

static const hr_function_class rmsnorm_class = {.name = "rmsnorm",
                                                .ctx_bytes = sizeof(struct rmsnorm_ctx),
                                                .backward = rmsnorm_backward};

hr_status hr_op_rmsnorm(hr_tensor *x, hr_tensor *g, float eps, hr_tensor **out)
{
    HR_TRY(hr__op_out("rmsnorm", out));
    hr_dtype type = hr__op_type(x);
    HR_TRY(hr__op_expect("rmsnorm", "x", x, type, HR__DIMS(HR__ANY, HR__ANY)));
    HR_TRY(hr__op_expect("rmsnorm", "g", g, type, HR__DIMS(hr_tensor_dim(x, 1))));
    hr_tensor *y;
    hr_status st;
    HR_TRY(hr__op_like(x, &y));
    hr__rmsnorm_args args = {
        .x = hr_tensor_data(x),
        .g = hr_tensor_data(g),
        .y = hr_tensor_data(y),
        .n = hr_tensor_dim(x, 0),
        .width = hr_tensor_dim(x, 1),
        .eps = eps,
        .type = type,
    };
    HR_TRY_GOTO(
        st,
        HR__LAUNCH("rmsnorm", hr__k_rmsnorm, args, HR__OUT(y), HR__IN(x), HR__IN(g)),
        fail);
    HR_TRY_GOTO(st,
                hr__op_record(&rmsnorm_class, (hr_tensor *[]){x, g}, 2,
                              (hr_tensor *[]){x, g}, 2, &(struct rmsnorm_ctx){eps}, y),
                fail);
    *out = y;
    return HR_OK;
fail:
    hr_tensor_release(y);
    return st;
}
