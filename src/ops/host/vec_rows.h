/* Arithmetic on rows for one instruction set: included by vec_base.c, vec_avx2.c, vec_avx512.c. */
#ifndef HR_VEC_ROWS_H
#define HR_VEC_ROWS_H
#include "ops/host/vec_math.h"

static void vec_add(float *out, const float *a, const float *b, int64_t count)
{
    HR__SIMD
    for (int64_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

static void vec_widen(float *restrict to, const hr__bf16 *restrict from, int64_t count)
{
    HR__SIMD
    for (int64_t i = 0; i < count; i++)
        to[i] = hr__bf16_wide(from[i]);
}

static void vec_narrow(hr__bf16 *restrict to, const float *restrict from, int64_t count)
{
    HR__SIMD
    for (int64_t i = 0; i < count; i++)
        to[i] = hr__bf16_near(from[i]);
}

static void vec_exp_all(float *out, const float *x, int64_t count)
{
    HR__SIMD
    for (int64_t i = 0; i < count; i++)
        out[i] = vec_exp(x[i]);
}

/* ---- rmsnorm ---- */
static void vec_rmsnorm(float *restrict y, const float *restrict x,
                        const float *restrict g, int64_t rows, int64_t width, float eps)
{
    for (int64_t n = 0; n < rows; n++, x += width, y += width) {
        float squares = 0;
        HR__SIMD_SUM(squares)
        for (int64_t i = 0; i < width; i++)
            squares += x[i] * x[i];
        float factor = hr__rms_factor(squares, width, eps);
        HR__SIMD
        for (int64_t i = 0; i < width; i++)
            y[i] = x[i] * factor * g[i];
    }
}

/* dg += dy x f, f being one over the root mean square. */
static void vec_rmsnorm_back(float *restrict dx, float *restrict dg,
                             const float *restrict x, const float *restrict g,
                             const float *restrict dy, int64_t rows, int64_t width,
                             float eps)
{
    if (dg)
        memset(dg, 0, (size_t)width * sizeof *dg);
    for (int64_t n = 0; n < rows; n++, x += width, dx += width, dy += width) {
        float squares = 0, dot = 0;
        HR__SIMD_SUM(squares, dot)
        for (int64_t i = 0; i < width; i++) {
            squares += x[i] * x[i];
            dot += x[i] * g[i] * dy[i];
        }
        float f = hr__rms_factor(squares, width, eps);
        float along = hr__rms_along(f, dot, width);
        HR__SIMD
        for (int64_t i = 0; i < width; i++)
            dx[i] = hr__rmsnorm_dx(x[i], g[i], dy[i], f, along);
        if (!dg)
            continue;
        HR__SIMD
        for (int64_t i = 0; i < width; i++)
            dg[i] += dy[i] * x[i] * f;
    }
}

/* ---- swiglu ---- */
static void vec_swiglu(float *restrict y, const float *restrict x,
                       const float *restrict scale, int64_t rows, int64_t width)
{
    for (int64_t n = 0; n < rows; n++, x += 2 * width, y += width) {
        const float *a = x, *b = x + width;
        float s = scale ? scale[n] : 1.0F;
        HR__SIMD
        for (int64_t i = 0; i < width; i++)
            y[i] = hr__swiglu_value(a[i], b[i], vec_sigmoid(a[i]), s);
    }
}

static void vec_swiglu_back(float *restrict dx, float *restrict dscale,
                            const float *restrict x, const float *restrict scale,
                            const float *restrict dy, int64_t rows, int64_t width)
{
    for (int64_t n = 0; n < rows; n++, x += 2 * width, dx += 2 * width, dy += width) {
        const float *a = x, *b = x + width;
        float *da = dx, *db = dx + width;
        float s = scale ? scale[n] : 1.0F, dot = 0;
        HR__SIMD_SUM(dot)
        for (int64_t i = 0; i < width; i++) {
            dot += hr__swiglu_grad(a[i], b[i], vec_sigmoid(a[i]), s, dy[i], da + i,
                                   db + i);
        }
        if (dscale)
            dscale[n] = dot;
    }
}

/* ---- softmax and cross entropy ---- */
static void vec_softmax(float *restrict p, const float *restrict x, int64_t rows,
                        int64_t width)
{
    for (int64_t n = 0; n < rows; n++, x += width, p += width) {
        float most = vec_max(x, width), sum = 0;
        HR__SIMD_SUM(sum)
        for (int64_t i = 0; i < width; i++) {
            p[i] = vec_exp(x[i] - most);
            sum += p[i];
        }
        float factor = 1.0F / sum;
        HR__SIMD
        for (int64_t i = 0; i < width; i++)
            p[i] *= factor;
    }
}

static void vec_log_sum_exp(float *restrict lse, const float *restrict x, int64_t rows,
                            int64_t width)
{
    for (int64_t n = 0; n < rows; n++, x += width) {
        float most = vec_max(x, width), sum = 0;
        HR__SIMD_SUM(sum)
        for (int64_t i = 0; i < width; i++)
            sum += vec_exp(x[i] - most);
        /* cppcheck-suppress invalidFunctionArg ; of no columns: log 0 is right */
        lse[n] = most + logf(sum);
    }
}

static void vec_cross_entropy_back(float *restrict dx, const float *restrict x,
                                   const float *restrict lse,
                                   const int32_t *restrict targets, float factor,
                                   int64_t rows, int64_t width)
{
    for (int64_t n = 0; n < rows; n++, x += width, dx += width) {
        if (targets[n] < 0) {
            memset(dx, 0, (size_t)width * sizeof *dx);
            continue;
        }
        float shift = lse[n];
        HR__SIMD
        for (int64_t i = 0; i < width; i++)
            dx[i] = factor * vec_exp(x[i] - shift);
        dx[targets[n]] -= factor;
    }
}

/* ---- the optimiser ---- */
static double vec_sum_squares(const float *x, int64_t count)
{
    double sum = 0;
    HR__SIMD_SUM(sum)
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

static void vec_adamw(float *restrict w, const float *restrict g, float *restrict m,
                      float *restrict v, int64_t count, const hr__adamw_rate *rate)
{
    const hr__adamw_rate r = *rate;
    HR__SIMD
    for (int64_t i = 0; i < count; i++)
        w[i] = hr__adamw_weight(w[i], g[i], m + i, v + i, r);
}

#endif
