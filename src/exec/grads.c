/* Gradients over ranks: what there is, and whether it can be. */
#include "base/try.h"
#include "exec/grads_impl.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKET_BYTES = 4 << 20 };

static hr_status check_entry(const hr_grads_opts *o, int i)
{
    const hr_grad_desc *d = &o->grads[i];
    if (d->stage < 0 || d->id < 0 || d->id >= o->ids || d->count < 0 ||
        (d->grad == NULL && d->count > 0))
        return hr_fail(HR_ERR_INVALID, "grads_entry",
                       "gradients: entry %d has stage %d, id %d of %d, %lld elements%s",
                       i, d->stage, d->id, o->ids, (long long)d->count,
                       d->grad ? "" : " nowhere");
    if (o->shard && d->weight == NULL && d->count > 0)
        return hr_fail(HR_ERR_INVALID, "grads_entry",
                       "gradients: entry %d is sharded, and has no weights", i);
    return HR_OK;
}

static hr_status check(const hr_grads_opts *o)
{
    if (o == NULL || o->world == NULL || o->stream == NULL ||
        (o->grads == NULL && o->n > 0) || o->n < 0 || o->ids < 0)
        return hr_fail(HR_ERR_INVALID, "no_argument",
                       "gradients need a list, the world and a stream");
    HR_CHECK_OPTS(o, hr_grads_opts);
    if (hr_dtype_bytes(o->weight_dtype) == 0)
        return hr_fail(HR_ERR_INVALID, "dtype", "gradients: weights of type %d",
                       (int)o->weight_dtype);
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
    for (int i = 0; i < o->n; i++)
        if (o->grads[i].stage >= g->n_stages)
            g->n_stages = o->grads[i].stage + 1;
    g->grads = calloc(n, sizeof *g->grads);
    g->order = calloc(n, sizeof(const hr_grad_desc *));
    g->buckets = calloc(n, sizeof *g->buckets);
    g->counted = calloc(n, sizeof *g->counted);
    g->slices = calloc((size_t)o->ids + 1, sizeof *g->slices);
    g->reduced = calloc((size_t)g->n_stages + 1, sizeof *g->reduced);
    if (!g->grads || !g->order || !g->buckets || !g->counted || !g->slices ||
        !g->reduced)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d gradients", o->n);
    g->world = hr_group_retain(o->world);
    g->stream = o->stream;
    g->ids = o->ids;
    g->shard = o->shard;
    g->weight_dtype = o->weight_dtype;
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
    hr_status st = hr__grads_count(g, refused);
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
    free(g->order);
    free(g->buckets);
    free(g->counted);
    free(g->slices);
    free(g->reduced);
    free(g);
}
