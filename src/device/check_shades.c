/* See check_shades.h. A sorted array: sets are small, and settled as they grow. */
#include "device/check_shades.h"

#include <stdlib.h>
#include <string.h>

void hr__shades_fini(hr__shades *set)
{
    for (size_t i = 0; i < set->n; i++)
        free(set->at[i].reads);
    free(set->at);
    *set = (hr__shades){0};
}

static const char *end_of(const void *shades, size_t i)
{
    return ((const hr__shade *)shades)[i].end;
}

static size_t first_behind(const hr__shades *set, const char *p)
{
    return hr__first_behind(set->at, set->n, p, end_of);
}

static bool insert(hr__shades *set, size_t i, const hr__shade *shade)
{
    if (set->n == set->room) {
        size_t room = set->room ? 2 * set->room : 4;
        hr__shade *more = realloc(set->at, room * sizeof *more);
        if (more == NULL)
            return false;
        set->at = more;
        set->room = room;
    }
    memmove(&set->at[i + 1], &set->at[i], (set->n - i) * sizeof *set->at);
    set->at[i] = *shade;
    set->n++;
    return true;
}

static void cut_out(hr__shades *set, size_t from, size_t to)
{
    if (from == to)
        return;
    for (size_t i = from; i < to; i++)
        free(set->at[i].reads);
    memmove(&set->at[from], &set->at[to], (set->n - to) * sizeof *set->at);
    set->n -= to - from;
}

/* Make `p` the border of two shades where it lies within one. */
static bool split(hr__shades *set, const char *p)
{
    size_t i = first_behind(set, p);
    if (i == set->n || set->at[i].begin >= p)
        return true;
    hr__shade left = set->at[i];
    left.end = p;
    left.room = left.n_reads;
    left.reads = NULL;
    if (left.n_reads) {
        size_t bytes = (size_t)left.n_reads * sizeof *left.reads;
        left.reads = malloc(bytes);
        if (left.reads == NULL)
            return false;
        memcpy(left.reads, set->at[i].reads, bytes);
    }
    if (!insert(set, i, &left)) {
        free(left.reads);
        return false;
    }
    set->at[i + 1].begin = p;
    return true;
}

void hr__shades_clear(hr__shades *set, const char *begin, const char *end)
{
    (void)split(set, begin); /* if it does not, more is forgotten */
    (void)split(set, end);
    size_t from = first_behind(set, begin), to = from;
    while (to < set->n && set->at[to].begin < end)
        to++;
    cut_out(set, from, to);
}

static void put_read(hr__shade *shade, const hr__use *use)
{
    for (int i = 0; i < shade->n_reads; i++)
        if (shade->reads[i].id == use->id) {
            shade->reads[i] = *use;
            return;
        }
    if (shade->n_reads == shade->room) {
        int room = shade->room ? 2 * shade->room : 2;
        hr__use *more = realloc(shade->reads, (size_t)room * sizeof *more);
        if (more == NULL)
            return;
        shade->reads = more;
        shade->room = room;
    }
    shade->reads[shade->n_reads++] = *use;
}

static void add_read(hr__shades *set, const char *begin, const char *end,
                     const hr__use *use)
{
    if (!split(set, begin) || !split(set, end))
        return;
    size_t i = first_behind(set, begin);
    for (const char *p = begin; p < end; p = set->at[i++].end) {
        bool gap = i == set->n || set->at[i].begin > p;
        if (gap) {
            bool last = i == set->n || set->at[i].begin > end;
            hr__shade fresh = {.begin = p, .end = last ? end : set->at[i].begin};
            if (!insert(set, i, &fresh))
                return;
        }
        put_read(&set->at[i], use);
    }
}

void hr__shades_add(hr__shades *set, const char *begin, const char *end,
                    const hr__use *use)
{
    if (!(use->kind & HR_WRITE)) {
        add_read(set, begin, end, use);
        return;
    }
    hr__shade one = {.begin = begin, .end = end, .write = *use};
    hr__shades_clear(set, begin, end);
    (void)insert(set, first_behind(set, begin), &one);
}

static bool is_before(const hr__use *use, int id, const hr__clock *now)
{
    return use->position == 0 || use->id == id || use->position <= now->at[use->id];
}

const hr__use *hr__shades_conflict(const hr__shades *set, const char *begin,
                                   const char *end, hr_access kind, int id,
                                   const hr__clock *now, const char **at)
{
    for (size_t i = first_behind(set, begin); i < set->n && set->at[i].begin < end;
         i++) {
        const hr__shade *shade = &set->at[i];
        *at = shade->begin > begin ? shade->begin : begin;
        if (!is_before(&shade->write, id, now))
            return &shade->write;
        for (int r = 0; (kind & HR_WRITE) && r < shade->n_reads; r++)
            if (!is_before(&shade->reads[r], id, now))
                return &shade->reads[r];
    }
    return NULL;
}

void hr__shades_settle(hr__shades *set, const hr__clock *known)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->n; i++) {
        hr__shade *shade = &set->at[i];
        int reads = 0;
        for (int r = 0; r < shade->n_reads; r++)
            if (!is_before(&shade->reads[r], -1, known))
                shade->reads[reads++] = shade->reads[r];
        shade->n_reads = reads;
        if (is_before(&shade->write, -1, known))
            shade->write.position = 0;
        if (reads || shade->write.position)
            set->at[kept++] = *shade;
        else
            free(shade->reads);
    }
    set->n = kept;
    set->crowded = 2 * kept;
}
