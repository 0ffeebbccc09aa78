/* The set-up of a world: dense layers and experts lie on the same ranks in two layouts, and both are
 * cut into groups by one table, whose order is the order of creation. */
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "group/rank_layout.h"

typedef struct entry {
    hr_world_group kind;
    int first, n; /* in `ranks` */
} entry;

struct hr_world_layout {
    int world;
    int n, cap; /* entries */
    int used;   /* of `ranks` */
    entry *entries;
    int *ranks;
    int *member; /* [kind * world + rank]: entry, -1 for none */
};

typedef struct layouts {
    hr_rank_layout dense, expert;
} layouts;

/* The embedding groups have no row: each follows its pipeline group. */
static const struct step {
    hr_world_group kind;
    bool expert;
    const char *axes;
} steps[] = {
    {HR_WORLD_GTP_REMAT, false, "gtp_remat"},
    {HR_WORLD_DP_CP, false, "dp-cp"},
    {HR_WORLD_DP, false, "dp"},
    {HR_WORLD_CP, false, "cp"},
    {HR_WORLD_TP_PP, false, "tp-pp"},
    {HR_WORLD_TP, false, "tp"},
    {HR_WORLD_PP, false, "pp"},
    {HR_WORLD_TP_DP_CP, false, "tp-dp-cp"},
    {HR_WORLD_TP_DP, false, "tp-dp"},
    {HR_WORLD_TP_CP, false, "tp-cp"},
    {HR_WORLD_EXPERT_GTP_REMAT, true, "gtp_remat"},
    {HR_WORLD_EXPERT, true, "ep"},
    {HR_WORLD_EXPERT_TP, true, "tp"},
    {HR_WORLD_EXPERT_TP_EP, true, "tp-ep"},
    {HR_WORLD_EXPERT_TP_EP_PP, true, "tp-ep-pp"},
    {HR_WORLD_EXPERT_TP_EP_PP_GTP, true, "tp-ep-gtp_remat-pp"},
    {HR_WORLD_EXPERT_DP, true, "dp"},
    {HR_WORLD_OPTIMIZER, true, "tp-ep-pp"},
};

const char *hr_world_group_name(hr_world_group kind)
{
    static const char *const names[] = {
#define X(name, text) text,
        HR_WORLD_GROUP_MAP(X)
#undef X
    };
    return (unsigned)kind < HR_WORLD_GROUPS ? names[kind] : "?";
}

/* What is left of the world for data parallelism. */
static hr_status divide(const char *what, int world, int a, int b, int c, int *left)
{
    int64_t model = (int64_t)a * b;
    model = model > HR_MAX_RANKS ? model : model * c;
    if (a < 1 || b < 1 || c < 1 || world < 1 || world > HR_MAX_RANKS || world % model)
        return hr_fail(HR_ERR_INVALID, "world_size",
                       "a world of %d ranks does not divide by %s = %d x %d x %d",
                       world, what, a, b, c);
    *left = (int)(world / model);
    return HR_OK;
}

static bool ends_in_pp(const char *order)
{
    size_t len = strlen(order);
    return len >= 2 && (order[len - 2] | 32) == 'p' && (order[len - 1] | 32) == 'p';
}

/* A pipeline group runs through dense layers and experts alike. */
static hr_status check_pipelines(const layouts *l)
{
    hr_rank_groups a, b = {0};
    hr_status st = hr_rank_layout_groups(&l->dense, "pp", &a);
    if (st >= 0)
        st = hr_rank_layout_groups(&l->expert, "pp", &b);
    if (st >= 0 &&
        memcmp(a.ranks, b.ranks, sizeof *a.ranks * (size_t)l->dense.ranks) != 0)
        st = hr_fail(HR_ERR_INVALID, "world_pp_groups",
                     "the pipeline groups of dense layers and of experts differ");
    hr_rank_groups_fini(&a);
    hr_rank_groups_fini(&b);
    return st;
}

static hr_status lay_out(const hr_world_layout_opts *o, layouts *l, int *world)
{
    int ranks = o->ranks ? o->ranks : 1, tp = o->tp ? o->tp : 1;
    int cp = o->cp ? o->cp : 1, pp = o->pp ? o->pp : 1, ep = o->ep ? o->ep : 1;
    int etp = o->expert_tp ? o->expert_tp : tp, dp, edp;
    const char *order = o->order ? o->order : "tp-cp-ep-dp-pp";
    *world = ranks;
    HR_TRY(divide("tp x cp x pp", ranks, tp, cp, pp, &dp));
    if (o->vp < 0 || (o->vp > 0 && pp < 2))
        return hr_fail(HR_ERR_INVALID, "world_vp",
                       "%d virtual stages a rank want a pipeline of more than %d ranks",
                       o->vp, pp);
    HR_TRY(divide("expert tp x ep x pp", ranks, etp, ep, pp, &edp));
    HR_TRY(hr_rank_layout_init(&l->dense,
                               &(hr_rank_layout_opts){HR_INIT(hr_rank_layout_opts),
                                                      .tp = tp, .cp = cp, .dp = dp,
                                                      .pp = pp, .order = order}));
    HR_TRY(hr_rank_layout_init(&l->expert,
                               &(hr_rank_layout_opts){HR_INIT(hr_rank_layout_opts),
                                                      .tp = etp, .ep = ep, .dp = edp,
                                                      .pp = pp, .order = order}));
    if (!ends_in_pp(order) && pp > 1 && dp != edp)
        return hr_fail(
            HR_ERR_INVALID, "world_pp_last",
            "order '%s' does not end in pp: dense layers have dp %d, experts "
            "%d, and must have the same",
            order, dp, edp);
    return check_pipelines(l);
}

static hr_status add(hr_world_layout *w, hr_world_group kind, const int *ranks, int n)
{
    if (w->n == w->cap) {
        int cap = w->cap ? 2 * w->cap : 64;
        entry *more = realloc(w->entries, sizeof *more * (size_t)cap);
        if (more == NULL)
            return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the list of groups");
        w->entries = more;
        w->cap = cap;
    }
    memcpy(w->ranks + w->used, ranks, sizeof *ranks * (size_t)n);
    for (int i = 0; i < n; i++)
        w->member[kind * w->world + ranks[i]] = w->n;
    w->entries[w->n++] = (entry){kind, w->used, n};
    w->used += n;
    return HR_OK;
}

static hr_status add_step(hr_world_layout *w, const struct step *s, const layouts *l)
{
    hr_rank_groups g;
    HR_TRY(hr_rank_layout_groups(s->expert ? &l->expert : &l->dense, s->axes, &g));
    if (s->kind == HR_WORLD_OPTIMIZER) { /* one instance: all of them in a row */
        g.size *= g.n;
        g.n = 1;
    }
    hr_status st = HR_OK;
    for (int i = 0; i < g.n && st >= 0; i++) {
        const int *ranks = g.ranks + (size_t)i * (size_t)g.size;
        st = add(w, s->kind, ranks, g.size);
        if (st < 0 || s->kind != HR_WORLD_PP)
            continue;
        int ends[2], n = hr_embedding_ranks(ranks, g.size, ends);
        st = add(w, HR_WORLD_EMBEDDING, ends, n);
        if (st >= 0)
            st = add(w, HR_WORLD_POSITION_EMBEDDING, ends, 1);
    }
    hr_rank_groups_fini(&g);
    return st;
}

hr_status hr_world_layout_create(const hr_world_layout_opts *opts,
                                 hr_world_layout **out)
{
    static const hr_world_layout_opts defaults = {HR_INIT(hr_world_layout_opts)};
    layouts l;
    int world;
    if (out == NULL)
        return hr_fail(HR_ERR_INVALID, "no_out", "world layout: nowhere to put it");
    *out = NULL;
    HR_CHECK_OPTS(opts, hr_world_layout_opts);
    HR_TRY(lay_out(opts ? opts : &defaults, &l, &world));

    hr_world_layout *w = calloc(1, sizeof *w);
    if (w == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a world layout");
    w->world = world;
    size_t room =
        (size_t)HR_WORLD_GROUPS * (size_t)world; /* of a kind: each rank once */
    w->ranks = malloc(room * sizeof *w->ranks);
    w->member = malloc(room * sizeof *w->member);
    hr_status st = HR_OK;
    if (w->ranks == NULL || w->member == NULL)
        st = hr_fail(HR_ERR_NOMEM, NULL, "no memory for the groups of %d ranks", world);
    else
        memset(w->member, 0xff, room * sizeof *w->member);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && st >= 0; i++)
        st = add_step(w, &steps[i], &l);
    if (st < 0) {
        hr_world_layout_destroy(w);
        return st;
    }
    *out = w;
    return HR_OK;
}

void hr_world_layout_destroy(hr_world_layout *w)
{
    if (w == NULL)
        return;
    free(w->entries);
    free(w->ranks);
    free(w->member);
    free(w);
}

int hr_world_layout_count(const hr_world_layout *w)
{
    return w ? w->n : 0;
}

hr_world_group hr_world_layout_at(const hr_world_layout *w, int i, const int **ranks,
                                  int *n)
{
    if (w == NULL || i < 0 || i >= w->n) {
        *ranks = NULL;
        *n = 0;
        return HR_WORLD_GROUPS;
    }
    *ranks = w->ranks + w->entries[i].first;
    *n = w->entries[i].n;
    return w->entries[i].kind;
}

int hr_world_layout_find(const hr_world_layout *w, hr_world_group kind, int rank)
{
    if (w == NULL || (unsigned)kind >= HR_WORLD_GROUPS || rank < 0 || rank >= w->world)
        return -1;
    return w->member[kind * w->world + rank];
}
