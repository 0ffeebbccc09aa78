/* attention: causal self-attention by sequence and head. qkv [N,3C] -> [N,C]. Saved for backward:
 * qkv, the output, and one log-sum-exp a row and head; blocks of probabilities are found again. */
#include "ops/kernels.h"
#include "ops/op.h"

struct attention_ctx {
    int64_t heads, seq_len;
    float rope_base;
};

static hr__attention_args attention_args(const struct attention_ctx *c,
                                         const hr_tensor *qkv, const hr_tensor *out,
                                         const hr_tensor *lse)
{
    return (hr__attention_args){
        .qkv = hr_tensor_data(qkv),
        .out = hr_tensor_data(out),
        .lse = hr_tensor_f32(lse),
        .sequences = hr_tensor_dim(qkv, 0) / c->seq_len,
        .seq_len = c->seq_len,
        .heads = c->heads,
        .head_width = hr_tensor_dim(out, 1) / c->heads,
        .rope_base = c->rope_base,
        .type = hr_tensor_dtype(qkv),
    };
}

static hr_status attention_backward(hr_function *fn, hr_tensor *const *grad_out,
                                    hr_tensor **grad_in)
{
    hr_tensor *qkv = hr_function_saved(fn, 0), *y = hr_function_saved(fn, 1),
              *lse = hr_function_saved(fn, 2);
    HR_TRY(hr__op_like(qkv, &grad_in[0]));
    hr__attention_args args = attention_args(hr_function_ctx(fn), qkv, y, lse);
    args.dout = hr_tensor_data(grad_out[0]);
    args.dqkv = hr_tensor_data(grad_in[0]);
    return HR__LAUNCH("attention backward", hr__k_attention_back, args,
                      HR__OUT(grad_in[0]), HR__IN(grad_out[0]), HR__IN(qkv), HR__IN(y),
                      HR__IN(lse));
}

static const hr_function_class attention_class = {.name = "attention",
                                                  .ctx_bytes =
                                                      sizeof(struct attention_ctx),
                                                  .backward = attention_backward};

static hr_status check(const hr_tensor *qkv, int heads, int64_t seq_len, float base)
{
    HR_TRY(hr__op_expect("attention", "qkv", qkv, hr__op_type(qkv),
                         HR__DIMS(HR__ANY, HR__ANY)));
    int64_t width = hr_tensor_dim(qkv, 1);
    if (heads < 1 || width % (6 * (int64_t)heads) != 0 || width == 0)
        return hr_fail(HR_ERR_INVALID, "heads",
                       "attention: qkv is [%lld,%lld], whose width is not 3 * %d heads "
                       "* an even head width",
                       (long long)hr_tensor_dim(qkv, 0), (long long)width, heads);
    if (!(base > 0))
        return hr_fail(HR_ERR_INVALID, "rope_base",
                       "attention: rope_base is %g, not positive", (double)base);
    return hr__op_expect_sequences("attention", hr_tensor_dim(qkv, 0), seq_len);
}

hr_status hr_op_attention(hr_tensor *qkv, int heads, int64_t seq_len, float rope_base,
                          hr_tensor **out)
{
    HR_TRY(hr__op_out("attention", out));
    HR_TRY(check(qkv, heads, seq_len, rope_base));
    int64_t n = hr_tensor_dim(qkv, 0), width = hr_tensor_dim(qkv, 1) / 3;
    struct attention_ctx ctx = {heads, seq_len, rope_base};
    hr_tensor *y = NULL, *lse = NULL;
    hr_status st;
    HR_TRY_GOTO(st, hr_tensor_create(hr_tensor_dtype(qkv), HR__DIMS(n, width), &y),
                fail);
    HR_TRY_GOTO(st, hr_tensor_create(HR_F32, HR__DIMS(n, heads), &lse), fail);
    hr__attention_args args = attention_args(&ctx, qkv, y, lse);
    HR_TRY_GOTO(st,
                HR__LAUNCH("attention", hr__k_attention, args, HR__OUT(y), HR__OUT(lse),
                           HR__IN(qkv)),
                fail);
    HR_TRY_GOTO(st,
                hr__op_record(&attention_class, &qkv, 1, (hr_tensor *[]){qkv, y, lse},
                              3, &ctx, y),
                fail);
    hr_tensor_release(lse);
    *out = y;
    return HR_OK;
fail:
    hr_tensor_release(lse);
    hr_tensor_release(y);
    return st;
}
