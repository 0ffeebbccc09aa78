/* See reference.h. */
#include "reference.h"
#include <math.h>
#include <stdlib.h>

void ref_linear(const double *x, const double *w, int64_t n, int64_t in, int64_t out,
                double *y)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t o = 0; o < out; o++) {
            double sum = 0;
            for (int64_t k = 0; k < in; k++)
                sum += x[i * in + k] * w[o * in + k];
            y[i * out + o] = sum;
        }
}

void ref_rmsnorm(const double *x, const double *g, int64_t n, int64_t c, double eps,
                 double *y)
{
    for (int64_t i = 0; i < n; i++) {
        double squares = 0;
        for (int64_t k = 0; k < c; k++)
            squares += x[i * c + k] * x[i * c + k];
        for (int64_t k = 0; k < c; k++)
            y[i * c + k] = x[i * c + k] / sqrt(squares / (double)c + eps) * g[k];
    }
}

void ref_softmax(const double *x, int64_t n, double *p)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += p[i] = exp(x[i] - most);
    for (int64_t i = 0; i < n; i++)
        p[i] /= sum;
}

/* Element i of a head's row `x` of width d, turned by position t. */
static double rotated(const double *x, int64_t i, int64_t d, int64_t t, double base)
{
    int64_t half = d / 2, pair = i % half;
    double angle = (double)t * pow(base, -2.0 * (double)pair / (double)d);
    double a = x[pair], b = x[pair + half];
    return i < half ? a * cos(angle) - b * sin(angle) : b * cos(angle) + a * sin(angle);
}

static void rotate_rows(const double *x, int64_t stride, int64_t t_count, int64_t d,
                        double base, double *y)
{
    for (int64_t t = 0; t < t_count; t++)
        for (int64_t i = 0; i < d; i++)
            y[t * d + i] = rotated(x + t * stride, i, d, t, base);
}

static void one_head(const double *q, const double *k, const double *v, int64_t stride,
                     int64_t t_count, int64_t d, double base, double *out,
                     int64_t out_stride)
{
    double *rq = malloc((size_t)(2 * t_count * d + 2 * t_count) * sizeof *rq);
    double *rk = rq + t_count * d, *s = rk + t_count * d, *p = s + t_count;
    rotate_rows(q, stride, t_count, d, base, rq);
    rotate_rows(k, stride, t_count, d, base, rk);
    for (int64_t i = 0; i < t_count; i++) {
        for (int64_t j = 0; j <= i; j++) {
            s[j] = 0;
            for (int64_t c = 0; c < d; c++)
                s[j] += rq[i * d + c] * rk[j * d + c] / sqrt((double)d);
        }
        ref_softmax(s, i + 1, p);
        for (int64_t c = 0; c < d; c++) {
            out[i * out_stride + c] = 0;
            for (int64_t j = 0; j <= i; j++)
                out[i * out_stride + c] += p[j] * v[j * stride + c];
        }
    }
    free(rq);
}

void ref_attention(const double *qkv, int64_t n, int64_t c, int64_t heads,
                   int64_t seq_len, double base, double *out)
{
    int64_t d = c / heads;
    for (int64_t row = 0; row < n; row += seq_len)
        for (int64_t h = 0; h < heads; h++) {
            const double *q = qkv + row * 3 * c + h * d;
            one_head(q, q + c, q + 2 * c, 3 * c, seq_len, d, base,
                     out + row * c + h * d, c);
        }
}

void ref_swiglu(const double *x, const double *scale, int64_t n, int64_t d, double *y)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < d; k++) {
            double a = x[i * 2 * d + k], b = x[i * 2 * d + d + k];
            y[i * d + k] = a / (1 + exp(-a)) * b * (scale ? scale[i] : 1);
        }
}

double ref_cross_entropy(const double *logits, const int32_t *targets, int64_t n,
                         int64_t v, double scale)
{
    double sum = 0, *p = malloc((size_t)(v + 1) * sizeof *p);
    for (int64_t i = 0; i < n; i++) {
        if (targets[i] < 0)
            continue;
        ref_softmax(logits + i * v, v, p);
        sum -= log(p[targets[i]]);
    }
    free(p);
    return scale * sum;
}

static void top_of(const double *p, int64_t experts, int64_t top_k, int32_t *index)
{
    for (int64_t k = 0; k < top_k; k++) {
        index[k] = -1;
        for (int32_t e = 0; e < experts; e++) {
            bool taken = false;
            for (int64_t j = 0; j < k; j++)
                taken = taken || index[j] == e;
            if (!taken && (index[k] < 0 || p[e] > p[index[k]]))
                index[k] = e;
        }
    }
}

static double balance(const struct ref_router *r, const double *p, const int32_t *index)
{
    double loss = 0, t = (double)r->seq_len;
    for (int64_t e = 0; e < r->experts; e++) {
        double count = 0, mean = 0;
        for (int64_t i = 0; i < r->seq_len * r->top_k; i++)
            count += index[i] == e;
        for (int64_t i = 0; i < r->seq_len; i++)
            mean += p[i * r->experts + e] / t;
        loss += count * mean;
    }
    return loss * (double)r->experts / ((double)r->top_k * t);
}

double ref_router(const struct ref_router *r, const double *logits, double *probs,
                  int32_t *index)
{
    int64_t k = r->top_k, e = r->experts;
    double loss = 0, *p = malloc((size_t)(r->n * e + 1) * sizeof *p);
    int32_t *chosen = malloc((size_t)(r->n * k + 1) * sizeof *chosen);
    for (int64_t i = 0; i < r->n; i++) {
        double sum = 0;
        ref_softmax(logits + i * e, e, p + i * e);
        top_of(p + i * e, e, k, chosen + i * k);
        for (int64_t j = 0; j < k; j++)
            sum += p[i * e + chosen[i * k + j]];
        for (int64_t j = 0; j < k; j++)
            probs[i * k + j] = p[i * e + chosen[i * k + j]] / (r->normalize ? sum : 1);
    }
    for (int64_t i = 0; r->aux_scale != 0 && i < r->n; i += r->seq_len)
        loss += balance(r, p + i * e, chosen + i * k);
    for (int64_t i = 0; index && i < r->n * k; i++)
        index[i] = chosen[i];
    free(chosen);
    free(p);
    return r->aux_scale * loss;
}
