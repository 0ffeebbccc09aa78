/* What the fronts of the operators share: see op.h. */
#include "ops/op.h"
#include <string.h>

enum { SHAPE_TEXT = 96 };

/* "f32 [3,*]" */
static void shape_text(char *text, hr_dtype type, int ndim, const int64_t *dims)
{
    int at = snprintf(text, SHAPE_TEXT, "%s [", hr_dtype_name(type));
    for (int i = 0; i < ndim && at < SHAPE_TEXT - 24; i++) {
        if (dims[i] == HR__ANY)
            at += snprintf(text + at, SHAPE_TEXT - at, "%s*", i ? "," : "");
        else
            at += snprintf(text + at, SHAPE_TEXT - at, "%s%lld", i ? "," : "",
                           (long long)dims[i]);
    }
    snprintf(text + at, SHAPE_TEXT - at, "]");
}

hr_status hr__op_out(const char *op, hr_tensor **out)
{
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "%s: an output pointer is NULL", op);
    *out = NULL;
    return HR_OK;
}

static bool fits(const hr_tensor *t, hr_dtype type, int ndim, const int64_t *dims)
{
    if (hr_tensor_dtype(t) != type || hr_tensor_ndim(t) != ndim)
        return false;
    for (int i = 0; i < ndim; i++) {
        if (dims[i] != HR__ANY && dims[i] != hr_tensor_dim(t, i))
            return false;
    }
    return true;
}

hr_status hr__op_expect(const char *op, const char *operand, const hr_tensor *t,
                        hr_dtype type, int ndim, const int64_t *dims)
{
    char want[SHAPE_TEXT], have[SHAPE_TEXT], what[SHAPE_TEXT];
    if (!t) {
        shape_text(want, type, ndim, dims);
        return hr_fail(HR_ERR_INVALID, "operand", "%s: %s is NULL, not %s", op, operand,
                       want);
    }
    if (!fits(t, type, ndim, dims)) {
        shape_text(want, type, ndim, dims);
        shape_text(have, hr_tensor_dtype(t), hr_tensor_ndim(t), hr_tensor_shape(t));
        return hr_fail(HR_ERR_INVALID, "shape", "%s: %s is %s, not %s", op, operand,
                       have, want);
    }
    for (int i = 0; i < ndim; i++) /* products and indices count in 32 bits */
        if (hr_tensor_dim(t, i) > INT32_MAX)
            return hr_fail(HR_ERR_INVALID, "shape",
                           "%s: %s has a dimension of %lld, over %d", op, operand,
                           (long long)hr_tensor_dim(t, i), INT32_MAX);
    if (hr_tensor_data(t) || hr_tensor_count(t) == 0)
        return HR_OK;
    snprintf(what, sizeof what, "%s: %s", op, operand);
    return hr_tensor_check(t, what);
}

hr_status hr__op_expect_sequences(const char *op, int64_t rows, int64_t seq_len)
{
    if (seq_len < 1 || rows % seq_len != 0)
        return hr_fail(HR_ERR_INVALID, "seq_len",
                       "%s: %lld rows are no whole number of sequences of %lld tokens",
                       op, (long long)rows, (long long)seq_len);
    return HR_OK;
}

hr_status hr__op_record(const hr_function_class *cls, hr_tensor *const *inputs,
                        int n_inputs, hr_tensor *const *saved, int n_saved,
                        const void *ctx, hr_tensor *output)
{
    hr_function *fn;
    HR_TRY(hr_function_create(cls, inputs, n_inputs, &fn));
    if (!fn)
        return HR_OK;
    if (ctx)
        memcpy(hr_function_ctx(fn), ctx, cls->ctx_bytes);
    for (int i = 0; i < n_saved; i++) {
        hr_status st = hr_function_save(fn, saved[i], NULL);
        if (st < 0) {
            hr_function_abandon(fn);
            return st;
        }
    }
    return hr_function_finish(fn, &output, 1);
}

hr_status hr__op_weight_grad(hr_function *fn, int input, int ndim, const int64_t *dims,
                             hr_tensor **grad_in, hr_tensor **out)
{
    hr_tensor *leaf = hr_function_input(fn, input);
    if (!leaf) {
        HR_TRY(hr_tensor_zeros(HR_F32, ndim, dims, grad_in));
        *out = *grad_in;
        return HR_OK;
    }
    HR_TRY(hr_grad_buffer(leaf, out));
    return hr__op_expect("backward", "the gradient buffer of a weight", *out, HR_F32,
                         ndim, dims);
}

hr_status hr__op_like(const hr_tensor *like, hr_tensor **out)
{
    return hr_tensor_create(hr_tensor_dtype(like), hr_tensor_ndim(like),
                            hr_tensor_shape(like), out);
}
