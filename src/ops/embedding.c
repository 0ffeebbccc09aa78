/* embedding: rows of a table by id. Backward adds to the table's gradient in the order of the
 * tokens. V rows of the table, C width, N tokens. */
#include "ops/kernels.h"
#include "ops/op.h"

struct embedding_ctx {
    int64_t vocabulary;
};

static hr_status embedding_backward(hr_function *fn, hr_tensor *const *grad_out,
                                    hr_tensor **grad_in)
{
    const struct embedding_ctx *c = hr_function_ctx(fn);
    hr_tensor *ids = hr_function_saved(fn, 0), *dw;
    HR_TRY(hr__op_weight_grad(fn, 0,
                              HR__DIMS(c->vocabulary, hr_tensor_dim(grad_out[0], 1)),
                              &grad_in[0], &dw));
    hr__embedding_args args = {
        .table = hr_tensor_f32(dw),
        .rows = hr_tensor_data(grad_out[0]),
        .ids = hr__op_i32(ids),
        .n = hr_tensor_count(ids),
        .width = hr_tensor_dim(dw, 1),
        .vocabulary = hr_tensor_dim(dw, 0),
        .type = hr_tensor_dtype(grad_out[0]),
    };
    return HR__LAUNCH("embedding backward", hr__k_embedding_back, args, HR__INOUT(dw),
                      HR__IN(grad_out[0]), HR__IN(ids));
}

static const hr_function_class embedding_class = {.name = "embedding",
                                                  .ctx_bytes =
                                                      sizeof(struct embedding_ctx),
                                                  .backward = embedding_backward};

hr_status hr_op_embedding(hr_tensor *w, hr_tensor *ids, hr_tensor **out)
{
    HR_TRY(hr__op_out("embedding", out));
    hr_dtype type = hr__op_type(w);
    HR_TRY(hr__op_expect("embedding", "w", w, type, HR__DIMS(HR__ANY, HR__ANY)));
    HR_TRY(hr__op_expect("embedding", "ids", ids, HR_I32, HR__DIMS(HR__ANY)));
    int64_t n = hr_tensor_dim(ids, 0), width = hr_tensor_dim(w, 1);
    hr_tensor *y;
    hr_status st;
    HR_TRY(hr_tensor_create(type, HR__DIMS(n, width), &y));
    hr__embedding_args args = {
        .table = hr_tensor_data(w),
        .rows = hr_tensor_data(y),
        .ids = hr__op_i32(ids),
        .n = n,
        .width = width,
        .vocabulary = hr_tensor_dim(w, 0),
        .type = type,
    };
    HR_TRY_GOTO(st,
                HR__LAUNCH("embedding", hr__k_embedding, args, HR__OUT(y), HR__IN(w),
                           HR__IN(ids)),
                fail);
    HR_TRY_GOTO(st,
                hr__op_record(&embedding_class, &w, 1, &ids, 1,
                              &(struct embedding_ctx){hr_tensor_dim(w, 0)}, y),
                fail);
    *out = y;
    return HR_OK;
fail:
    hr_tensor_release(y);
    return st;
}
