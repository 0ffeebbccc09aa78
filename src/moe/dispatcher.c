/* moe/dispatcher.c: the dispatcher of either kind, as far as `pre`: tokens are put in order of
 * expert, and the counts set out to all ranks.
 *
 * Counts have a group and a stream of their own, so that they neither wait for the tokens of
 * another microbatch nor hold them up:
 *
 *     compute:  sort, permute, permute probs | record counted
 *     counts:                                  wait counted, all-gather, copy, record ready
 *     host (all-to-all kind):                                            dispatch waits ready
 *     communication (symmetric kind):                                    dispatch waits ready
 *
 * Next: moe_exchange.c (dispatch, combine), expert_order.c (sort, unsort), moe_experts.c; for the
 * symmetric kind zero_copy.c, zero_copy_buffer.c, capacity.c.
 */
#include "base/try.h" /* HR_TRY */
#include "moe/moe_route.h"
#include <stdlib.h>

static hr_status check_capacity(const hr_dispatcher_opts *o)
{
    const double factor =
        o->capacity_factor != 0 ? o->capacity_factor : hr_group_size(o->tokens);

    if (o->max_tokens < 1 || o->width < 1)
        return hr_fail(
            HR_ERR_INVALID, "capacity",
            "dispatcher: max_tokens is %lld and width %lld; the symmetric kind "
            "has to know both",
            (long long)o->max_tokens, (long long)o->width);
    if (o->type != HR_F32 && o->type != HR_BF16)
        return hr_fail(HR_ERR_INVALID, "dtype",
                       "dispatcher: rows of %s; they are f32 or bf16",
                       hr_dtype_name(o->type));
    /* Written so that NaN fails. */
    if (!(factor > 0 && factor * (double)o->max_tokens * o->top_k < INT32_MAX))
        return hr_fail(HR_ERR_INVALID, "capacity",
                       "dispatcher: capacity factor %g of %lld tokens with %d choices; "
                       "it must be positive, and indices have 31 bits",
                       o->capacity_factor, (long long)o->max_tokens, o->top_k);
    return HR_OK;
}

static hr_status check_opts(const hr_dispatcher_opts *o)
{
    if (o == NULL)
        return hr_fail(HR_ERR_INVALID, "null", "dispatcher: no options");
    HR_CHECK_OPTS(o, hr_dispatcher_opts);
    if (o->tokens == NULL || o->counts == NULL || o->counts_stream == NULL)
        return hr_fail(HR_ERR_INVALID, "null", "dispatcher: %s is NULL",
                       o->tokens == NULL   ? "the group for tokens"
                       : o->counts == NULL ? "the group for counts"
                                           : "the stream for counts");
    int ranks = hr_group_size(o->tokens);

    if (o->tokens == o->counts)
        return hr_fail(HR_ERR_INVALID, "counts_group",
                       "dispatcher: tokens and counts need a group each");
    if (hr_group_size(o->counts) != ranks ||
        hr_group_rank(o->counts) != hr_group_rank(o->tokens))
        return hr_fail(
            HR_ERR_INVALID, "counts_group",
            "dispatcher: rank %d of %d in the group for tokens, %d of %d in that for "
            "counts",
            hr_group_rank(o->tokens), ranks, hr_group_rank(o->counts),
            hr_group_size(o->counts));
    if (o->experts < 1 || o->experts % ranks != 0)
        return hr_fail(
            HR_ERR_INVALID, "experts_split",
            "dispatcher: %d experts are no multiple of %d ranks; the next is "
            "%lld",
            o->experts, ranks,
            o->experts < 1 ? ranks : (o->experts / ranks + 1LL) * ranks);
    if (o->top_k < 1 || o->top_k > o->experts)
        return hr_fail(HR_ERR_INVALID, "top_k", "dispatcher: top_k is %d, not 1 to %d",
                       o->top_k, o->experts);
    return o->kind == HR_MOE_SYMMETRIC ? check_capacity(o) : HR_OK;
}

hr_status hr_dispatcher_create(const hr_dispatcher_opts *opts, hr_dispatcher **out)
{
    *out = NULL;
    HR_TRY(check_opts(opts));

    hr_dispatcher *d = calloc(1, sizeof *d);
    if (d == NULL)
        return hr_fail(HR_ERR_NOMEM, "nomem", "dispatcher: no memory");
    d->refs = 1;
    d->experts = opts->experts;
    d->top_k = opts->top_k;
    d->ranks = hr_group_size(opts->tokens);
    d->rank = hr_group_rank(opts->tokens);
    d->local = d->experts / d->ranks;
    d->counts_stream = opts->counts_stream;
    d->tokens = hr_group_retain(opts->tokens);
    d->counts = hr_group_retain(opts->counts);
    hr_status st = hr_event_create(hr_stream_device(d->counts_stream), &d->counted);
    if (st >= 0 && opts->kind == HR_MOE_SYMMETRIC)
        st = hr__zero_copy_create(opts, &d->zc);
    if (st < 0) {
        hr__dispatcher_unref(d);
        return st;
    }
    *out = d;
    return HR_OK;
}

void hr_dispatcher_destroy(hr_dispatcher *d)
{
    if (d != NULL)
        hr__dispatcher_unref(d);
}

int hr_dispatcher_local_experts(const hr_dispatcher *d)
{
    return d->local;
}

hr_moe_kind hr_dispatcher_moe_kind(const hr_dispatcher *d)
{
    return d->zc != NULL ? HR_MOE_SYMMETRIC : HR_MOE_ALLTOALL;
}

int64_t hr_dispatcher_capacity(const hr_dispatcher *d)
{
    return d->zc != NULL ? d->zc->capacity : -1;
}

static hr_status check_room(const hr__zero_copy *zc, const hr_tensor *x)
{
    if (hr_tensor_dim(x, 1) != zc->width || hr_tensor_dim(x, 0) > zc->max_tokens)
        return hr_fail(
            HR_ERR_INVALID, "shape",
            "moe_preprocess: x is [%lld,%lld]; the dispatcher was made for at "
            "most %lld tokens of width %lld",
            (long long)hr_tensor_dim(x, 0), (long long)hr_tensor_dim(x, 1),
            (long long)zc->max_tokens, (long long)zc->width);
    if (hr_tensor_dtype(x) != zc->type)
        return hr_fail(HR_ERR_INVALID, "dtype",
                       "moe_preprocess: x is %s; the dispatcher was made for %s",
                       hr_dtype_name(hr_tensor_dtype(x)), hr_dtype_name(zc->type));
    return HR_OK;
}

static hr_status check_inputs(const hr_dispatcher *d, const hr_tensor *x,
                              const hr_tensor *probs, const hr_tensor *index)
{
    static const char call[] = "moe_preprocess";

    if (d == NULL || x == NULL || probs == NULL || index == NULL)
        return hr_fail(HR_ERR_INVALID, "null", "%s: %s is NULL", call,
                       d == NULL       ? "dispatcher"
                       : x == NULL     ? "x"
                       : probs == NULL ? "probs"
                                       : "index");
    HR_TRY(hr__check_rows(x, 2, hr_tensor_dim(x, 0), call, "x"));
    HR_TRY(hr__check_rows(probs, 2, hr_tensor_dim(x, 0), call, "probs"));
    if (hr_tensor_dtype(index) != HR_I32 || !hr_tensor_same_shape(index, probs))
        return hr_fail(HR_ERR_INVALID, "shape",
                       "%s: index must be i32 and of the shape of probs", call);
    if (hr_tensor_dim(probs, 1) != d->top_k)
        return hr_fail(HR_ERR_INVALID, "top_k", "%s: %lld choices a token, not %d",
                       call, (long long)hr_tensor_dim(probs, 1), d->top_k);
    if (d->zc != NULL)
        HR_TRY(check_room(d->zc, x));
    return hr_tensor_check(index, "index");
}

/* On the counts stream, where the counts are. */
static hr_status make_limits(hr_route *r)
{
    const hr_dispatcher *d = r->owner;
    const int64_t shape[1] = {d->local + 1};
    hr_stream *previous;

    hr_stream_enter(d->counts_stream, &previous);
    hr_status st = hr_tensor_create(HR_I64, 1, shape, &r->limits);
    if (st >= 0)
        st = hr__limits_launch(d, r->device_counts, r->limits);
    hr_stream_exit(d->counts_stream, previous);
    return st;
}

/* Send the counts on their way; what travels is recorded on the counts stream. */
static hr_status exchange_counts(hr_route *r, hr_tensor *counts)
{
    const hr_dispatcher *d = r->owner;
    const size_t bytes = (size_t)d->ranks * (size_t)d->experts * sizeof(int32_t);
    hr_stream *s = d->counts_stream;
    void *all;

    HR_TRY(hr_event_record(d->counted, hr_stream_current()));
    HR_TRY(hr_event_wait(d->counted, s));
    HR_TRY(hr_mem_alloc(s, bytes, &all));
    r->device_counts = all;
    hr_storage_record_stream(hr_tensor_storage(counts), s);
    HR_TRY(
        hr_all_gather(d->counts, hr_tensor_data(counts), all, d->experts, HR_I32, s));
    HR_TRY(d->zc != NULL ? make_limits(r) : hr_copy(s, r->counts, all, bytes));
    return hr_event_record(r->ready, s);
}

/* The P that this route's dispatch will fill. Chosen here, on the stream of the experts, so that
 * dispatch, which comes after `ready`, comes after whatever used that P before. */
static hr_status reserve(hr_route *r)
{
    hr__zero_copy *zc = r->owner->zc;

    if (zc == NULL)
        return HR_OK;
    r->received = zc->capacity;
    return hr__buffer_reserve(zc, &r->reserved);
}

hr_status hr_moe_preprocess(hr_dispatcher *d, hr_tensor *x, hr_tensor *probs,
                            hr_tensor *index, hr_route **route, hr_tensor **tokens,
                            hr_tensor **permuted_probs)
{
    hr_tensor *counts = NULL;
    hr_route *r = NULL;
    hr_status st;

    *route = NULL;
    *tokens = *permuted_probs = NULL;
    HR_TRY(check_inputs(d, x, probs, index));
    HR_TRY(hr__route_take(d, &r));
    HR_TRY_GOTO(
        st, hr_op_sort_choices(index, d->experts, &r->source, &r->slot, &counts), fail);
    r->sent = hr_tensor_dim(r->source, 0);
    HR_TRY_GOTO(st, reserve(r), fail);
    /* The counts leave first: they are on their way while the rows are moved. */
    HR_TRY_GOTO(st, exchange_counts(r, counts), fail);
    HR_TRY_GOTO(st, hr_op_permute(x, r->source, r->slot, tokens), fail);
    HR_TRY_GOTO(st, hr_op_permute_probs(probs, r->slot, permuted_probs), fail);
    hr_tensor_release(counts);
    *route = r;
    return HR_OK;
fail:
    hr_tensor_release(counts);
    hr_tensor_release(*tokens);
    *tokens = *permuted_probs = NULL;
    hr_route_release(r);
    return st;
}

void hr_dispatcher_reset(hr_dispatcher *d)
{
    if (d != NULL && d->zc != NULL)
        hr__zero_copy_reset(d->zc);
}
