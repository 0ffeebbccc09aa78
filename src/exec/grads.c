/* Gradients over ranks: what there is, and how it is cut into buckets. */
#include "base/try.h"
#include "exec/grads_impl.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKET_BYTES = 4 << 20 };

/* ---- buckets ------------------------------------------------------------------------------- */
static bool alone(const hr_group *g)
{
    return g == NULL || hr_group_size(g) == 1;
}

/* In one order on all ranks that share any of them: of stage, then of id. Addresses would not do. */
static int by_stage_and_id(const void *a, const void *b)
{
    const hr_grad_desc *x = *(const hr_grad_desc *const *)a;
    const hr_grad_desc *y = *(const hr_grad_desc *const *)b;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* The bucket that `d` continues; NULL: none. Regions take turns, so it need not be the last. */
static hr__bucket *continued_by(hr_grads *g, const hr_grad_desc *d, int64_t most)
{
    for (int i = g->n_buckets - 1; i >= 0; i--) {
        hr__bucket *b = &g->buckets[i];
        if (b->stage != d->stage)
            return NULL;
        if (b->grad + b->count == d->grad && b->count + d->count <= most &&
            b->copies == d->copies && b->over == d->over)
            return b;
    }
    return NULL;
}

bool hr__grads_cut(hr_grads *g, size_t bucket_bytes)
{
    int64_t most = (int64_t)(bucket_bytes / sizeof(float));
    const hr_grad_desc **order = calloc((size_t)g->n + 1, sizeof(const hr_grad_desc *));
    if (order == NULL)
        return false;
    for (int i = 0; i < g->n; i++)
        order[i] = &g->grads[i];
    qsort(order, (size_t)g->n, sizeof(const hr_grad_desc *), by_stage_and_id);
    for (int i = 0; i < g->n; i++) {
        const hr_grad_desc *d = order[i];
        if ((alone(d->copies) && alone(d->over)) || d->count == 0)
            continue;
        hr__bucket *b = continued_by(g, d, most);
        if (b)
            b->count += d->count;
        else
            g->buckets[g->n_buckets++] =
                (hr__bucket){d->grad, d->count, d->stage, d->copies, d->over};
    }
    free(order);
    return true;
}

/* ---- making -------------------------------------------------------------------------------- */
static hr_status check_entry(const hr_grads_opts *o, int i)
{
    const hr_grad_desc *d = &o->grads[i];
    if (d->stage < 0 || d->id < 0 || d->id >= o->ids || d->count < 0 ||
        (d->grad == NULL && d->count > 0))
        return hr_fail(HR_ERR_INVALID, "grads_entry",
                       "gradients: entry %d has stage %d, id %d of %d, %lld elements%s",
                       i, d->stage, d->id, o->ids, (long long)d->count,
                       d->grad ? "" : " nowhere");
    return HR_OK;
}

static hr_status check(const hr_grads_opts *o)
{
    if (o == NULL || o->world == NULL || o->stream == NULL ||
        (o->grads == NULL && o->n > 0) || o->n < 0 || o->ids < 0)
        return hr_fail(HR_ERR_INVALID, "no_argument",
                       "gradients need a list, the world and a stream");
    HR_CHECK_OPTS(o, hr_grads_opts);
    return HR_OK;
}

static hr_status check_entries(const hr_grads_opts *o)
{
    for (int i = 0; i < o->n; i++)
        HR_TRY(check_entry(o, i));
    return HR_OK;
}

static hr_status fill(hr_grads *g, const hr_grads_opts *o, bool refused)
{
    size_t n = (size_t)o->n + 1;
    int64_t words = (int64_t)o->ids + 1;
    for (int i = 0; i < o->n; i++)
        if (o->grads[i].stage >= g->n_stages)
            g->n_stages = o->grads[i].stage + 1;
    g->grads = calloc(n, sizeof *g->grads);
    g->buckets = calloc(n, sizeof *g->buckets);
    g->counted = calloc(n, sizeof *g->counted);
    g->reduced = calloc((size_t)g->n_stages + 1, sizeof *g->reduced);
    if (!g->grads || !g->buckets || !g->counted || !g->reduced)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d gradients", o->n);
    g->world = hr_group_retain(o->world);
    g->stream = o->stream;
    g->ids = o->ids;
    for (g->n = 0; g->n < o->n; g->n++) {
        hr_grad_desc *d = &g->grads[g->n];
        *d = o->grads[g->n];
        d->copies = d->copies ? hr_group_retain(d->copies) : NULL;
        d->over = d->over ? hr_group_retain(d->over) : NULL;
    }
    if (!hr__grads_cut(g, o->bucket_bytes ? o->bucket_bytes : BUCKET_BYTES))
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for buckets of gradients");
    HR_TRY(hr_event_create(hr_stream_device(g->stream), &g->fence));
    hr_stream *previous;
    hr_stream_enter(g->stream, &previous);
    hr_status st = hr_tensor_create(HR_I64, 1, &words, &g->squares);
    if (st >= 0)
        st = hr__grads_count(g, refused);
    hr_stream_exit(g->stream, previous);
    return st;
}

hr_status hr_grads_create(const hr_grads_opts *opts, hr_grads **out)
{
    HR_NEED(out);
    *out = NULL;
    HR_TRY(check(opts));
    hr_grads *g = calloc(1, sizeof *g);
    if (g == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for gradients");
    hr_grads_opts o = *opts;
    bool refused = check_entries(opts) < 0;
    if (refused) /* the others are told, and wait for nobody */
        o.n = 0;
    hr_status st = fill(g, &o, refused);
    if (refused)
        st = check_entries(opts);
    if (st < 0) {
        hr_grads_destroy(g);
        return st;
    }
    *out = g;
    return HR_OK;
}

void hr_grads_destroy(hr_grads *g)
{
    if (g == NULL)
        return;
    for (int i = 0; i < g->n; i++) {
        hr_group_release(g->grads[i].copies);
        hr_group_release(g->grads[i].over);
    }
    hr_tensor_release(g->squares);
    hr_event_destroy(g->fence);
    hr_group_release(g->world);
    free(g->grads);
    free(g->buckets);
    free(g->counted);
    free(g->reduced);
    free(g);
}
