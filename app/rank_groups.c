/* rank_groups.c: see rank_groups.h. */
#include "rank_groups.h"
#include "app_try.h"
#include "headrace/group_nccl.h"
#include <stdlib.h>
#include <string.h>

hr_status hr_app_groups_world(hr_group *base, double timeout_s, hr_group **out)
{
    *out = NULL;
    if (hr_group_size(base) > 1 && hr_nccl_is_needed(hr_group_device(base)) &&
        !hr_group_nccl_comm(base))
        return hr_group_over_nccl(
            base, &(hr_nccl_opts){HR_INIT(hr_nccl_opts), .timeout_s = timeout_s}, out);
    *out = hr_group_retain(base);
    return HR_OK;
}

/* ---- the grid ------------------------------------------------------------------------------- */

/* Keep the group that this rank is in. */
static hr_status join(hr_group *world, const int *ranks, int n, hr_group **keep)
{
    hr_group *g;
    APP_TRY(hr_group_create(world, ranks, n, &g));
    if (g)
        *keep = g;
    return HR_OK;
}

static hr_status open_kind(rank_groups *g, hr_world_group kind, const int *ranks, int n)
{
    switch (kind) {
    case HR_WORLD_PP:
        return join(g->world, ranks, n, &g->pp);
    case HR_WORLD_DP:
        return join(g->world, ranks, n, &g->dp);
    case HR_WORLD_EXPERT_DP:
        return join(g->world, ranks, n, &g->expert_dp);
    case HR_WORLD_EXPERT:
        APP_TRY(join(g->world, ranks, n, &g->tokens));
        return join(g->world, ranks, n, &g->counts);
    default:
        return HR_OK;
    }
}

static hr_status open_grid(rank_groups *g, const train_options *o)
{
    hr_world_layout *w;
    APP_TRY(
        hr_world_layout_create(&(hr_world_layout_opts){HR_INIT(hr_world_layout_opts),
                                                       .ranks = hr_group_size(g->world),
                                                       .pp = o->pp, .ep = o->ep},
                               &w));
    hr_status st = HR_OK;
    for (int i = 0; i < hr_world_layout_count(w) && st >= 0; i++) {
        const int *ranks;
        int n;
        hr_world_group kind = hr_world_layout_at(w, i, &ranks, &n);
        st = open_kind(g, kind, ranks, n);
    }
    hr_world_layout_destroy(w);
    return st;
}

hr_status hr_app_groups_open(rank_groups *g, hr_group *world, const train_options *o)
{
    *g = (rank_groups){.world = world};
    APP_TRY(hr_group_create(world, NULL, 0, &g->control));
    APP_TRY(hr_group_create(world, NULL, 0, &g->norm));
    return open_grid(g, o);
}

/* ---- copies --------------------------------------------------------------------------------- */

/* The ranks of the pipeline that hold an entry, each with a true. */
typedef struct sets {
    int ranks, n;
    bool *at; /* [n + 1][ranks]: those with a group, and one to work with */
} sets;

static bool *set_at(const sets *s, int i)
{
    return s->at + (size_t)i * (size_t)s->ranks;
}

/* Into the set to work with; returns how many. *first: the first stage. */
static int holders(const sets *s, const hr_app_catalog *c, const pipeline *p, int entry,
                   int *first)
{
    bool *set = set_at(s, s->n);
    int n = 0;
    memset(set, 0, (size_t)s->ranks);
    for (int k = p->stages - 1; k >= 0; k--) {
        if (!hr_app_catalog_in(c, entry, &p->parts[k]))
            continue;
        *first = k;
        set[hr_schedule_rank_of(p->training, k, 0)] = true;
        set[hr_schedule_rank_of(p->training, k, p->microbatches - 1)] = true;
    }
    for (int r = 0; r < s->ranks; r++)
        n += set[r];
    return n;
}

static int first_of(const bool *set)
{
    int r = 0;
    while (!set[r])
        r++;
    return r;
}

/* The group of the set to work with: the former one of the same ranks, or a new one. */
static hr_status group_of(rank_groups *g, sets *s, hr_group **out)
{
    int list[OPTION_RANKS], n = 0;
    for (int i = 0; i < s->n; i++)
        if (memcmp(set_at(s, i), set_at(s, s->n), (size_t)s->ranks) == 0) {
            *out = g->copies[i];
            return HR_OK;
        }
    for (int r = 0; r < s->ranks; r++)
        if (set_at(s, s->n)[r])
            list[n++] = r;
    APP_TRY(hr_group_create(g->pp, list, n, &g->copies[s->n]));
    *out = g->copies[s->n];
    g->n_copies = ++s->n;
    return HR_OK;
}

hr_status hr_app_groups_open_copies(rank_groups *g, const hr_app_catalog *c,
                                    const pipeline *p)
{
    size_t n = (size_t)c->n;
    sets s = {.ranks = p->ranks, .at = calloc(n + 1, (size_t)p->ranks)};
    g->copies = calloc(n, sizeof(hr_group *));
    g->copies_of = calloc(n, sizeof(hr_group *));
    g->owner = calloc(n, sizeof *g->owner);
    g->first_stage = calloc(n, sizeof *g->first_stage);
    hr_status st = s.at && g->copies && g->copies_of && g->owner && g->first_stage
                       ? HR_OK
                       : hr_fail(HR_ERR_NOMEM, NULL, "no memory for groups");
    for (int i = 0; i < c->n && st >= 0; i++) {
        int held = holders(&s, c, p, i, &g->first_stage[i]);
        g->owner[i] = first_of(set_at(&s, s.n));
        if (held > 1)
            st = group_of(g, &s, &g->copies_of[i]);
    }
    free(s.at);
    return st;
}

/* In the order of ranks ep is fastest, then what is left of dp, then pp. */
int hr_app_groups_source(const rank_groups *g, const train_options *o, int entry,
                         int part)
{
    return g->owner[entry] * o->dp + part;
}

void hr_app_groups_close(rank_groups *g)
{
    for (int i = 0; i < g->n_copies; i++)
        hr_group_release(g->copies[i]);
    hr_group *all[] = {g->control,   g->norm,   g->pp,    g->dp,
                       g->expert_dp, g->tokens, g->counts};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        hr_group_release(all[i]);
    free(g->copies);
    free(g->copies_of);
    free(g->owner);
    free(g->first_stage);
    *g = (rank_groups){0};
}
