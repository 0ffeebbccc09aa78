/* The global norm. Squares travel as the bits of doubles, each from the one rank that counts it and
 * zeros from the others: sums of integers are exact, and so the order of addition can be that of
 * the ids, whatever rank had which. */
#include "base/try.h"
#include "exec/grads_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the ranks that come out with the same gradient one counts it. */
static bool counts(const hr_grad_desc *d)
{
    return (d->copies == NULL || hr_group_rank(d->copies) == 0) &&
           (d->over == NULL || hr_group_rank(d->over) == 0);
}

/* Is entry `i` the next of the last run? */
static bool goes_on(const hr_grads *g, int i)
{
    if (g->n_counted == 0)
        return false;
    const hr__counted *last = &g->counted[g->n_counted - 1];
    return last->at + last->n == i && last->id + last->n == g->grads[i].id;
}

static void list_counted(hr_grads *g)
{
    for (int i = 0; i < g->n; i++) {
        const hr_grad_desc *d = &g->grads[i];
        if (!counts(d))
            continue;
        if (goes_on(g, i))
            g->counted[g->n_counted - 1].n++;
        else
            g->counted[g->n_counted++] = (hr__counted){.at = i, .id = d->id, .n = 1};
    }
}

static hr_status sum_words(hr_grads *g)
{
    int64_t *at = hr_tensor_data(g->squares);
    return hr_all_reduce(g->world, at, at, hr_tensor_count(g->squares), HR_I64, HR_SUM,
                         g->stream);
}

/* Sum of `host` over the world, through the device. */
static hr_status sum_over_world(hr_grads *g, int64_t *host)
{
    size_t bytes = hr_tensor_bytes(g->squares);
    HR_TRY(hr_tensor_write(g->squares, host, bytes));
    HR_TRY(sum_words(g));
    return hr_tensor_read(g->squares, host, bytes);
}

static hr_status check_once(const hr_grads *g, const int64_t *times)
{
    if (times[g->ids])
        return hr_fail(
            HR_ERR_INVALID, "grads_entry",
            "gradients: %lld of the other ranks have an entry that cannot be",
            (long long)times[g->ids]);
    for (int i = 0; i < g->ids; i++)
        if (times[i] != 1)
            return hr_fail(HR_ERR_MISMATCH, "grads_ids",
                           "gradients: parameter %d of %d is counted %lld times over "
                           "all ranks; its holders must name each other",
                           i, g->ids, (long long)times[i]);
    return HR_OK;
}

hr_status hr__grads_count(hr_grads *g, bool refused)
{
    int64_t *times = calloc((size_t)g->ids + 1, sizeof *times);
    if (times == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d parameters", g->ids);
    times[g->ids] = refused;
    list_counted(g);
    for (int i = 0; i < g->n_counted; i++)
        for (int k = 0; k < g->counted[i].n; k++)
            times[g->counted[i].id + k]++;
    hr_status st = sum_over_world(g, times);
    if (st >= 0)
        st = check_once(g, times);
    free(times);
    return st;
}

/* The squares that this rank counts, each at its id. */
static hr_status lay_out(hr_grads *g, const double *squares)
{
    int64_t *to = hr_tensor_data(g->squares);
    HR_TRY(hr_fill(g->stream, to, 0, hr_tensor_bytes(g->squares)));
    for (int i = 0; i < g->n_counted; i++) {
        const hr__counted *c = &g->counted[i];
        HR_TRY(
            hr_copy(g->stream, to + c->id, squares + c->at, (size_t)c->n * sizeof *to));
    }
    return sum_words(g);
}

hr_status hr_grads_norm(hr_grads *g, const double *squares, double *norm)
{
    double *host = malloc(((size_t)g->ids + 1) * sizeof *host);
    hr_stream *previous, *current = hr_stream_current();
    double total = 0;
    if (host == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d squares", g->ids);
    hr_status st = hr__grads_fence(g, current, g->stream);
    if (st >= 0)
        st = lay_out(g, squares);
    hr_stream_enter(g->stream, &previous);
    if (st >= 0)
        st = hr_tensor_read(g->squares, host, hr_tensor_bytes(g->squares));
    hr_stream_exit(g->stream, previous);
    if (st >= 0) /* `squares` may be written again */
        st = hr__grads_fence(g, g->stream, current);
    for (int i = 0; i < g->ids && st >= 0; i++)
        total += host[i];
    if (st >= 0)
        *norm = sqrt(total);
    free(host);
    return st;
}
