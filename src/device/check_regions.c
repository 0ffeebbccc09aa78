/* See check_regions.h. Blocks of a pool never go, so that nothing is ever taken out. */
#include "device/check_regions.h"

#include <stdlib.h>
#include <string.h>

static void fini_region(hr__region *r)
{
    hr__shades_fini(&r->shades);
    free(r->labels.at);
}

void hr__regions_fini(hr__regions *all)
{
    for (size_t i = 0; i < all->n; i++) {
        fini_region(all->at[i]);
        free(all->at[i]);
    }
    free(all->at);
    fini_region(&all->outside);
}

static const char *end_of(const void *blocks, size_t i)
{
    return ((hr__region *const *)blocks)[i]->end;
}

static size_t first_behind(const hr__regions *all, const char *p)
{
    return hr__first_behind(all->at, all->n, p, end_of);
}

hr__region *hr__regions_make(hr__regions *all, const char *begin, const char *end)
{
    size_t i = first_behind(all, begin);
    if (i < all->n && all->at[i]->begin == begin)
        return all->at[i];
    if (all->n == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        hr__region **more = realloc(all->at, room * sizeof(hr__region *));
        if (more == NULL)
            return NULL;
        all->at = more;
        all->room = room;
    }
    hr__region *r = calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    r->begin = begin;
    r->end = end;
    memmove(&all->at[i + 1], &all->at[i], (all->n - i) * sizeof(hr__region *));
    all->at[i] = r;
    all->n++;
    return r;
}

hr__region *hr__regions_find(hr__regions *all, const char *p, const char *limit,
                             const char **end)
{
    size_t i = first_behind(all, p);
    hr__region *next = i < all->n ? all->at[i] : NULL;
    bool inside = next && next->begin <= p;
    const char *border = !next ? limit : inside ? next->end : next->begin;
    *end = border < limit ? border : limit;
    return inside ? next : &all->outside;
}

/* ---- names ---- */
/* The place of a new label; NULL: no memory. */
static hr__label *new_label(hr__labels *l)
{
    if (l->n == HR__LABELS)
        return &l->at[l->oldest++ % HR__LABELS];
    if (l->n == l->room) {
        int room = l->room ? 2 * l->room : 4;
        hr__label *more = realloc(l->at, (size_t)room * sizeof *more);
        if (more == NULL)
            return NULL;
        l->at = more;
        l->room = room;
    }
    return &l->at[l->n++];
}

void hr__label_put(hr__region *r, const char *begin, const char *end, const char *name)
{
    hr__labels *l = &r->labels;
    hr__label *to = NULL;
    for (int i = 0; i < l->n && !to; i++)
        if (l->at[i].begin == begin && l->at[i].end == end)
            to = &l->at[i];
    if (to == NULL)
        to = new_label(l);
    if (to == NULL)
        return;
    to->begin = begin;
    to->end = end;
    snprintf(to->name, sizeof to->name, "%s", name);
}

void hr__label_clear(hr__region *r, const char *begin, const char *end)
{
    hr__labels *l = &r->labels;
    int kept = 0;
    for (int i = 0; i < l->n; i++)
        if (l->at[i].begin >= end || begin >= l->at[i].end)
            l->at[kept++] = l->at[i];
    l->n = kept;
    l->oldest = 0;
}

const char *hr__label_get(const hr__region *r, const char *p)
{
    const hr__label *best = NULL;
    for (int i = 0; i < r->labels.n; i++) {
        const hr__label *l = &r->labels.at[i];
        if (l->begin <= p && p < l->end && l->name[0] &&
            (!best || l->end - l->begin <= best->end - best->begin))
            best = l;
    }
    return best ? best->name : NULL;
}
