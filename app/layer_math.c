/* layer_math.c: see layer_math.h. */
#include "layer_math.h"
#include "app_try.h"

static const float NORM_EPS = 1e-5f, ROPE_BASE = 10000.0f;

hr_status hr_app_norm(hr_tensor *x, hr_tensor *gain, hr_tensor **out)
{
    return hr_op_rmsnorm(x, gain, NORM_EPS, out);
}

hr_status hr_app_attention(const hr_app_layer *l, hr_tensor *x, hr_wgrad_queue *q,
                           hr_tensor **out)
{
    hr_tensor *n = NULL, *qkv = NULL, *a = NULL, *p = NULL;
    hr_status st;
    *out = NULL;
    APP_TRY_GOTO(st, hr_app_norm(x, l->norm1, &n), done);
    APP_TRY_GOTO(st, hr_op_linear(n, l->qkv, q, &qkv), done);
    APP_TRY_GOTO(
        st, hr_op_attention(qkv, l->shape->heads, l->shape->seq, ROPE_BASE, &a), done);
    APP_TRY_GOTO(st, hr_op_linear(a, l->proj, q, &p), done);
    APP_TRY_GOTO(st, hr_op_add(x, p, out), done);
done:
    hr_tensor_release(n);
    hr_tensor_release(qkv);
    hr_tensor_release(a);
    hr_tensor_release(p);
    return st;
}

hr_status hr_app_mlp(const hr_app_layer *l, hr_tensor *n, hr_wgrad_queue *q,
                     hr_tensor **out)
{
    hr_tensor *u = NULL, *s = NULL;
    hr_status st;
    *out = NULL;
    APP_TRY_GOTO(st, hr_op_linear(n, l->mlp_in, q, &u), done);
    APP_TRY_GOTO(st, hr_op_swiglu(u, NULL, &s), done);
    APP_TRY_GOTO(st, hr_op_linear(s, l->mlp_out, q, out), done);
done:
    hr_tensor_release(u);
    hr_tensor_release(s);
    return st;
}

hr_status hr_app_route(const hr_app_layer *l, hr_tensor *n, hr_tensor **probs,
                       hr_tensor **index)
{
    hr_tensor *logits;
    APP_TRY(hr_op_linear(n, l->router, NULL, &logits));
    hr_router_opts opts = {HR_INIT(hr_router_opts),          .top_k = l->shape->top_k,
                           .normalize = l->shape->top_k > 1, .seq_len = l->shape->seq,
                           .aux_scale = l->aux_scale,        .aux_sum = l->aux_sum};
    hr_status st = hr_op_router(logits, &opts, probs, index);
    hr_tensor_release(logits);
    return st;
}

hr_status hr_app_experts(const hr_app_layer *l, hr_tensor *x, hr_tensor *probs,
                         const int64_t *offsets, hr_wgrad_queue *q, hr_tensor **out)
{
    hr_tensor *u = NULL, *s = NULL;
    hr_status st;
    *out = NULL;
    APP_TRY_GOTO(st, hr_op_grouped_linear(x, l->expert_in, offsets, q, &u), done);
    APP_TRY_GOTO(st, hr_op_swiglu(u, probs, &s), done);
    APP_TRY_GOTO(st, hr_op_grouped_linear(s, l->expert_out, offsets, q, out), done);
done:
    hr_tensor_release(u);
    hr_tensor_release(s);
    return st;
}
