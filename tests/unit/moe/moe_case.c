#include "unit/moe/moe_case.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t mix(uint32_t x)
{
    x = (x ^ (x >> 16)) * 0x7feb352dU;
    x = (x ^ (x >> 15)) * 0x846ca68bU;
    return x ^ (x >> 16);
}

int choose_spread(const moe_case *c, int b, int t, int k)
{
    uint32_t first = mix((uint32_t)(t * 31 + b * 977 + 5));

    return (int)((first + (uint32_t)k) % (uint32_t)c->experts); /* K different ones */
}

int choose_first_rank(const moe_case *c, int b, int t, int k)
{
    return (t + b + k) % (c->experts / c->ranks);
}

int choose_last(const moe_case *c, int b, int t, int k)
{
    return c->experts - 1 - k;
}

int case_first_token(const moe_case *c, int rank)
{
    int sum = 0;

    for (int r = 0; r < rank; r++)
        sum += c->tokens[r];
    return sum;
}

int case_tokens(const moe_case *c)
{
    return case_first_token(c, c->ranks);
}

int case_most_tokens(const moe_case *c)
{
    int most = 1;

    for (int r = 0; r < c->ranks; r++)
        most = c->tokens[r] > most ? c->tokens[r] : most;
    return most;
}

float made_up(int kind, int b, int64_t i)
{
    uint32_t h = mix((uint32_t)i * 2654435761U + (uint32_t)(kind * 7919 + b * 104729));
    float unit = (float)(h >> 8) / 16777216.0F;

    return kind == MADE_PROB ? unit : 2.0F * unit - 1.0F;
}

moe_result *result_create(const moe_case *c)
{
    moe_result *r = calloc(1, sizeof *r);

    if (r == NULL)
        return NULL;
    const size_t tokens = (size_t)case_tokens(c) * CASE_MICROBATCHES;
    const size_t weights = (size_t)c->experts * (size_t)c->hidden * (size_t)c->width;
    r->rows = tokens * (size_t)c->width;
    r->choices = tokens * (size_t)c->top_k;
    r->weights1 = 2 * weights;
    r->weights2 = weights;
    r->out =
        calloc(2 * r->rows + r->choices + r->weights1 + r->weights2, sizeof *r->out);
    if (r->out == NULL) {
        free(r);
        return NULL;
    }
    r->dx = r->out + r->rows;
    r->dprobs = r->dx + r->rows;
    r->dw1 = r->dprobs + r->choices;
    r->dw2 = r->dw1 + r->weights1;
    return r;
}

void result_destroy(moe_result *r)
{
    if (r != NULL)
        free(r->out);
    free(r);
}

static size_t numbers(const moe_result *r)
{
    return 2 * r->rows + r->choices + r->weights1 + r->weights2;
}

double result_distance(const moe_result *a, const moe_result *b)
{
    double worst = 0.0;

    for (size_t i = 0; i < numbers(a); i++) {
        double d = fabs(a->out[i] - b->out[i]);
        if (!(d <= worst)) /* so that a NaN is the greatest distance */
            worst = isnan(d) ? HUGE_VAL : d;
    }
    return worst;
}

int result_same_bits(const moe_result *a, const moe_result *b)
{
    return memcmp(a->out, b->out, numbers(a) * sizeof *a->out) == 0;
}

/* One copy of one token through its expert, forward and backward. */
static void plain_choice(const moe_case *c, moe_result *r, int b, int t, int k)
{
    enum { WIDEST = 64 };
    const int64_t C = c->width, D = c->hidden, e = c->choose(c, b, t, k);
    const int64_t row = t * C, w1 = e * 2 * D * C, w2 = e * C * D;
    const size_t at = (size_t)b * (size_t)case_tokens(c);
    double *out = r->out + at * (size_t)C + row, *dx = r->dx + at * (size_t)C + row;
    double *dp = r->dprobs + (at + (size_t)t) * (size_t)c->top_k + k;
    const double p = made_up(MADE_PROB, b, (int64_t)t * c->top_k + k);
    double h[2 * WIDEST] = {0}, act[WIDEST], dact[WIDEST] = {0};

    for (int64_t o = 0; o < 2 * D; o++)
        for (int64_t i = 0; i < C; i++)
            h[o] += (double)made_up(MADE_W1, 0, w1 + o * C + i) *
                    made_up(MADE_X, b, row + i);
    for (int64_t d = 0; d < D; d++)
        act[d] = h[d] / (1.0 + exp(-h[d])) * h[D + d];
    for (int64_t o = 0; o < C; o++)
        for (int64_t d = 0; d < D; d++) {
            double w = made_up(MADE_W2, 0, w2 + o * D + d);
            double g = made_up(MADE_GRAD, b, row + o);
            out[o] += w * p * act[d];
            dact[d] += w * g;
            r->dw2[w2 + o * D + d] += g * p * act[d];
        }
    for (int64_t d = 0; d < D; d++) {
        double s = 1.0 / (1.0 + exp(-h[d])), gate = h[d], up = h[D + d];
        *dp += dact[d] * act[d];
        h[d] = p * dact[d] * up * (s + gate * s * (1.0 - s)); /* now their gradients */
        h[D + d] = p * dact[d] * gate * s;
    }
    for (int64_t o = 0; o < 2 * D; o++)
        for (int64_t i = 0; i < C; i++) {
            dx[i] += h[o] * made_up(MADE_W1, 0, w1 + o * C + i);
            r->dw1[w1 + o * C + i] += h[o] * made_up(MADE_X, b, row + i);
        }
}

void plain_moe(const moe_case *c, moe_result *r)
{
    for (int b = 0; b < CASE_MICROBATCHES; b++)
        for (int t = 0; t < case_tokens(c); t++)
            for (int k = 0; k < c->top_k; k++)
                plain_choice(c, r, b, t, k);
}
