/* linear: y = x w^T; dx = dy w; dw += dy^T x. x [N,I], w [O,I]. The product for dw can wait in
 * a queue; now or later it is the same launch into the same buffer. */
#include "ops/kernels.h"
#include "ops/op.h"

struct linear_ctx {
    hr_wgrad_queue *queue;
    int64_t width; /* I */
};

/* tensor: dw, dy, x */
static hr_status linear_wgrad(const hr_wgrad_item *it)
{
    hr_tensor *dw = it->tensor[0], *dy = it->tensor[1], *x = it->tensor[2];
    hr__gemm_args args = {
        .c = hr_tensor_f32(dw),
        .a = hr_tensor_data(dy),
        .b = hr_tensor_data(x),
        .m = hr_tensor_dim(dw, 0),
        .n = hr_tensor_dim(dw, 1),
        .k = hr_tensor_dim(x, 0),
        .a_across = true,
        .add = true,
        .type = hr_tensor_dtype(x),
        .c_type = HR_F32,
    };
    return HR__LAUNCH("linear wgrad", hr__k_gemm, args, HR__INOUT(dw), HR__IN(dy),
                      HR__IN(x));
}

static hr_status linear_backward(hr_function *fn, hr_tensor *const *grad_out,
                                 hr_tensor **grad_in)
{
    const struct linear_ctx *c = hr_function_ctx(fn);
    hr_tensor *dy = grad_out[0], *x = hr_function_saved(fn, 0),
              *w = hr_function_saved(fn, 1), *dw;
    int64_t n = hr_tensor_dim(dy, 0), o = hr_tensor_dim(dy, 1), i = c->width;
    if (hr_function_needs(fn, 0)) {
        HR_TRY(hr_tensor_create(hr_tensor_dtype(dy), HR__DIMS(n, i), &grad_in[0]));
        hr__gemm_args args = {
            .c = hr_tensor_data(grad_in[0]),
            .a = hr_tensor_data(dy),
            .b = hr_tensor_data(w),
            .m = n,
            .n = i,
            .k = o,
            .type = hr_tensor_dtype(dy),
            .c_type = hr_tensor_dtype(dy),
        };
        HR_TRY(HR__LAUNCH("linear backward", hr__k_gemm, args, HR__OUT(grad_in[0]),
                          HR__IN(dy), HR__IN(w)));
    }
    if (!hr_function_needs(fn, 1))
        return HR_OK;
    HR_TRY(hr__op_weight_grad(fn, 1, HR__DIMS(o, i), &grad_in[1], &dw));
    hr_wgrad_item item = {.run = linear_wgrad, .tensor = {dw, dy, x}, .name = "linear"};
    return c->queue && !grad_in[1] ? hr_wgrad_push(c->queue, &item)
                                   : linear_wgrad(&item);
}

static const hr_function_class linear_class = {.name = "linear",
                                               .ctx_bytes = sizeof(struct linear_ctx),
                                               .backward = linear_backward};

hr_status hr_op_linear(hr_tensor *x, hr_tensor *w, hr_wgrad_queue *queue,
                       hr_tensor **out)
{
    HR_TRY(hr__op_out("linear", out));
    hr_dtype type = hr__op_type(x);
    HR_TRY(hr__op_expect("linear", "x", x, type, HR__DIMS(HR__ANY, HR__ANY)));
    HR_TRY(
        hr__op_expect("linear", "w", w, type, HR__DIMS(HR__ANY, hr_tensor_dim(x, 1))));
    hr_tensor *y;
    hr_tensor *kept[2] = {hr_tensor_requires_grad(w) ? x : NULL,
                          hr_tensor_requires_grad(x) ? w : NULL};
    hr_status st;
    HR_TRY(
        hr_tensor_create(type, HR__DIMS(hr_tensor_dim(x, 0), hr_tensor_dim(w, 0)), &y));
    hr__gemm_args args = {
        .c = hr_tensor_data(y),
        .a = hr_tensor_data(x),
        .b = hr_tensor_data(w),
        .m = hr_tensor_dim(x, 0),
        .n = hr_tensor_dim(w, 0),
        .k = hr_tensor_dim(x, 1),
        .b_across = true,
        .type = type,
        .c_type = type,
    };
    HR_TRY_GOTO(
        st, HR__LAUNCH("linear", hr__k_gemm, args, HR__OUT(y), HR__IN(x), HR__IN(w)),
        fail);
    HR_TRY_GOTO(st,
                hr__op_record(&linear_class, (hr_tensor *[]){x, w}, 2, kept, 2,
                              &(struct linear_ctx){queue, hr_tensor_dim(x, 1)}, y),
                fail);
    *out = y;
    return HR_OK;
fail:
    hr_tensor_release(y);
    return st;
}
