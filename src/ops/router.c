/* router: softmax over the experts, the top K, and the load-balance loss by sequence. Saved for
 * backward: logits and choices; the probabilities are found again. */
#include "ops/kernels.h"
#include "ops/op.h"

struct router_ctx {
    int64_t seq_len;
    float aux_scale;
    bool normalize;
};

static hr_status router_backward(hr_function *fn, hr_tensor *const *grad_out,
                                 hr_tensor **grad_in)
{
    const struct router_ctx *c = hr_function_ctx(fn);
    hr_tensor *logits = hr_function_saved(fn, 0), *index = hr_function_saved(fn, 1);
    HR_TRY(hr__op_like(logits, &grad_in[0]));
    hr__router_args args = {
        .logits = hr_tensor_data(logits),
        .index = hr__op_i32(index),
        .probs = hr_tensor_f32(grad_out[0]),
        .dlogits = hr_tensor_data(grad_in[0]),
        .n = hr_tensor_dim(logits, 0),
        .experts = hr_tensor_dim(logits, 1),
        .top_k = hr_tensor_dim(index, 1),
        .seq_len = c->seq_len,
        .aux_scale = c->aux_scale,
        .normalize = c->normalize,
        .type = hr_tensor_dtype(logits),
    };
    return HR__LAUNCH("router backward", hr__k_router_back, args, HR__OUT(grad_in[0]),
                      HR__IN(grad_out[0]), HR__IN(logits), HR__IN(index));
}

static const hr_function_class router_class = {.name = "router",
                                               .ctx_bytes = sizeof(struct router_ctx),
                                               .backward = router_backward};

static hr_status check(const hr_tensor *logits, const hr_router_opts *opts)
{
    if (!opts)
        return hr_fail(HR_ERR_INVALID, "operand", "router: opts is NULL");
    HR_CHECK_OPTS(opts, hr_router_opts);
    HR_TRY(hr__op_expect("router", "logits", logits, hr__op_type(logits),
                         HR__DIMS(HR__ANY, HR__ANY)));
    int64_t experts = hr_tensor_dim(logits, 1);
    if (opts->top_k < 1 || opts->top_k > experts)
        return hr_fail(HR_ERR_INVALID, "top_k",
                       "router: top_k is %d, not 1 to the %lld experts", opts->top_k,
                       (long long)experts);
    if (opts->aux_sum)
        HR_TRY(hr__op_expect("router", "aux_sum", opts->aux_sum, HR_F32, HR__DIMS(1)));
    if (opts->aux_scale == 0)
        return HR_OK;
    return hr__op_expect_sequences("router", hr_tensor_dim(logits, 0), opts->seq_len);
}

static hr_status launch(const hr_tensor *logits, const hr_router_opts *opts,
                        const hr_tensor *probs, const hr_tensor *index)
{
    hr_tensor *aux = opts->aux_scale != 0 ? opts->aux_sum : NULL, *losses = NULL;
    int64_t n = hr_tensor_dim(logits, 0);
    if (aux)
        HR_TRY(hr_tensor_create(HR_F32, HR__DIMS(n / opts->seq_len), &losses));
    hr__router_args args = {
        .logits = hr_tensor_data(logits),
        .index = hr__op_i32(index),
        .probs = hr_tensor_f32(probs),
        .aux_sum = aux ? hr_tensor_f32(aux) : NULL,
        .losses = aux ? hr_tensor_f32(losses) : NULL,
        .n = n,
        .experts = hr_tensor_dim(logits, 1),
        .top_k = opts->top_k,
        .seq_len = opts->seq_len,
        .aux_scale = opts->aux_scale,
        .normalize = opts->normalize,
        .type = hr_tensor_dtype(logits),
    };
    hr_status st =
        HR__LAUNCH("router", hr__k_router, args, HR__OUT(probs), HR__OUT(index),
                   HR__INOUT(aux), HR__OUT(losses), HR__IN(logits));
    hr_tensor_release(losses);
    return st;
}

hr_status hr_op_router(hr_tensor *logits, const hr_router_opts *opts, hr_tensor **probs,
                       hr_tensor **index)
{
    HR_TRY(hr__op_out("router", probs));
    HR_TRY(hr__op_out("router", index));
    HR_TRY(check(logits, opts));
    int64_t n = hr_tensor_dim(logits, 0);
    hr_tensor *p = NULL, *idx = NULL;
    hr_status st;
    HR_TRY_GOTO(st, hr_tensor_create(HR_F32, HR__DIMS(n, opts->top_k), &p), fail);
    HR_TRY_GOTO(st, hr_tensor_create(HR_I32, HR__DIMS(n, opts->top_k), &idx), fail);
    HR_TRY_GOTO(st, launch(logits, opts, p, idx), fail);
    struct router_ctx ctx = {opts->seq_len, opts->aux_scale, opts->normalize};
    HR_TRY_GOTO(st,
                hr__op_record(&router_class, &logits, 1, (hr_tensor *[]){logits, idx},
                              2, &ctx, p),
                fail);
    *probs = p;
    *index = idx;
    return HR_OK;
fail:
    hr_tensor_release(idx);
    hr_tensor_release(p);
    return st;
}
