/* CUDA forms of the router and of sorting; the kernels are in cuda_routing.cu. The probabilities of all
 * experts live in the stream's memory for as long as a launch needs them. */
#include "ops/cuda/cuda_ops.h"

static hr_status softmax(hr_stream *s, hr__router_args a, float *p)
{
    return HR__RUN_FOR(a.type, s, SOFTMAX, hr__cuda_by_row(a.n), &p, &a.logits, &a.n,
                       &a.experts);
}

static hr_status balance(hr_stream *s, hr__router_args a, const float *p,
                         float *by_expert)
{
    return HR__RUN(s, BALANCE, hr__cuda_blocks(a.n / a.seq_len, 1, 1), &by_expert,
                   &a.losses, &p, &a.index, &a.experts, &a.top_k, &a.seq_len,
                   &a.aux_scale);
}

static hr_status choose(hr_stream *s, hr__router_args a, float *p)
{
    int normalize = a.normalize;
    int64_t one = 1;
    HR_TRY(softmax(s, a, p));
    HR_TRY(HR__RUN(s, CHOOSE, hr__cuda_by_row(a.n), &a.probs, &a.index, &p, &a.n,
                   &a.experts, &a.top_k, &normalize));
    if (a.losses == NULL)
        return HR_OK;
    HR_TRY(balance(s, a, p, NULL));
    int64_t sequences = a.n / a.seq_len;
    return HR__RUN(s, ADD_ROWS, hr__cuda_flat(one), &a.aux_sum, &a.losses, &sequences,
                   &one);
}

hr_status hr__cuda_router(hr_stream *s, const void *args)
{
    const hr__router_args *a = args;
    void *p;
    HR_TRY(hr_mem_alloc(s, (size_t)(a->n * a->experts) * sizeof(float), &p));
    hr_status st = choose(s, *a, p);
    hr_mem_free(p, s);
    return st;
}

static hr_status go_back(hr_stream *s, hr__router_args a, float *p, float *start)
{
    int normalize = a.normalize;
    HR_TRY(softmax(s, a, p));
    if (start)
        HR_TRY(balance(s, a, p, start));
    return HR__RUN_FOR(a.type, s, ROUTER_BACK, hr__cuda_by_row(a.n), &a.dlogits, &p,
                       &a.index, &a.probs, &start, &a.n, &a.experts, &a.top_k,
                       &a.seq_len, &normalize);
}

hr_status hr__cuda_router_back(hr_stream *s, const void *args)
{
    const hr__router_args *a = args;
    void *p, *start = NULL;
    HR_TRY(hr_mem_alloc(s, (size_t)(a->n * a->experts) * sizeof(float), &p));
    hr_status st = HR_OK;
    if (a->aux_scale != 0)
        st = hr_mem_alloc(s, (size_t)(a->n / a->seq_len * a->experts) * sizeof(float),
                          &start);
    if (st >= 0)
        st = go_back(s, *a, p, start);
    hr_mem_free(start, s);
    hr_mem_free(p, s);
    return st;
}

hr_status hr__cuda_sort_choices(hr_stream *s, const void *args)
{
    hr__sort_args a = *(const hr__sort_args *)args;
    hr__index_rule rule = hr__cuda_index_rule(s, "sort_choices", "index", 0, a.experts);
    int64_t copies = a.n * a.top_k;
    return HR__RUN(s, SORT_CHOICES, hr__cuda_blocks(a.experts, 1, 1), &a.source,
                   &a.slot, &a.counts, &a.index, &copies, &a.top_k, &rule);
}
