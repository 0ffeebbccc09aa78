/* Host kernels of the router. Parts are runs of tokens; with a load-balance loss they are
 * sequences. Per sequence: loss = E / (K T) * sum_e count_e * mean_t p_te, so its gradient for every
 * p_te of the sequence is aux_scale * E / (K T) * count_e / T. */
#include "base/try.h"
#include "ops/host/host_wide.h"
#include <string.h>

enum { PART_ROWS = 256 };

static int64_t part_rows(const hr__router_args *a)
{
    return a->aux_scale != 0 ? a->seq_len : PART_ROWS;
}

/* The K greatest of p [E], the lower index first among equals. */
static void choose(const float *p, int64_t experts, int64_t top_k, int32_t *index)
{
    for (int64_t k = 0; k < top_k; k++) {
        int32_t best = -1;
        for (int32_t e = 0; e < experts; e++) {
            bool taken = false;
            for (int64_t j = 0; j < k; j++)
                taken |= index[j] == e;
            if (!taken && (best < 0 || p[e] > p[best]))
                best = e;
        }
        index[k] = best;
    }
}

static float chosen_sum(const float *p, const int32_t *index, int64_t top_k)
{
    float sum = 0;
    for (int64_t k = 0; k < top_k; k++)
        sum += p[index[k]];
    return sum;
}

/* Over `rows` tokens of one sequence: what the gradient of every p_te is, by expert; and, if
 * wanted, the loss of the sequence. */
static void balance(const hr__router_args *a, const float *p, const int32_t *index,
                    float *by_expert, float *loss)
{
    double sum = 0;
    memset(by_expert, 0, (size_t)a->experts * sizeof *by_expert);
    for (int64_t i = 0; i < a->seq_len * a->top_k; i++)
        by_expert[index[i]] += 1;
    for (int64_t e = 0; e < a->experts; e++)
        by_expert[e] = hr__balance_grad(a->aux_scale, a->experts, a->top_k, a->seq_len,
                                        (double)by_expert[e]);
    if (!loss)
        return;
    for (int64_t t = 0; t < a->seq_len; t++)
        for (int64_t e = 0; e < a->experts; e++)
            sum += (double)by_expert[e] * (double)p[t * a->experts + e];
    *loss = (float)sum;
}

static hr_status no_scratch(void)
{
    return hr_fail(HR_ERR_NOMEM, NULL, "router: no memory for scratch");
}

static hr_status router_part(void *arg, int i)
{
    const hr__router_args *a = arg;
    int64_t size = part_rows(a), begin = i * size, rows = a->n - begin, e = a->experts;
    rows = rows < size ? rows : size;
    float *p = hr__scratch((size_t)((rows + 1) * e) * sizeof(float));
    if (!p)
        return no_scratch();
    int32_t *index = a->index + begin * a->top_k;
    hr__vec_best()->softmax(p, a->logits + begin * e, rows, e);
    for (int64_t n = 0; n < rows; n++) {
        int32_t *mine = index + n * a->top_k;
        float *probs = a->probs + (begin + n) * a->top_k;
        choose(p + n * e, e, a->top_k, mine);
        float sum = a->normalize ? chosen_sum(p + n * e, mine, a->top_k) : 1;
        for (int64_t k = 0; k < a->top_k; k++)
            probs[k] = p[n * e + mine[k]] / sum;
    }
    if (a->losses)
        balance(a, p, index, p + rows * e, a->losses + i);
    return HR_OK;
}

hr_status hr__host_router(const void *args, hr_team *team)
{
    hr__router_args a = *(const hr__router_args *)args;
    if (a.type == HR_BF16)
        return HR__WIDE_RUN(hr__host_router, a, team,
                            {&a.logits, a.n * a.experts, HR_READ});
    int64_t parts = hr__parts(a.n, part_rows(&a));
    HR_TRY(hr__parts_run(team, parts, router_part, &a));
    for (int64_t i = 0; a.losses && i < parts; i++)
        *a.aux_sum += a.losses[i];
    return HR_OK;
}

/* d of one token: dp starts as what the loss gives each expert, gets what came to the chosen, and
 * goes back through the softmax. */
static void token_back(const hr__router_args *a, const float *p, const int32_t *index,
                       const float *dprobs, float *dp)
{
    float sum = 1, mean = 0, dot = 0;
    if (a->normalize) {
        sum = chosen_sum(p, index, a->top_k);
        for (int64_t k = 0; k < a->top_k; k++)
            mean += dprobs[k] * p[index[k]] / sum;
    }
    for (int64_t k = 0; k < a->top_k; k++)
        dp[index[k]] += (dprobs[k] - mean) / sum;
    for (int64_t e = 0; e < a->experts; e++)
        dot += p[e] * dp[e];
    for (int64_t e = 0; e < a->experts; e++)
        dp[e] = p[e] * (dp[e] - dot);
}

static hr_status router_back_part(void *arg, int i)
{
    const hr__router_args *a = arg;
    int64_t size = part_rows(a), begin = i * size, rows = a->n - begin, e = a->experts;
    rows = rows < size ? rows : size;
    float *p = hr__scratch((size_t)((rows + 1) * e) * sizeof(float));
    if (!p)
        return no_scratch();
    float *start = p + rows * e;
    const int32_t *index = a->index + begin * a->top_k;
    hr__vec_best()->softmax(p, a->logits + begin * e, rows, e);
    if (a->aux_scale != 0)
        balance(a, p, index, start, NULL);
    else
        memset(start, 0, (size_t)e * sizeof *start);
    for (int64_t n = 0; n < rows; n++) {
        float *dp = a->dlogits + (begin + n) * e;
        memcpy(dp, start, (size_t)e * sizeof *dp);
        token_back(a, p + n * e, index + n * a->top_k,
                   a->probs + (begin + n) * a->top_k, dp);
    }
    return HR_OK;
}

hr_status hr__host_router_back(const void *args, hr_team *team)
{
    hr__router_args a = *(const hr__router_args *)args;
    int64_t count = a.n * a.experts;
    if (a.type == HR_BF16)
        return HR__WIDE_RUN(hr__host_router_back, a, team, {&a.logits, count, HR_READ},
                            {&a.dlogits, count, HR_WRITE});
    return hr__parts_run(team, hr__parts(a.n, part_rows(&a)), router_back_part, &a);
}
