/* rank_grids.json and group_creation.json: which ranks stand together, and the set-up of a world. All of
 * it is data: no rank is started. */
#include "compare.h"

#include <string.h>

enum { AXES_MAX = 16, ORDER_MAX = 128 };

/* What the original raises where we give a reason. */
static const struct refusal {
    const char *reason, *raised;
} refusals[] = {
    {"layout_order", "RuntimeError"},    {"layout_axis", "KeyError"},
    {"layout_ep_cp", "AssertionError"},  {"layout_token", "ValueError"},
    {"world_size", "RuntimeError"},      {"world_vp", "RuntimeError"},
    {"world_pp_last", "AssertionError"}, {"world_pp_groups", "AssertionError"},
};

static bool refused_as(json_t *err)
{
    const char *raised = json_string_value(err);
    for (size_t i = 0; raised && i < sizeof refusals / sizeof refusals[0]; i++)
        if (strcmp(refusals[i].reason, hr_last_reason()) == 0)
            return strcmp(refusals[i].raised, raised) == 0;
    return false;
}

static bool list_is(json_t *want, const int *ranks, int n)
{
    size_t i;
    json_t *v;
    if (!json_is_array(want) || json_array_size(want) != (size_t)n)
        return false;
    json_array_foreach(want, i, v)
    {
        if (!json_is_integer(v) || json_integer_value(v) != ranks[i])
            return false;
    }
    return true;
}

static bool groups_are(json_t *want, const hr_rank_groups *g)
{
    size_t i;
    json_t *v;
    if (!json_is_array(want) || json_array_size(want) != (size_t)g->n)
        return false;
    json_array_foreach(want, i, v)
    {
        if (!list_is(v, g->ranks + (int)i * g->size, g->size))
            return false;
    }
    return true;
}

static verdict masked(json_t *c, outcome *o)
{
    json_t *sizes = json_object_get(c, "sizes"), *mask = json_object_get(c, "mask"), *v;
    int extent[AXES_MAX], n = 0;
    bool spanned[AXES_MAX];
    size_t i;
    json_array_foreach(sizes, i, v)
    {
        if (n == AXES_MAX)
            return out_differs(o, "more than %d axes", AXES_MAX);
        extent[n] = (int)json_integer_value(v);
        spanned[n++] = json_integer_value(json_array_get(mask, i)) != 0;
    }
    hr_rank_groups g;
    if (hr_rank_groups_masked(case_int(c, "world", 1), extent, spanned, n, &g) < 0)
        return refused_as(json_object_get(c, "err"))
                   ? EQUAL
                   : out_differs(o, "refused: %s", hr_last_error());
    bool same = groups_are(json_object_get(c, "groups"), &g);
    hr_rank_groups_fini(&g);
    return same ? EQUAL : out_differs(o, "other groups");
}

/* The original finds "tp" in the order "gtp_remat-dp" and then fails at each group; we refuse the
 * order. Equal if nothing at all can be had from either. */
static bool all_refused(json_t *c)
{
    const char *axes;
    json_t *want, *groups = json_object_get(c, "groups");
    json_object_foreach(groups, axes, want)
    {
        if (json_object_get(want, "err") == NULL)
            return false;
    }
    return json_object_size(groups) > 0;
}

static bool order_is(json_t *c, const hr_rank_layout *l)
{
    char order[ORDER_MAX];
    int len = 0;
    for (int i = 0; i < HR_RANK_AXES; i++)
        len += snprintf(order + len, sizeof order - (size_t)len, "%s%s", i ? "-" : "",
                        hr_rank_axis_name(l->axis[i]));
    return strcmp(order, json_string_value(json_object_get(c, "full_order"))) == 0 &&
           list_is(json_object_get(c, "ordered_sizes"), l->extent, HR_RANK_AXES) &&
           l->ranks == case_int(c, "world", 1);
}

static verdict grid(json_t *c, outcome *o)
{
    json_t *s = json_object_get(c, "sizes"), *want;
    const char *axes;
    hr_rank_layout l;
    hr_rank_layout_opts opts = {HR_INIT(hr_rank_layout_opts),
                                .tp = case_int(s, "tp", 1),
                                .cp = case_int(s, "cp", 1),
                                .ep = case_int(s, "ep", 1),
                                .dp = case_int(s, "dp", 1),
                                .pp = case_int(s, "pp", 1),
                                .gtp_remat = case_int(s, "gtp_remat", 1),
                                .order = json_string_value(json_object_get(c, "order")),
                                .offset = case_int(c, "offset", 0)};
    if (hr_rank_layout_init(&l, &opts) < 0)
        return refused_as(json_object_get(c, "err")) || all_refused(c)
                   ? EQUAL
                   : out_differs(o, "refused: %s", hr_last_error());
    if (json_object_get(c, "err"))
        return out_differs(o, "not refused");
    if (!order_is(c, &l))
        return out_differs(o, "another order or other sizes");
    json_object_foreach(json_object_get(c, "groups"), axes, want)
    {
        hr_rank_groups g;
        json_t *err = json_object_get(want, "err");
        bool same = hr_rank_layout_groups(&l, axes, &g) < 0 ? refused_as(err)
                                                            : groups_are(want, &g);
        hr_rank_groups_fini(&g);
        if (!same)
            return out_differs(o, "groups of '%s'", axes);
    }
    return EQUAL;
}

static verdict inject(json_t *c, outcome *o)
{
    char got[ORDER_MAX];
    const char *want = json_string_value(json_object_get(c, "result"));
    if (hr_rank_order_inject(json_string_value(json_object_get(c, "order")),
                             json_string_value(json_object_get(c, "after")), got,
                             sizeof got) < 0)
        return out_differs(o, "refused: %s", hr_last_error());
    return want && strcmp(got, want) == 0 ? EQUAL : out_differs(o, "%s", got);
}

static verdict embedding(json_t *c, outcome *o)
{
    int pp[64], n = 0, got[2];
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(c, "group"), i, v)
    {
        if (n < 64)
            pp[n++] = (int)json_integer_value(v);
    }
    int held = hr_embedding_ranks(pp, n, got);
    return list_is(json_object_get(c, "embedding"), got, held) &&
                   list_is(json_object_get(c, "position"), got, 1)
               ? EQUAL
               : out_differs(o, "%d ranks from %d on", held, got[0]);
}

verdict run_grid_case(json_t *c, outcome *o)
{
    if (json_object_get(c, "mask"))
        return masked(c, o);
    if (json_object_get(c, "after"))
        return inject(c, o);
    if (json_object_get(c, "embedding"))
        return embedding(c, o);
    return grid(c, o);
}

/* By the short names under which the original hands the groups out. */
static const struct member {
    const char *name;
    hr_world_group kind;
} members[] = {
    {"tp", HR_WORLD_TP},
    {"pp", HR_WORLD_PP},
    {"dp", HR_WORLD_DP},
    {"cp", HR_WORLD_CP},
    {"mp", HR_WORLD_TP_PP},
    {"embd", HR_WORLD_EMBEDDING},
    {"pos_embd", HR_WORLD_POSITION_EMBEDDING},
    {"tp_cp", HR_WORLD_TP_CP},
    {"ep", HR_WORLD_EXPERT},
    {"etp", HR_WORLD_EXPERT_TP},
    {"tp_ep", HR_WORLD_EXPERT_TP_EP},
    {"tp_ep_pp", HR_WORLD_EXPERT_TP_EP_PP},
    {"edp", HR_WORLD_EXPERT_DP},
};

static verdict compare_created(json_t *want, const hr_world_layout *w, outcome *o)
{
    size_t i;
    json_t *v;
    json_array_foreach(want, i, v)
    {
        const int *ranks;
        int n;
        hr_world_group kind = hr_world_layout_at(w, (int)i, &ranks, &n);
        const char *name = json_string_value(json_array_get(v, 0));
        if (name == NULL || strcmp(name, hr_world_group_name(kind)) != 0 ||
            !list_is(json_array_get(v, 1), ranks, n))
            return out_differs(o, "group %d created: %s of %d, for %s", (int)i,
                               hr_world_group_name(kind), n, name ? name : "?");
    }
    return hr_world_layout_count(w) == (int)i
               ? EQUAL
               : out_differs(o, "%d groups created, for %d", hr_world_layout_count(w),
                             (int)i);
}

static verdict compare_members(json_t *want, const hr_world_layout *w, outcome *o)
{
    const char *name;
    json_t *rows, *v;
    size_t rank;
    json_object_foreach(want, name, rows)
    {
        hr_world_group kind = HR_WORLD_GROUPS;
        for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
            if (strcmp(members[i].name, name) == 0)
                kind = members[i].kind;
        json_array_foreach(rows, rank, v)
        {
            const int *ranks;
            int n, at = hr_world_layout_find(w, kind, (int)rank);
            (void)hr_world_layout_at(w, at, &ranks, &n);
            if (json_is_null(v) ? at >= 0 : !list_is(v, ranks, n))
                return out_differs(o, "%s of rank %d", name, (int)rank);
        }
    }
    return EQUAL;
}

verdict run_world_case(json_t *c, outcome *o)
{
    json_t *s = json_object_get(c, "sizes"), *err = json_object_get(c, "err");
    hr_world_layout *w;
    hr_world_layout_opts opts = {HR_INIT(hr_world_layout_opts),
                                 .ranks = case_int(c, "world", 1),
                                 .tp = case_int(s, "tp", 1),
                                 .cp = case_int(s, "cp", 1),
                                 .pp = case_int(s, "pp", 1),
                                 .ep = case_int(s, "ep", 1),
                                 .expert_tp = case_int(s, "etp", 0),
                                 .vp = case_int(c, "vp", 0),
                                 .order =
                                     json_string_value(json_object_get(c, "order"))};
    if (hr_world_layout_create(&opts, &w) < 0)
        return refused_as(err) && case_int(c, "created_before_err", 0) == 0
                   ? EQUAL
                   : out_differs(o, "refused: %s", hr_last_error());
    verdict v = err ? out_differs(o, "not refused")
                    : compare_created(json_object_get(c, "created"), w, o);
    if (v == EQUAL)
        v = compare_members(json_object_get(c, "member"), w, o);
    hr_world_layout_destroy(w);
    return v;
}
