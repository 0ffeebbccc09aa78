/* The sums: bucket by bucket behind the backward work that filled them. */
#include "base/try.h"
#include "exec/grads_impl.h"

#include <string.h>

void hr_grads_begin(hr_grads *g)
{
    memset(g->reduced, 0, (size_t)g->n_stages * sizeof *g->reduced);
    g->finished = false;
}

static hr_status sum_over(hr_grads *g, const hr__bucket *b, hr_group *group)
{
    float *grad = g->order[b->at]->grad;
    if (hr__alone(group))
        return HR_OK;
    return hr_all_reduce(group, grad, grad, b->count, HR_F32, HR_SUM, g->stream);
}

/* The sum over holders comes before that over data-parallel ranks: both have then added the same numbers. */
static hr_status sum_bucket(hr_grads *g, const hr__bucket *b)
{
    if (b->scattered)
        return hr__grads_scatter(g, b);
    HR_TRY(sum_over(g, b, b->copies));
    return sum_over(g, b, b->over);
}

/* Those of one stage; copies have to wait for their other holders. */
static hr_status sum_stage(hr_grads *g, int stage)
{
    g->reduced[stage] = true;
    for (int i = 0; i < g->n_buckets; i++) {
        const hr__bucket *b = &g->buckets[i];
        if (b->stage == stage && hr__alone(b->copies))
            HR_TRY(sum_bucket(g, b));
    }
    return HR_OK;
}

static hr_status check_open(const hr_grads *g, const char *what)
{
    if (g->finished)
        return hr_fail(HR_ERR_STATE, "grads_twice",
                       "gradients: %s after the step was finished", what);
    return HR_OK;
}

hr_status hr_grads_reduce(hr_grads *g, int stage)
{
    HR_NEED(g);
    HR_TRY(check_open(g, "reducing a stage"));
    if (stage < 0 || stage >= g->n_stages) /* a stage without parameters */
        return HR_OK;
    if (g->reduced[stage])
        return hr_fail(HR_ERR_STATE, "grads_twice",
                       "gradients of stage %d are reduced already", stage);
    HR_TRY(hr__grads_fence(g, hr_stream_current(), g->stream));
    return sum_stage(g, stage);
}

/* In the one order of stage and id that all ranks have, so holders meet without a circle. */
static hr_status sum_copies(hr_grads *g)
{
    for (int i = 0; i < g->n_buckets; i++)
        if (!hr__alone(g->buckets[i].copies))
            HR_TRY(sum_bucket(g, &g->buckets[i]));
    return HR_OK;
}

hr_status hr_grads_finish(hr_grads *g)
{
    HR_NEED(g);
    HR_TRY(check_open(g, "finishing"));
    g->finished = true;
    HR_TRY(hr__grads_fence(g, hr_stream_current(), g->stream));
    for (int s = 0; s < g->n_stages; s++)
        if (!g->reduced[s])
            HR_TRY(sum_stage(g, s));
    HR_TRY(sum_copies(g));
    return hr__grads_fence(g, g->stream, hr_stream_current());
}
