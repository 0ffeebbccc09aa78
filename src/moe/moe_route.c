/* moe/moe_route.c: the life of a route, and what the host learns from the counts. Routes go
 * back to a list of their dispatcher, so that steady training makes none. */
#include "moe/moe_route.h"
#include "base/try.h" /* HR_TRY */
#include <stdlib.h>
#include <string.h>

/* One block: the route, the 64-bit arrays, the counts. */
static hr_route *route_alloc(const hr_dispatcher *d)
{
    size_t p = (size_t)d->ranks, e = (size_t)d->experts, l = (size_t)d->local;
    size_t wide = 2 * p + l + 1;
    hr_route *r =
        calloc(1, sizeof *r + wide * sizeof(int64_t) + p * e * sizeof(int32_t));

    if (r == NULL)
        return NULL;
    r->send = (int64_t *)(void *)(r + 1);
    r->recv = r->send + p;
    r->offsets = r->recv + p;
    r->counts = (int32_t *)(void *)(r->offsets + l + 1);
    return r;
}

hr_status hr__route_take(hr_dispatcher *d, hr_route **out)
{
    hr_route *r = d->spare;

    *out = NULL;
    if (r != NULL) {
        d->spare = r->next;
    } else {
        r = route_alloc(d);
        if (r == NULL)
            return hr_fail(HR_ERR_NOMEM, "nomem", "dispatcher: no memory for a route");
        hr_status st = hr_event_create(hr_stream_device(d->counts_stream), &r->ready);
        if (st < 0) {
            free(r);
            return st;
        }
    }
    r->next = NULL;
    r->refs = 1;
    r->owner = d;
    d->refs++;
    *out = r;
    return HR_OK;
}

/* What one microbatch left behind. The counts may still be on their way (a step that failed
 * before its dispatch): the next user's are behind them on the same stream. */
static void route_clear(hr_route *r)
{
    hr_tensor_release(r->source);
    hr_tensor_release(r->slot);
    hr_tensor_release(r->order_source);
    hr_tensor_release(r->order_slot);
    hr_tensor_release(r->limits);
    r->source = r->slot = r->order_source = r->order_slot = r->limits = NULL;
    hr__buffer_unreserve(r->reserved);
    r->reserved = NULL;
    hr_mem_free(r->device_counts, NULL);
    r->device_counts = NULL;
    r->known = false;
}

hr_route *hr_route_retain(hr_route *route)
{
    if (route != NULL)
        route->refs++;
    return route;
}

void hr_route_release(hr_route *route)
{
    if (route == NULL || --route->refs > 0)
        return;
    hr_dispatcher *d = route->owner;

    route_clear(route);
    route->next = d->spare;
    d->spare = route;
    hr__dispatcher_unref(d);
}

void hr__dispatcher_unref(hr_dispatcher *d)
{
    if (--d->refs > 0)
        return;
    if (d->spare != NULL) /* a count that is late must not be written to freed memory */
        (void)!hr_stream_synchronize(d->counts_stream);
    while (d->spare != NULL) {
        hr_route *r = d->spare;
        d->spare = r->next;
        hr_event_destroy(r->ready);
        free(r);
    }
    hr__zero_copy_destroy(d->zc);
    hr_event_destroy(d->counted);
    hr_group_release(d->tokens);
    hr_group_release(d->counts);
    free(d);
}

hr_status hr__route_learn(hr_route *r)
{
    const hr_dispatcher *d = r->owner;
    const int first = d->rank * d->local;
    int64_t mine = 0;

    if (r->known)
        return HR_OK;
    HR_TRY(hr_event_synchronize(r->ready));
    r->received = 0;
    memset(r->offsets, 0, ((size_t)d->local + 1) * sizeof *r->offsets);
    for (int p = 0; p < d->ranks; p++) {
        const int32_t *to = r->counts + (size_t)d->rank * (size_t)d->experts +
                            (size_t)p * (size_t)d->local;
        const int32_t *from = r->counts + (size_t)p * (size_t)d->experts + first;

        r->send[p] = r->recv[p] = 0;
        for (int l = 0; l < d->local; l++) {
            r->send[p] += to[l];
            r->recv[p] += from[l];
            r->offsets[l + 1] += from[l];
        }
        mine += r->send[p];
        r->received += r->recv[p];
    }
    for (int l = 0; l < d->local; l++)
        r->offsets[l + 1] += r->offsets[l];
    if (mine != r->sent)
        return hr_fail(HR_ERR_INVALID, "route_counts",
                       "moe_dispatch: the counts say %lld rows, the tokens are %lld",
                       (long long)mine, (long long)r->sent);
    if (r->received > INT32_MAX)
        return hr_fail(HR_ERR_INVALID, "route_counts",
                       "moe_dispatch: %lld rows for one rank; indices have 31 bits",
                       (long long)r->received);
    r->known = true;
    return HR_OK;
}

hr_status hr__route_check_known(const hr_route *r, const char *call)
{
    if (r == NULL)
        return hr_fail(HR_ERR_INVALID, "null", "%s: route is NULL", call);
    if (!r->known)
        return hr_fail(HR_ERR_STATE, "route_unknown",
                       "%s: the route has no counts before hr_moe_dispatch", call);
    return HR_OK;
}

const int64_t *hr_moe_offsets(const hr_route *route)
{
    return route != NULL && route->known && route->owner->zc == NULL ? route->offsets
                                                                     : NULL;
}

void hr__use_here(hr_tensor *t)
{
    hr_storage *st = hr_tensor_storage(t);
    hr_stream *here = hr_stream_current();

    if (st != NULL && hr_storage_home(st) != here)
        hr_storage_record_stream(st, here);
}

hr_status hr__check_rows(const hr_tensor *t, int ndim, int64_t rows, const char *call,
                         const char *what)
{
    if (t == NULL)
        return hr_fail(HR_ERR_INVALID, "null", "%s: %s is NULL", call, what);
    const hr_dtype type = hr_tensor_dtype(t);
    const bool may_be_bf16 = ndim == 2;

    if ((type != HR_F32 && !(type == HR_BF16 && may_be_bf16)) ||
        hr_tensor_ndim(t) != ndim)
        return hr_fail(HR_ERR_INVALID, "shape",
                       "%s: %s is %s with %d dimensions, not f32%s with %d", call, what,
                       hr_dtype_name(type), hr_tensor_ndim(t),
                       may_be_bf16 ? " or bf16" : "", ndim);
    if (hr_tensor_dim(t, 0) != rows)
        return hr_fail(HR_ERR_INVALID, "shape", "%s: %s has %lld rows, not %lld", call,
                       what, (long long)hr_tensor_dim(t, 0), (long long)rows);
    return hr_tensor_check(t, what);
}
