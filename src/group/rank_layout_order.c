/* Orders of axes: read, completed, and given the axis that gathers weights anew. */
#include "group/rank_layout.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/try.h"

static const char default_order[] = "tp-cp-ep-dp-pp";

static hr_rank_axis axis_of(const char *text, int len)
{
    int a = 0;
    while (a < HR_RANK_AXES) {
        const char *name = hr_rank_axis_name((hr_rank_axis)a);
        if (strlen(name) == (size_t)len && strncasecmp(name, text, (size_t)len) == 0)
            break;
        a++;
    }
    return (hr_rank_axis)a;
}

hr__axis_word hr__axis_word_next(const char **p)
{
    const char *text = *p;
    size_t len = strcspn(text, "-");
    *p = text[len] ? text + len + 1 : NULL;
    /* what is too long to print whole is no axis either */
    int shown = len < 64 ? (int)len : 64;
    return (hr__axis_word){text, shown, axis_of(text, shown)};
}

/* The axes that `order` names, in its order; their number into *n. */
static hr_status read_order(const char *order, hr_rank_axis *axis, int *n)
{
    bool seen[HR_RANK_AXES] = {false};
    *n = 0;
    for (const char *p = order; p != NULL;) {
        hr__axis_word w = hr__axis_word_next(&p);
        if (w.axis == HR_RANK_AXES)
            return hr_fail(HR_ERR_INVALID, "layout_axis",
                           "order '%s': '%.*s' is no axis of ranks", order, w.len,
                           w.text);
        if (seen[w.axis])
            return hr_fail(HR_ERR_INVALID, "layout_axis",
                           "order '%s': '%.*s' stands there twice", order, w.len,
                           w.text);
        seen[w.axis] = true;
        axis[(*n)++] = w.axis;
    }
    return HR_OK;
}

/* An axis of one rank may be left out: where it stands makes no difference. */
static hr_status complete(const char *order, const int *size, hr_rank_axis *axis, int n)
{
    for (int a = 0; a < HR_RANK_AXES; a++) {
        int i = 0;
        while (i < n && axis[i] != (hr_rank_axis)a)
            i++;
        if (i < n)
            continue;
        if (size[a] != 1)
            return hr_fail(HR_ERR_INVALID, "layout_order",
                           "order '%s' leaves out %s, which has %d ranks", order,
                           hr_rank_axis_name((hr_rank_axis)a), size[a]);
        axis[n++] = (hr_rank_axis)a;
    }
    return HR_OK;
}

static hr_status check_sizes(const int *size, int *ranks)
{
    int64_t all = 1;
    for (int a = 0; a < HR_RANK_AXES; a++) {
        if (size[a] < 1)
            return hr_fail(HR_ERR_INVALID, "layout_size",
                           "%s has %d ranks: at least 1 (0: 1)",
                           hr_rank_axis_name((hr_rank_axis)a), size[a]);
        if ((all *= size[a]) > HR_MAX_RANKS)
            return hr_fail(HR_ERR_INVALID, "layout_size",
                           "a layout of more than %d ranks", HR_MAX_RANKS);
    }
    *ranks = (int)all;
    return HR_OK;
}

hr_status hr_rank_layout_init(hr_rank_layout *l, const hr_rank_layout_opts *opts)
{
    static const hr_rank_layout_opts defaults = {HR_INIT(hr_rank_layout_opts)};
    if (l == NULL)
        return hr_fail(HR_ERR_INVALID, "no_out", "rank layout: nowhere to put it");
    *l = (hr_rank_layout){0};
    HR_CHECK_OPTS(opts, hr_rank_layout_opts);
    const hr_rank_layout_opts *o = opts ? opts : &defaults;
    const char *order = o->order ? o->order : default_order;
    int size[HR_RANK_AXES] = {
        [HR_AXIS_TP] = o->tp, [HR_AXIS_PP] = o->pp, [HR_AXIS_DP] = o->dp,
        [HR_AXIS_EP] = o->ep, [HR_AXIS_CP] = o->cp, [HR_AXIS_GTP_REMAT] = o->gtp_remat,
    };
    int n, ranks;
    hr_rank_axis axis[HR_RANK_AXES];
    for (int a = 0; a < HR_RANK_AXES; a++)
        size[a] += size[a] == 0;
    HR_TRY(check_sizes(size, &ranks));
    if (o->offset < 0 || o->offset > HR_MAX_RANKS)
        return hr_fail(HR_ERR_INVALID, "layout_size", "ranks from %d on: from 0 to %d",
                       o->offset, HR_MAX_RANKS);
    if (size[HR_AXIS_EP] > 1 && size[HR_AXIS_CP] > 1)
        return hr_fail(HR_ERR_INVALID, "layout_ep_cp",
                       "ep %d and cp %d in one layout: experts have one of their own, "
                       "without cp",
                       size[HR_AXIS_EP], size[HR_AXIS_CP]);
    HR_TRY(read_order(order, axis, &n));
    HR_TRY(complete(order, size, axis, n));
    l->ranks = ranks;
    l->offset = o->offset;
    for (int i = 0; i < HR_RANK_AXES; i++) {
        l->axis[i] = axis[i];
        l->extent[i] = size[axis[i]];
    }
    return HR_OK;
}

/* Where the first word of that axis ends; NULL if there is none. */
static const char *behind(const char *order, hr_rank_axis axis)
{
    for (const char *p = order; p != NULL;) {
        hr__axis_word w = hr__axis_word_next(&p);
        if (w.axis == axis)
            return w.text + w.len;
    }
    return NULL;
}

hr_status hr_rank_order_inject(const char *order, const char *after, char *out,
                               size_t cap)
{
    if (order == NULL || after == NULL || out == NULL || cap == 0)
        return hr_fail(HR_ERR_INVALID, "layout_order", "inject an axis: no %s",
                       order == NULL   ? "order"
                       : after == NULL ? "axis to put it behind"
                                       : "room");
    const char *extra = hr_rank_axis_name(HR_AXIS_GTP_REMAT);
    const char *at = NULL;
    int len;
    if (behind(order, HR_AXIS_GTP_REMAT)) {
        len = snprintf(out, cap, "%s", order);
    } else {
        hr_rank_axis a = axis_of(after, (int)strlen(after));
        at = a < HR_RANK_AXES ? behind(order, a) : NULL;
        if (at == NULL)
            at = behind(order, HR_AXIS_TP);
        len = at ? snprintf(out, cap, "%.*s-%s%s", (int)(at - order), order, extra, at)
                 : snprintf(out, cap, "%s-%s", extra, order);
    }
    if (len >= 0 && (size_t)len < cap)
        return HR_OK;
    out[0] = '\0';
    return hr_fail(HR_ERR_INVALID, "layout_order",
                   "order '%.64s' with %s is longer than %zu bytes", order, extra,
                   cap - 1);
}
