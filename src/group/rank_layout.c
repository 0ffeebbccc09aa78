/* A grid of axes and the groups that span some of them. Orders are read in
 * rank_layout_order.c, the set-up of a whole world is in rank_layout_world.c.
 *
 * With axis i of `extent[i]` ranks, fastest first, a rank is the sum of its places times the strides:
 *
 *     tp 2, dp 2, pp 2        stride 1 2 4         rank 6 is tp 0, dp 1, pp 1
 *
 * A group holds the places of the spanned axes; the places of the others are the group's number.
 */
#include "group/rank_layout.h"

#include <stdlib.h>

#include "base/try.h"

const char *hr_rank_axis_name(hr_rank_axis axis)
{
    static const char *const names[] = {
#define X(name, text) text,
        HR_RANK_AXIS_MAP(X)
#undef X
    };
    return (unsigned)axis < HR_RANK_AXES ? names[axis] : "?";
}

void hr_rank_groups_fini(hr_rank_groups *g)
{
    if (g == NULL)
        return;
    free(g->ranks);
    *g = (hr_rank_groups){0};
}

/* The rank, without the places of axes that `of_group` does not choose, of the `index`-th
 * combination of places along the axes that it does. */
static int place(int index, const int *extent, const bool *mask, int n, bool of_group)
{
    int stride = 1, rank = 0;
    for (int i = 0; i < n; i++) {
        if (mask[i] == of_group) {
            rank += index % extent[i] * stride;
            index /= extent[i];
        }
        stride *= extent[i];
    }
    return rank;
}

static hr_status product(const int *extent, const bool *mask, int n, int *spanned,
                         int *others)
{
    int64_t all = 1;
    *spanned = *others = 1;
    for (int i = 0; i < n; i++) {
        if (extent[i] < 1 || (all *= extent[i]) > HR_MAX_RANKS)
            return hr_fail(HR_ERR_INVALID, "layout_size",
                           "axis %d of %d has %d ranks: at least 1, and all axes "
                           "together at most %d",
                           i, n, extent[i], HR_MAX_RANKS);
        *(mask[i] ? spanned : others) *= extent[i];
    }
    return HR_OK;
}

hr_status hr_rank_groups_masked(int ranks, const int *extent, const bool *mask,
                                int n_axes, hr_rank_groups *out)
{
    int spanned, others;
    if (out == NULL)
        return hr_fail(HR_ERR_INVALID, "no_out", "rank groups: nowhere to put them");
    *out = (hr_rank_groups){0};
    if (extent == NULL || mask == NULL || n_axes < 1 || ranks < 0)
        return hr_fail(HR_ERR_INVALID, "layout_size", "rank groups: %d ranks, %d axes",
                       ranks, n_axes);
    HR_TRY(product(extent, mask, n_axes, &spanned, &others));
    int n = ranks / spanned;
    if (n > others)
        return hr_fail(HR_ERR_INVALID, "layout_size",
                       "%d ranks make %d groups of %d, the axes have %d", ranks, n,
                       spanned, others);
    out->size = spanned;
    if (n == 0)
        return HR_OK;
    out->ranks = malloc((size_t)n * (size_t)spanned * sizeof *out->ranks);
    if (out->ranks == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the groups of %d ranks",
                       ranks);
    out->n = n;
    for (int g = 0; g < n; g++) {
        int first = place(g, extent, mask, n_axes, false);
        for (int i = 0; i < spanned; i++)
            out->ranks[g * spanned + i] = first + place(i, extent, mask, n_axes, true);
    }
    return HR_OK;
}

hr_status hr_rank_layout_groups(const hr_rank_layout *l, const char *axes,
                                hr_rank_groups *out)
{
    bool named[HR_RANK_AXES] = {false}, mask[HR_RANK_AXES];
    if (l == NULL || axes == NULL || out == NULL)
        return hr_fail(HR_ERR_INVALID, "layout_token", "rank groups: no %s",
                       l == NULL      ? "layout"
                       : axes == NULL ? "axes"
                                      : "place for them");
    *out = (hr_rank_groups){0};
    for (const char *p = axes; p != NULL;) {
        hr__axis_word w = hr__axis_word_next(&p);
        if (w.axis == HR_RANK_AXES)
            return hr_fail(HR_ERR_INVALID, "layout_token",
                           "groups of '%s': '%.*s' is no axis of ranks", axes, w.len,
                           w.text);
        named[w.axis] = true;
    }
    for (int i = 0; i < HR_RANK_AXES; i++)
        mask[i] = named[l->axis[i]];
    HR_TRY(hr_rank_groups_masked(l->ranks, l->extent, mask, HR_RANK_AXES, out));
    for (int i = 0; i < out->n * out->size; i++)
        out->ranks[i] += l->offset;
    return HR_OK;
}

int hr_embedding_ranks(const int *pp_ranks, int n, int out[2])
{
    if (pp_ranks == NULL || out == NULL || n < 1)
        return 0;
    out[0] = pp_ranks[0];
    out[1] = pp_ranks[n - 1];
    return n == 1 ? 1 : 2;
}
