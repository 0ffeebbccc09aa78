/* model_stack.c: two hidden states as one tensor, for the boundary behind a stage with multi-token
 * prediction. */
#include "app_try.h"
#include "model.h"

/* Rows `from` to `to` of `whole` into a tensor of their own. */
static hr_status cut(hr_tensor *whole, int64_t from, int64_t to, hr_tensor **out)
{
    hr_tensor *part;
    *out = NULL;
    APP_TRY(hr_tensor_rows(whole, from, to, &part));
    hr_status st = hr_tensor_create(hr_tensor_dtype(part), hr_tensor_ndim(part),
                                    hr_tensor_shape(part), out);
    if (st >= 0 && (st = hr_tensor_copy(*out, part)) < 0) {
        hr_tensor_release(*out);
        *out = NULL;
    }
    hr_tensor_release(part);
    return st;
}

/* NULL: zeros. */
static hr_status paste(hr_tensor *whole, int64_t from, int64_t to, hr_tensor *rows)
{
    hr_tensor *part;
    APP_TRY(hr_tensor_rows(whole, from, to, &part));
    hr_status st = rows ? hr_tensor_copy(part, rows)
                        : hr_fill(hr_stream_current(), hr_tensor_data(part), 0,
                                  hr_tensor_bytes(part));
    hr_tensor_release(part);
    return st;
}

/* One of them may be NULL: zeros. */
static hr_status join(hr_tensor *above, hr_tensor *below, hr_tensor **out)
{
    const hr_tensor *some = above ? above : below;
    int64_t rows = hr_tensor_dim(some, 0), width = hr_tensor_dim(some, 1);
    APP_TRY(
        hr_tensor_create(hr_tensor_dtype(some), 2, (int64_t[]){2 * rows, width}, out));
    hr_status st = paste(*out, 0, rows, above);
    if (st >= 0)
        st = paste(*out, rows, 2 * rows, below);
    if (st < 0) {
        hr_tensor_release(*out);
        *out = NULL;
    }
    return st;
}

/* ---- one from two ------------------------------------------------------------------------------ */

static hr_status stack_backward(hr_function *fn, hr_tensor *const *grad_out,
                                hr_tensor **grad_in)
{
    int64_t rows = hr_tensor_dim(grad_out[0], 0) / 2;
    for (int i = 0; i < 2; i++)
        if (hr_function_needs(fn, i))
            APP_TRY(cut(grad_out[0], i * rows, (i + 1) * rows, &grad_in[i]));
    return HR_OK;
}

hr_status hr_app_stack(hr_tensor *above, hr_tensor *below, hr_tensor **out)
{
    static const hr_function_class cls = {.name = "stack", .backward = stack_backward};
    hr_function *fn = NULL;
    APP_TRY(join(above, below, out));
    hr_status st = hr_function_create(&cls, (hr_tensor *[]){above, below}, 2, &fn);
    if (st >= 0)
        st = hr_function_finish(fn, out, 1);
    if (st < 0) {
        hr_tensor_release(*out);
        *out = NULL;
    }
    return st;
}

/* ---- two from one ------------------------------------------------------------------------------ */

static hr_status unstack_backward(hr_function *fn, hr_tensor *const *grad_out,
                                  hr_tensor **grad_in)
{
    return join(grad_out[0], grad_out[1], &grad_in[0]);
}

hr_status hr_app_unstack(hr_tensor *both, hr_tensor **above, hr_tensor **below)
{
    static const hr_function_class cls = {.name = "unstack",
                                          .backward = unstack_backward};
    int64_t rows = hr_tensor_dim(both, 0) / 2;
    hr_function *fn = NULL;
    hr_tensor *out[2] = {NULL, NULL};
    hr_status st = cut(both, 0, rows, &out[0]);
    if (st >= 0)
        st = cut(both, rows, 2 * rows, &out[1]);
    if (st >= 0)
        st = hr_function_create(&cls, &both, 1, &fn);
    if (st >= 0)
        st = hr_function_finish(fn, out, 2);
    if (st < 0) {
        hr_tensor_release(out[0]);
        hr_tensor_release(out[1]);
        out[0] = out[1] = NULL;
    }
    *above = out[0];
    *below = out[1];
    return st;
}
