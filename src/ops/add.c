/* add: a + b. Both inputs get the gradient itself; the engine copies where it must own. */
#include "ops/kernels.h"
#include "ops/op.h"

static hr_status add_backward(hr_function *fn, hr_tensor *const *grad_out,
                              hr_tensor **grad_in)
{
    for (int i = 0; i < 2; i++)
        if (hr_function_needs(fn, i))
            grad_in[i] = hr_tensor_retain(grad_out[0]);
    return HR_OK;
}

static const hr_function_class add_class = {.name = "add", .backward = add_backward};

hr_status hr_op_add(hr_tensor *a, hr_tensor *b, hr_tensor **out)
{
    HR_TRY(hr__op_out("add", out));
    if (!a || !b)
        return hr_fail(HR_ERR_INVALID, "operand", "add: %s is NULL", a ? "b" : "a");
    hr_dtype type = hr__op_type(a);
    HR_TRY(hr__op_expect("add", "a", a, type, hr_tensor_ndim(a), hr_tensor_shape(a)));
    HR_TRY(hr__op_expect("add", "b", b, type, hr_tensor_ndim(a), hr_tensor_shape(a)));
    hr_tensor *y;
    hr_status st;
    HR_TRY(hr__op_like(a, &y));
    hr__add_args args = {hr_tensor_data(y), hr_tensor_data(a), hr_tensor_data(b),
                         hr_tensor_count(y), type};
    HR_TRY_GOTO(
        st, HR__LAUNCH("add", hr__k_add, args, HR__OUT(y), HR__IN(a), HR__IN(b)), fail);
    HR_TRY_GOTO(st,
                hr__op_record(&add_class, (hr_tensor *[]){a, b}, 2, NULL, 0, NULL, y),
                fail);
    *out = y;
    return HR_OK;
fail:
    hr_tensor_release(y);
    return st;
}
