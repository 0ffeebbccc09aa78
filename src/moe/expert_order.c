/* moe/expert_order.c: sort and unsort: from the order in which rows arrive (by rank, then by
 * expert) to the order in which experts work (by expert, then by rank), and back.
 *
 *     arrived   r0e0 r0e1 | r1e0 r1e1        sorted   r0e0 r1e0 | r0e1 r1e1
 *
 * With one rank or one local expert the two are the same, and nothing is moved; the symmetric kind
 * delivers rows sorted. */
#include "base/try.h" /* HR_TRY */
#include "moe/moe_kernels.h"
#include "moe/moe_route.h"

static bool same_order(const hr_dispatcher *d)
{
    return d->ranks == 1 || d->local == 1 || d->zc != NULL;
}

/* ---- the maps, made on the device from the counts that lie there ------------------------ */
static hr_status map_kernel(const void *args, hr_team *team)
{
    const hr__map_args *a = args;
    int32_t sorted = 0;

    for (int32_t l = 0; l < a->local; l++) {
        int32_t rank_begin = 0; /* where the rows of rank p begin among those arrived */
        for (int32_t p = 0; p < a->ranks; p++) {
            const int32_t *c = a->counts + (size_t)p * (size_t)a->experts + a->first;
            int32_t arrived = rank_begin;

            for (int32_t k = 0; k < a->local; k++) {
                rank_begin += c[k];
                if (k < l)
                    arrived += c[k];
            }
            for (int32_t i = 0; i < c[l]; i++, arrived++, sorted++) {
                a->source[sorted] = arrived;
                a->slot[arrived] = sorted;
            }
        }
    }
    return HR_OK;
}

static const hr__kernel map_forms = HR__KERNEL(map_kernel, hr__cuda_moe_map);

static hr_status launch_map(const hr_route *r)
{
    const hr_dispatcher *d = r->owner;
    hr_stream *s = hr_stream_current();
    const hr__map_args args = {.counts = r->device_counts,
                               .source = hr_tensor_data(r->order_source),
                               .slot = hr_tensor_data(r->order_slot),
                               .ranks = d->ranks,
                               .experts = d->experts,
                               .first = d->rank * d->local,
                               .local = d->local};
    const hr_operand touched[] = {
        {args.counts, (size_t)d->ranks * (size_t)d->experts * sizeof(int32_t), HR_READ},
        {args.source, hr_tensor_bytes(r->order_source), HR_WRITE},
        {args.slot, hr_tensor_bytes(r->order_slot), HR_WRITE}};

    if (r->received == 0)
        return HR_OK;
    hr_mem_record_stream(r->device_counts, s);
    return hr__launch_kernel(s, "moe_order", &map_forms, &args, sizeof args, touched,
                             3);
}

static hr_status make_maps(hr_route *r)
{
    const int64_t shape[2] = {r->received, 1};
    hr_status st;

    if (r->order_source != NULL) {
        hr__use_here(r->order_source);
        hr__use_here(r->order_slot);
        return HR_OK;
    }
    HR_TRY(hr_tensor_create(HR_I32, 1, shape, &r->order_source));
    HR_TRY_GOTO(st, hr_tensor_create(HR_I32, 2, shape, &r->order_slot), fail);
    HR_TRY_GOTO(st, launch_map(r), fail);
    return HR_OK;
fail:
    hr_tensor_release(r->order_source);
    hr_tensor_release(r->order_slot);
    r->order_source = r->order_slot = NULL;
    return st;
}

/* ---- the public calls ------------------------------------------------------------------- */
static hr_status sort_probs(hr_route *r, hr_tensor *probs, hr_tensor **out)
{
    const int64_t shape[2] = {r->received, 1};
    hr_tensor *column;

    if (same_order(r->owner))
        return hr_op_view(probs, 1, shape, out);
    HR_TRY(hr_op_view(probs, 2, shape, &column));
    hr_status st = hr_op_permute_probs(column, r->order_slot, out);
    hr_tensor_release(column);
    return st;
}

hr_status hr_moe_sort(hr_route *route, hr_tensor *received, hr_tensor *received_probs,
                      hr_tensor **sorted, hr_tensor **sorted_probs)
{
    hr_status st;

    *sorted = *sorted_probs = NULL;
    HR_TRY(hr__route_check_known(route, "moe_sort"));
    HR_TRY(hr__check_rows(received, 2, route->received, "moe_sort", "received"));
    HR_TRY(hr__check_rows(received_probs, 1, route->received, "moe_sort",
                          "received_probs"));
    if (same_order(route->owner)) {
        HR_TRY(hr_op_view(received, 2, hr_tensor_shape(received), sorted));
    } else {
        HR_TRY(make_maps(route));
        HR_TRY(hr_op_permute(received, route->order_source, route->order_slot, sorted));
    }
    st = sort_probs(route, received_probs, sorted_probs);
    if (st < 0) {
        hr_tensor_release(*sorted);
        *sorted = NULL;
    }
    return st;
}

hr_status hr_moe_unsort(hr_route *route, hr_tensor *y, hr_tensor **out)
{
    *out = NULL;
    HR_TRY(hr__route_check_known(route, "moe_unsort"));
    HR_TRY(hr__check_rows(y, 2, route->received, "moe_unsort", "y"));
    if (same_order(route->owner))
        return hr_op_view(y, 2, hr_tensor_shape(y), out);
    HR_TRY(make_maps(route));
    return hr_op_unpermute(y, route->order_source, route->order_slot, out);
}
