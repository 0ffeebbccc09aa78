/* Identity whose backward moves the gradient into the dispatcher's buffer. The buffer is asked
 * for when backward runs: between forward and backward the dispatcher may have replaced it. */
#include "base/try.h"
#include "headrace/pipeline.h"

static hr_status backward(hr_function *fn, hr_tensor *const *grad_out,
                          hr_tensor **grad_in)
{
    const hr_grad_staging *staging = hr_function_ctx(fn);
    hr_tensor *g = grad_out[0], *buffer = NULL;
    if (g == NULL)
        return HR_OK;
    HR_TRY(staging->get_buffer(staging->ctx, &buffer));
    if (buffer == NULL)
        return hr_fail(HR_ERR_STATE, "no_buffer",
                       "staging the dispatch gradient: the dispatcher has no buffer");
    if (!hr_tensor_same_shape(g, buffer) ||
        hr_tensor_dtype(g) != hr_tensor_dtype(buffer))
        return hr_fail(
            HR_ERR_INVALID, "shape",
            "staging the dispatch gradient: %lld elements of %s in %d dimensions "
            "into a buffer of %lld of %s in %d, or sides that differ",
            (long long)hr_tensor_count(g), hr_dtype_name(hr_tensor_dtype(g)),
            hr_tensor_ndim(g), (long long)hr_tensor_count(buffer),
            hr_dtype_name(hr_tensor_dtype(buffer)), hr_tensor_ndim(buffer));
    HR_TRY(hr_tensor_copy(buffer, g));
    grad_in[0] = hr_tensor_retain(buffer);
    return HR_OK;
}

static const hr_function_class stage_class = {
    .name = "stage_dispatch_bwd_grad",
    .ctx_bytes = sizeof(hr_grad_staging),
    .backward = backward,
};

hr_status hr_stage_dispatch_bwd_grad(hr_tensor *tokens, const hr_grad_staging *staging,
                                     hr_tensor **out)
{
    hr_function *fn;
    *out = NULL;
    if (tokens == NULL || staging == NULL || staging->get_buffer == NULL)
        return hr_fail(HR_ERR_INVALID, "no_argument",
                       "staging the dispatch gradient: no %s",
                       tokens ? "staging" : "tokens");
    HR_TRY(hr_function_create(&stage_class, &tokens, 1, &fn));
    hr_tensor *y;
    hr_status st = hr_tensor_alias(tokens, &y);
    if (st < 0) {
        hr_function_abandon(fn);
        return st;
    }
    if (fn) {
        *(hr_grad_staging *)hr_function_ctx(fn) = *staging;
        st = hr_function_finish(fn, &y, 1);
    }
    if (st < 0) {
        hr_tensor_release(y);
        return st;
    }
    *out = y;
    return HR_OK;
}
