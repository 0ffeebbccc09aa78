/* Formulas of single elements, written once for the host's loops and for CUDA kernels. Plain C that
 * is C++ too; what an exponential is, and how sums are made, each side knows for itself. */
#ifndef HR_FORMULAS_H
#define HR_FORMULAS_H
#include "tensor/bf16.h" /* HR__FORMULA */
#include <math.h>
#include <stdint.h>

typedef struct hr__adamw_rate {
    float grad_scale, beta1, beta2, eps;
    float decay;    /* lr * weight_decay */
    float lr1;      /* lr / (1 - beta1^step) */
    float correct2; /* 1 / (1 - beta2^step) */
} hr__adamw_rate;

/* Of one weight; returns what it becomes. */
HR__FORMULA float hr__adamw_weight(float w, float g, float *m, float *v,
                                   hr__adamw_rate r)
{
    float d = g * r.grad_scale;
    *m = r.beta1 * *m + (1.0F - r.beta1) * d;
    *v = r.beta2 * *v + (1.0F - r.beta2) * d * d;
    return w - (r.decay * w + r.lr1 * *m / (sqrtf(*v * r.correct2) + r.eps));
}

/* One over the root mean square. */
HR__FORMULA float hr__rms_factor(float squares, int64_t width, float eps)
{
    return 1.0F / sqrtf(squares / (float)width + eps);
}

/* With factor f: dx = f (g dy - x f^2 mean(g dy x)) = f g dy - along x. */
HR__FORMULA float hr__rms_along(float f, float dot, int64_t width)
{
    return f * f * f * dot / (float)width;
}

HR__FORMULA float hr__rmsnorm_dx(float x, float g, float dy, float f, float along)
{
    return f * g * dy - along * x;
}

/* `gate` is the sigmoid of a. */
HR__FORMULA float hr__swiglu_value(float a, float b, float gate, float scale)
{
    return scale * a * gate * b;
}

/* Returns what the gradient of the scale gets. */
HR__FORMULA float hr__swiglu_grad(float a, float b, float gate, float scale, float d,
                                  float *da, float *db)
{
    float silu = a * gate;
    *da = scale * d * b * (gate + silu * (1.0F - gate));
    *db = scale * d * silu;
    return d * silu * b;
}

/* Half of a pair turned by an angle whose cosine and sine these are: the first of (a, b), and with
 * (b, a) and -sine the second. */
HR__FORMULA float hr__turned(float a, float b, float cosine, float sine)
{
    return a * cosine - b * sine;
}

/* What every probability of expert e gets from the load-balance loss of its sequence of T tokens, of
 * which `count` choices were e: scale * E / (K T) * count / T. */
HR__FORMULA float hr__balance_grad(float aux_scale, int64_t experts, int64_t top_k,
                                   int64_t seq_len, double count)
{
    double tokens = (double)seq_len;
    double weight = (double)aux_scale * (double)experts / ((double)top_k * tokens);
    return (float)(weight * count / tokens);
}

#endif
