/* For the tests of autograd: functions whose derivative is known, on top of the tensor kit.
 *
 *     scale  y = c * x        pair  y = a + b (both gradients are the same handle)
 *     split  y0 = x, y1 = x   all of them launch, as operators do
 */
#ifndef AUTOGRAD_KIT_H
#define AUTOGRAD_KIT_H
#include "unit/tensor/tensor_kit.h"

#include "headrace/autograd.h"

enum { OPS_LOGGED = 64 };
static const char *op_log[OPS_LOGGED]; /* names of the backwards that ran, in order */
static int op_logged;

static inline void op_log_add(const char *name)
{
    if (op_logged < OPS_LOGGED)
        op_log[op_logged++] = name;
}

struct scale_ctx {
    float c;
    const char *name;
    hr_status fail;  /* what backward returns instead of a gradient */
    int *fini_count; /* may be NULL */
    int saved;       /* slot of x, or -1 */
};

struct scale_args {
    float *y;
    const float *x;
    float c;
    int64_t n;
};

static inline hr_status scale_kernel(const void *args, hr_team *team)
{
    const struct scale_args *a = args;
    for (int64_t i = 0; i < a->n; i++)
        a->y[i] = a->c * a->x[i];
    return HR_OK;
}

static inline hr_tensor *scaled(hr_tensor *x, float c)
{
    hr_tensor *y = NULL;
    if (hr_tensor_create(HR_F32, hr_tensor_ndim(x), hr_tensor_shape(x), &y) < 0)
        return NULL;
    struct scale_args a = {hr_tensor_f32(y), hr_tensor_f32(x), c, hr_tensor_count(x)};
    hr_operand ops[] = {{a.y, hr_tensor_bytes(y), HR_WRITE},
                        {a.x, hr_tensor_bytes(x), HR_READ}};
    if (hr_launch(hr_stream_current(), "scale", scale_kernel, &a, sizeof a, ops, 2) <
        0) {
        hr_tensor_release(y);
        return NULL;
    }
    return y;
}

static inline hr_status scale_backward(hr_function *fn, hr_tensor *const *grad_out,
                                       hr_tensor **grad_in)
{
    struct scale_ctx *ctx = hr_function_ctx(fn);
    op_log_add(ctx->name);
    if (ctx->fail < 0)
        return hr_fail(ctx->fail, "callback", "'%s' fails on purpose", ctx->name);
    grad_in[0] = scaled(grad_out[0], ctx->c);
    return grad_in[0] ? HR_OK : HR_ERR_NOMEM;
}

static inline void scale_fini(void *p)
{
    struct scale_ctx *ctx = p;
    if (ctx->fini_count)
        ++*ctx->fini_count;
}

static const hr_function_class scale_class = {"scale", sizeof(struct scale_ctx),
                                              scale_backward, scale_fini};

/* y = c * x; keeps x (as a product keeps its operands). */
static inline hr_tensor *scale_as(hr_tensor *x, float c, const char *name,
                                  hr_status fail)
{
    hr_function *fn;
    hr_tensor *y = scaled(x, c);
    assert_non_null(y);
    kit_ok(hr_function_create(&scale_class, &x, 1, &fn));
    if (fn) {
        struct scale_ctx *ctx = hr_function_ctx(fn);
        *ctx = (struct scale_ctx){.c = c, .name = name, .fail = fail};
        kit_ok(hr_function_save(fn, x, &ctx->saved));
        kit_ok(hr_function_finish(fn, &y, 1));
    }
    hr_tensor_set_name(y, name);
    return y;
}

static inline hr_tensor *scale(hr_tensor *x, float c)
{
    return scale_as(x, c, "scale", HR_OK);
}

static inline hr_status pair_backward(hr_function *fn, hr_tensor *const *grad_out,
                                      hr_tensor **grad_in)
{
    op_log_add("pair");
    for (int i = 0; i < 2; i++)
        if (hr_function_needs(fn, i))
            grad_in[i] = hr_tensor_retain(grad_out[0]);
    return HR_OK;
}

static const hr_function_class pair_class = {.name = "pair", .backward = pair_backward};

/* y = a + b, for the gradient: the values are those of a. */
static inline hr_tensor *pair(hr_tensor *a, hr_tensor *b)
{
    hr_function *fn;
    hr_tensor *y = scaled(a, 1), *in[2] = {a, b};
    assert_non_null(y);
    kit_ok(hr_function_create(&pair_class, in, 2, &fn));
    kit_ok(hr_function_finish(fn, &y, 1));
    return y;
}

static inline hr_status split_backward(hr_function *fn, hr_tensor *const *grad_out,
                                       hr_tensor **grad_in)
{
    op_log_add(grad_out[0] && grad_out[1] ? "split both"
               : grad_out[0]              ? "split first"
                                          : "split second");
    grad_in[0] = scaled(grad_out[0] ? grad_out[0] : grad_out[1], 1);
    return HR_OK;
}

static const hr_function_class split_class = {.name = "split",
                                              .backward = split_backward};

static inline void split(hr_tensor *x, hr_tensor *out[2])
{
    hr_function *fn;
    kit_ok(hr_tensor_alias(x, &out[0]));
    kit_ok(hr_tensor_alias(x, &out[1]));
    kit_ok(hr_function_create(&split_class, &x, 1, &fn));
    kit_ok(hr_function_finish(fn, out, 2));
}

/* A leaf that requires a gradient. */
static inline hr_tensor *as_leaf(hr_tensor *t)
{
    kit_ok(hr_tensor_set_requires_grad(t, true));
    return t;
}

#define LEAF(...) as_leaf(KIT_TENSOR(__VA_ARGS__))

static inline int autograd_open(void **state)
{
    op_logged = 0;
    return kit_open(state);
}

#endif
