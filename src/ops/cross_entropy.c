/* cross_entropy: scale * sum of -log softmax(logits[n])[targets[n]], rows with target -1 left out.
 * Saved for backward: logits, targets, one log-sum-exp a row; no second [N,V]. */
#include "ops/kernels.h"
#include "ops/op.h"

struct cross_entropy_ctx {
    float scale;
};

static hr_status cross_entropy_backward(hr_function *fn, hr_tensor *const *grad_out,
                                        hr_tensor **grad_in)
{
    const struct cross_entropy_ctx *c = hr_function_ctx(fn);
    hr_tensor *logits = hr_function_saved(fn, 0), *targets = hr_function_saved(fn, 1),
              *lse = hr_function_saved(fn, 2);
    HR_TRY(hr__op_like(logits, &grad_in[0]));
    hr__cross_entropy_args args = {
        .logits = hr_tensor_data(logits),
        .targets = hr__op_i32(targets),
        .lse = hr_tensor_f32(lse),
        .loss = hr_tensor_f32(grad_out[0]),
        .dlogits = hr_tensor_data(grad_in[0]),
        .n = hr_tensor_dim(logits, 0),
        .vocabulary = hr_tensor_dim(logits, 1),
        .scale = c->scale,
        .type = hr_tensor_dtype(logits),
    };
    return HR__LAUNCH("cross_entropy backward", hr__k_cross_entropy_back, args,
                      HR__OUT(grad_in[0]), HR__IN(grad_out[0]), HR__IN(logits),
                      HR__IN(targets), HR__IN(lse));
}

static const hr_function_class cross_entropy_class = {
    .name = "cross_entropy",
    .ctx_bytes = sizeof(struct cross_entropy_ctx),
    .backward = cross_entropy_backward};

hr_status hr_op_cross_entropy(hr_tensor *logits, hr_tensor *targets, float scale,
                              hr_tensor **loss)
{
    HR_TRY(hr__op_out("cross_entropy", loss));
    HR_TRY(hr__op_expect("cross_entropy", "logits", logits, hr__op_type(logits),
                         HR__DIMS(HR__ANY, HR__ANY)));
    int64_t n = hr_tensor_dim(logits, 0);
    HR_TRY(hr__op_expect("cross_entropy", "targets", targets, HR_I32, HR__DIMS(n)));
    hr_tensor *y = NULL, *lse = NULL;
    hr_status st;
    HR_TRY_GOTO(st, hr_tensor_create(HR_F32, HR__DIMS(1), &y), fail);
    HR_TRY_GOTO(st, hr_tensor_create(HR_F32, HR__DIMS(n), &lse), fail);
    hr__cross_entropy_args args = {
        .logits = hr_tensor_data(logits),
        .targets = hr__op_i32(targets),
        .lse = hr_tensor_f32(lse),
        .loss = hr_tensor_f32(y),
        .n = n,
        .vocabulary = hr_tensor_dim(logits, 1),
        .scale = scale,
        .type = hr_tensor_dtype(logits),
    };
    HR_TRY_GOTO(st,
                HR__LAUNCH("cross_entropy", hr__k_cross_entropy, args, HR__OUT(y),
                           HR__OUT(lse), HR__IN(logits), HR__IN(targets)),
                fail);
    HR_TRY_GOTO(st,
                hr__op_record(&cross_entropy_class, &logits, 1,
                              (hr_tensor *[]){logits, targets, lse}, 3,
                              &(struct cross_entropy_ctx){scale}, y),
                fail);
    hr_tensor_release(lse);
    *loss = y;
    return HR_OK;
fail:
    hr_tensor_release(lse);
    hr_tensor_release(y);
    return st;
}
