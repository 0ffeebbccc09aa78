/* Layouts: what a stage holds, and even splits. */
#include "schedule/layout.h"

#include "base/try.h" /* HR_TRY */
#include "schedule/layout_balance.h"

#include <stdlib.h>

int hr_layout_stages(const hr_layout *l)
{
    return l->ranks * l->chunks;
}

int hr_layout_layers(const hr_layout *l)
{
    return l->layers;
}

int hr_layout_mtp(const hr_layout *l)
{
    return l->mtp;
}

void hr_layout_destroy(hr_layout *l)
{
    if (l == NULL)
        return;
    free(l->first);
    free(l);
}

hr_status hr__layout_create(const hr_layout_opts *o, hr_layout **out)
{
    hr_layout *l = calloc(1, sizeof *l);
    if (l != NULL)
        l->first = calloc((size_t)o->ranks * (size_t)o->chunks + 1, sizeof *l->first);
    if (l == NULL || l->first == NULL) {
        free(l);
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a layout of %d ranks",
                       o->ranks);
    }
    l->ranks = o->ranks;
    l->chunks = o->chunks;
    l->layers = o->layers;
    l->mtp = o->mtp;
    l->placement = o->placement;
    l->first[hr_layout_stages(l)] = hr__layout_row(o->layers, o->mtp);
    *out = l;
    return HR_OK;
}

/* How many of the entries [from, to) of a row lie in [begin, end). */
static int overlap(int from, int to, int begin, int end)
{
    from = from < begin ? begin : from;
    to = to > end ? end : to;
    return to > from ? to - from : 0;
}

static int clamp(int x, int low, int high)
{
    return x < low ? low : x > high ? high : x;
}

hr_status hr_layout_get(const hr_layout *l, int stage, hr_layout_part *out)
{
    HR_NEED(l);
    HR_NEED(out);
    if (stage < 0 || stage >= hr_layout_stages(l))
        return hr_fail(HR_ERR_INVALID, "layout_range", "stage %d of a layout of %d",
                       stage, hr_layout_stages(l));
    int from = l->first[stage];
    int to = l->first[stage + 1];
    int mtp = 1 + l->layers; /* where they begin */
    int loss = mtp + l->mtp;
    bool back = l->placement == HR_PLACEMENT_V && stage >= l->ranks;
    *out = (hr_layout_part){
        .rank = back ? 2 * l->ranks - 1 - stage : stage % l->ranks,
        .chunk = stage / l->ranks,
        .embedding = from == 0 && to > 0,
        .loss = from <= loss && to > loss,
        .first_layer = clamp(from - 1, 0, l->layers),
        .layers = overlap(from, to, 1, mtp),
        .first_mtp = clamp(from - mtp, 0, l->mtp),
        .mtp = overlap(from, to, mtp, loss),
    };
    return HR_OK;
}

hr_status hr_layout_find(const hr_layout *l, int layer, int *stage, int *local)
{
    HR_NEED(l);
    HR_NEED(stage);
    HR_NEED(local);
    if (layer < 0 || layer >= l->layers)
        return hr_fail(HR_ERR_INVALID, "layout_range",
                       "layer %d of a layout of %d layers", layer, l->layers);
    int low = 0; /* the last stage that begins at or before the layer */
    int high = hr_layout_stages(l) - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (l->first[middle] <= layer + 1)
            low = middle;
        else
            high = middle - 1;
    }
    *stage = low;
    *local = layer + 1 - (l->first[low] > 0 ? l->first[low] : 1);
    return HR_OK;
}

hr_status hr__layout_check(const hr_layout_opts *o)
{
    int chunks = o->chunks ? o->chunks : 1;
    if (o->ranks < 1 || chunks < 1 || (int64_t)o->ranks * chunks > HR__MAX_STAGES ||
        o->layers < 0 || o->layers > HR__MAX_LAYERS || o->mtp < 0 ||
        o->mtp > HR__MAX_LAYERS || o->first < 0 || o->last < 0)
        return hr_fail(HR_ERR_INVALID, "layout_size",
                       "a layout of %d layers and %d for prediction on %d ranks of %d "
                       "chunks: 1 to %d stages, and at most %d layers",
                       o->layers, o->mtp, o->ranks, chunks, HR__MAX_STAGES,
                       (int)HR__MAX_LAYERS);
    if (o->placement != HR_PLACEMENT_LOOP && o->placement != HR_PLACEMENT_V)
        return hr_fail(HR_ERR_INVALID, "layout_size",
                       "a layout's placement is a loop or a V");
    return HR_OK;
}

static hr_status check_v(const hr_layout_opts *o)
{
    if (o->placement == HR_PLACEMENT_V && o->chunks != 2)
        return hr_fail(HR_ERR_INVALID, "layout_refused",
                       "a layout of %d ranks with %d chunks each: a V has 2", o->ranks,
                       o->chunks);
    return HR_OK;
}

/* Layers of a rank from its share; each of its chunks gets the same. */
static hr_status divide(const hr_layout_opts *o, const char *who, int layers, int into,
                        int *each)
{
    *each = layers / into;
    if (layers % into == 0 && *each > 0)
        return HR_OK;
    int below = layers - layers % into;
    int above = below + into;
    char nearest[60];
    if (below > 0)
        snprintf(nearest, sizeof nearest, "%d or %d would", below, above);
    else
        snprintf(nearest, sizeof nearest, "%d would", above);
    return hr_fail(
        HR_ERR_INVALID, "layout_refused",
        "%d layers on %d ranks of %d chunk%s: %d layers for %s do not divide "
        "into %d stages; %s, or an uneven layout",
        o->layers, o->ranks, o->chunks, o->chunks > 1 ? "s" : "", layers, who, into,
        nearest);
}

static hr_status split_even(const hr_layout_opts *o, hr_layout *l)
{
    int ends[2] = {0, 0}; /* layers a stage of the first and the last rank */
    int others = 0;
    bool given[2] = {o->first > 0, o->last > 0};
    int between = o->ranks - given[0] - given[1];
    int64_t rest = (int64_t)o->layers - o->first - o->last;
    if (between < 0 || rest < 0 || (between == 0 && rest > 0))
        return hr_fail(HR_ERR_INVALID, "layout_refused",
                       "%d layers on %d ranks, %d on the first and %d on the last",
                       o->layers, o->ranks, o->first, o->last);
    if (given[0])
        HR_TRY(divide(o, "the first rank", o->first, o->chunks, &ends[0]));
    if (given[1])
        HR_TRY(divide(o, "the last rank", o->last, o->chunks, &ends[1]));
    if (between > 0)
        HR_TRY(divide(o, given[0] || given[1] ? "the other ranks" : "all ranks",
                      (int)rest, between * o->chunks, &others));
    int at = 0;
    for (int stage = 0; stage < o->ranks * o->chunks; stage++) {
        hr_layout_part part;
        HR_TRY(hr_layout_get(l, stage, &part));
        bool low = given[0] && part.rank == 0;
        bool high = given[1] && part.rank == o->ranks - 1;
        l->first[stage] = stage == 0 ? 0 : 1 + at;
        at += low ? ends[0] : high ? ends[1] : others;
    }
    return HR_OK;
}

/* Without costs a decoder layer is one, and the rest nothing. */
static hr_status split_uneven(const hr_layout_opts *o, hr_layout *l)
{
    int n = hr__layout_row(o->layers, o->mtp);
    if (o->first > 0 || o->last > 0)
        return hr_fail(HR_ERR_INVALID, "layout_refused",
                       "layers of the first or last rank are for an even layout");
    if (o->cost != NULL)
        return hr__layout_balance(o->cost, l);
    int64_t *cost = calloc((size_t)n, sizeof *cost);
    if (cost == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the costs of %d layers", n);
    for (int i = 1; i <= o->layers; i++)
        cost[i] = HR_TICKS;
    hr_status st = hr__layout_balance(cost, l);
    free(cost);
    return st;
}

hr_status hr_layout_split(const hr_layout_opts *opts, hr_layout **out)
{
    HR_NEED(out);
    *out = NULL;
    if (opts == NULL)
        return hr_fail(HR_ERR_INVALID, "layout_size", "a layout without sizes");
    HR_CHECK_OPTS(opts, hr_layout_opts);
    hr_layout_opts o = *opts;
    HR_TRY(hr__layout_check(&o));
    if (o.chunks == 0)
        o.chunks = 1;
    HR_TRY(check_v(&o));
    hr_layout *l = NULL;
    HR_TRY(hr__layout_create(&o, &l));
    hr_status st = o.uneven || o.cost ? split_uneven(&o, l) : split_even(&o, l);
    if (st < 0)
        hr_layout_destroy(l);
    else
        *out = l;
    return st;
}
