/* swiglu: silu(a) * b, rows scaled: x [N,2D] = [a | b] -> [N,D]; `scale` [N] is the router's weight
 * of the row, so that what follows is a plain sum. */
#include "ops/kernels.h"
#include "ops/op.h"

/* How many rows there are is the last of these numbers in device memory. */
static const int64_t *last_number(const hr_tensor *offsets)
{
    return offsets
               ? (const int64_t *)hr_tensor_data(offsets) + hr_tensor_count(offsets) - 1
               : NULL;
}

static hr_status swiglu_backward(hr_function *fn, hr_tensor *const *grad_out,
                                 hr_tensor **grad_in)
{
    hr_tensor *x = hr_function_saved(fn, 0), *scale = hr_function_saved(fn, 1);
    hr_tensor *live = hr_function_saved(fn, 2);
    bool to_scale = scale && hr_function_needs(fn, 1);
    HR_TRY(hr__op_like(x, &grad_in[0]));
    if (to_scale)
        HR_TRY(hr__op_like(scale, &grad_in[1]));
    hr__swiglu_args args = {
        .x = hr_tensor_data(x),
        .scale = scale ? hr_tensor_f32(scale) : NULL,
        .dy = hr_tensor_data(grad_out[0]),
        .y = hr_tensor_data(grad_in[0]),
        .dscale = to_scale ? hr_tensor_f32(grad_in[1]) : NULL,
        .n = hr_tensor_dim(x, 0),
        .width = hr_tensor_dim(x, 1) / 2,
        .live = last_number(live),
        .type = hr_tensor_dtype(x),
    };
    return HR__LAUNCH("swiglu backward", hr__k_swiglu_back, args, HR__OUT(grad_in[0]),
                      HR__OUT(grad_in[1]), HR__IN(x), HR__IN(scale),
                      HR__IN(grad_out[0]), HR__IN(live));
}

static const hr_function_class swiglu_class = {.name = "swiglu",
                                               .backward = swiglu_backward};

static hr_status swiglu(hr_tensor *x, hr_tensor *scale, hr_tensor *live,
                        hr_tensor **out)
{
    hr_dtype type = hr__op_type(x);
    HR_TRY(hr__op_expect("swiglu", "x", x, type, HR__DIMS(HR__ANY, HR__ANY)));
    int64_t n = hr_tensor_dim(x, 0), width = hr_tensor_dim(x, 1);
    if (width % 2)
        return hr_fail(HR_ERR_INVALID, "shape",
                       "swiglu: x is [%lld,%lld], whose width is not even",
                       (long long)n, (long long)width);
    if (scale)
        HR_TRY(hr__op_expect("swiglu", "scale", scale, HR_F32, HR__DIMS(n)));
    hr_tensor *y;
    hr_status st;
    HR_TRY(hr_tensor_create(type, HR__DIMS(n, width / 2), &y));
    hr__swiglu_args args = {
        .x = hr_tensor_data(x),
        .scale = scale ? hr_tensor_f32(scale) : NULL,
        .y = hr_tensor_data(y),
        .n = n,
        .width = width / 2,
        .live = last_number(live),
        .type = hr_tensor_dtype(x),
    };
    HR_TRY_GOTO(st,
                HR__LAUNCH("swiglu", hr__k_swiglu, args, HR__OUT(y), HR__IN(x),
                           HR__IN(scale), HR__IN(live)),
                fail);
    HR_TRY_GOTO(st,
                hr__op_record(&swiglu_class, (hr_tensor *[]){x, scale}, 2,
                              (hr_tensor *[]){x, scale, live}, 3, NULL, y),
                fail);
    *out = y;
    return HR_OK;
fail:
    hr_tensor_release(y);
    return st;
}

hr_status hr_op_swiglu(hr_tensor *x, hr_tensor *scale, hr_tensor **out)
{
    HR_TRY(hr__op_out("swiglu", out));
    return swiglu(x, scale, NULL, out);
}

hr_status hr_op_swiglu_slack(hr_tensor *x, hr_tensor *scale, hr_tensor *offsets,
                             hr_tensor **out)
{
    HR_TRY(hr__op_out("swiglu", out));
    HR_TRY(hr__op_expect("swiglu", "offsets", offsets, HR_I64, HR__DIMS(HR__ANY)));
    if (hr_tensor_count(offsets) == 0)
        return hr_fail(HR_ERR_INVALID, "shape", "swiglu: offsets are none");
    return swiglu(x, scale, offsets, out);
}
