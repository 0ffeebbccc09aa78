/* moe/capacity.c: static capacity: where each expert's rows end, computed where the counts are, and what
 * did not fit, noted there and told once a step.
 *
 * The counts of all ranks are on every rank, so that each finds every rank's overflow by itself
 * and all agree about it without a word. */
#include "base/try.h"          /* HR_TRY */
#include "device/device_ops.h" /* hr__mark_fill: the layer that is being issued */
#include "moe/moe_kernels.h"
#include "moe/moe_route.h"
#include <math.h>
#include <stdlib.h>

/* Rows for expert `e` from all ranks. */
static int64_t rows_for(const hr__limits_args *a, int32_t e)
{
    int64_t rows = 0;

    for (int32_t p = 0; p < a->ranks; p++)
        rows += a->counts[(int64_t)p * a->experts + e];
    return rows;
}

static void note_overflow(const hr__limits_args *a, int32_t rank, int64_t needed)
{
    if (needed <= a->capacity || needed <= a->worst->needed)
        return;
    *a->worst = (hr__overflow_record){
        .needed = needed, .layer = a->layer, .microbatch = a->microbatch, .rank = rank};
    for (int32_t l = 0; l < a->local; l++)
        a->worst->counts[l] = (int32_t)rows_for(a, rank * a->local + l);
}

static hr_status limits_kernel(const void *args, hr_team *team)
{
    const hr__limits_args *a = args;

    a->limits[0] = 0;
    for (int32_t r = 0; r < a->ranks; r++) {
        int64_t end = 0;
        for (int32_t l = 0; l < a->local; l++) {
            end += rows_for(a, r * a->local + l);
            if (r == a->rank)
                a->limits[l + 1] = end < a->capacity ? end : a->capacity;
        }
        note_overflow(a, r, end);
    }
    return HR_OK;
}

static const hr__kernel limits_forms = HR__KERNEL(limits_kernel, hr__cuda_moe_limits);

static size_t record_bytes(const hr_dispatcher *d)
{
    return sizeof(hr__overflow_record) + (size_t)d->local * sizeof(int32_t);
}

hr_status hr__limits_launch(const hr_dispatcher *d, const int32_t *counts,
                            hr_tensor *limits)
{
    hr_stream *s = hr_stream_current();
    hr__launch node;
    hr__mark_fill(s, &node);
    const hr__limits_args args = {.counts = counts,
                                  .limits = hr_tensor_data(limits),
                                  .worst = d->zc->overflow,
                                  .capacity = d->zc->capacity,
                                  .ranks = d->ranks,
                                  .experts = d->experts,
                                  .rank = d->rank,
                                  .local = d->local,
                                  .layer = node.mark.layer,
                                  .microbatch = node.mark.microbatch};
    const hr_operand touched[] = {
        {counts, (size_t)d->ranks * (size_t)d->experts * sizeof *counts, HR_READ},
        {args.limits, hr_tensor_bytes(limits), HR_WRITE},
        {args.worst, record_bytes(d), HR_READ_WRITE}};

    return hr__launch_kernel(s, "moe_limits", &limits_forms, &args, sizeof args,
                             touched, 3);
}

/* A capacity factor with room for so many rows, in four decimals. */
static double factor_for(const hr_dispatcher *d, int64_t rows)
{
    return ceil((double)rows * d->zc->per_row * 1e4) / 1e4;
}

/* ---- once a step ----------------------------------------------------------------------- */
static hr_status report(const hr_dispatcher *d, const hr__overflow_record *r)
{
    char experts[160] = "";
    int n = 0;

    for (int l = 0; l < d->local && n < (int)sizeof experts - 16; l++)
        n += snprintf(experts + n, sizeof experts - (size_t)n, "%s%d", l ? ", " : "",
                      (int)r->counts[l]);
    return hr_fail(
        HR_ERR_STATE, "overflow",
        "layer %d, microbatch %d: rank %d gets %lld rows for its experts (from expert "
        "%d on: %s), more than its capacity of %lld; capacity %lld is needed, a "
        "capacity factor of %g",
        r->layer, r->microbatch, r->rank, (long long)r->needed, r->rank * d->local,
        experts, (long long)d->zc->capacity, (long long)r->needed,
        factor_for(d, r->needed));
}

hr_status hr_dispatcher_check(hr_dispatcher *d, hr_overflow *out)
{
    if (out != NULL)
        *out = (hr_overflow){.layer = -1, .microbatch = -1, .rank = HR_NO_RANK};
    if (d == NULL || d->zc == NULL)
        return HR_OK;
    const size_t bytes = record_bytes(d);
    hr__overflow_record *host = calloc(1, bytes);

    if (host == NULL)
        return hr_fail(HR_ERR_NOMEM, "nomem", "dispatcher: no memory");
    hr_status st = hr_copy(d->counts_stream, host, d->zc->overflow, bytes);
    if (st >= 0)
        st = hr_fill(d->counts_stream, d->zc->overflow, 0, bytes);
    if (st >= 0)
        st = hr_stream_synchronize(d->counts_stream);
    if (st >= 0 && host->needed > 0) {
        if (out != NULL)
            *out = (hr_overflow){.layer = host->layer,
                                 .microbatch = host->microbatch,
                                 .rank = host->rank,
                                 .needed = host->needed,
                                 .factor = factor_for(d, host->needed)};
        st = report(d, host);
    }
    free(host);
    return st;
}
