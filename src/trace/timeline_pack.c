/* A rank's lanes as bytes, for a timeline in another process. Integers as the machine has them:
 *
 *     head | names, each ended by 0 | lane, its spans | lane, its spans | ...
 *
 * Names stand once; lanes and spans say where. */
#include "base/try.h"
#include "headrace/trace.h"
#include "trace/lane.h"

#include <stdlib.h>
#include <string.h>

enum { MAGIC = 0x314c5248, NO_NAME = -1 };

typedef struct head {
    int32_t magic, rank, lanes, names; /* names: bytes */
} head;

typedef struct packed_lane {
    int64_t spans, dropped;
    int64_t role; /* among the names */
} packed_lane;

typedef struct packed_span {
    int64_t begin_ns, end_ns;
    int32_t name;
    int16_t layer, microbatch;
    uint8_t kind, dir, none[6];
} packed_span;

/* ---- packing ------------------------------------------------------------------------------- */

typedef struct known_name {
    const char *
        text; /* by address: those of spans live for ever, those of lanes long enough */
    int32_t at;
} known_name;

typedef struct names {
    known_name *list;
    int32_t n, cap, bytes;
} names;

static hr_status name_room(names *w)
{
    int32_t cap = w->cap ? 2 * w->cap : 64;
    known_name *list = realloc(w->list, (size_t)cap * sizeof *list);
    if (!list)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the names of a timeline");
    w->list = list;
    w->cap = cap;
    return HR_OK;
}

static int32_t name_find(const names *w, const char *text)
{
    for (int32_t i = 0; i < w->n; i++)
        if (w->list[i].text == text)
            return w->list[i].at;
    return NO_NAME;
}

static hr_status name_add(names *w, const char *text)
{
    if (!text || name_find(w, text) != NO_NAME)
        return HR_OK;
    if (w->n == w->cap)
        HR_TRY(name_room(w));
    w->list[w->n++] = (known_name){text, w->bytes};
    w->bytes += (int32_t)strlen(text) + 1;
    return HR_OK;
}

/* Names, and the size of all. */
static hr_status survey(const hr_timeline *t, int rank, names *w, head *h,
                        size_t *bytes)
{
    *h = (head){.magic = MAGIC, .rank = rank};
    *bytes = sizeof *h;
    for (int i = 0; i < hr_timeline_lanes(t); i++) {
        const hr_lane *lane = hr_timeline_lane_at(t, i);
        size_t n;
        const hr_span *s = hr_lane_spans(lane, &n);
        if (hr_lane_rank(lane) != rank)
            continue;
        h->lanes++;
        *bytes += sizeof(packed_lane) + n * sizeof(packed_span);
        HR_TRY(name_add(w, hr_lane_role(lane)));
        for (size_t k = 0; k < n; k++)
            HR_TRY(name_add(w, s[k].name));
    }
    h->names = w->bytes;
    *bytes += (size_t)w->bytes;
    return HR_OK;
}

static void put(char **to, const void *from, size_t n)
{
    memcpy(*to, from, n);
    *to += n;
}

static void put_lane(char **to, const hr_lane *lane, const names *w)
{
    size_t n;
    const hr_span *s = hr_lane_spans(lane, &n);
    packed_lane p = {(int64_t)n, (int64_t)hr__lane_dropped(lane),
                     name_find(w, hr_lane_role(lane))};
    put(to, &p, sizeof p);
    for (size_t k = 0; k < n; k++) {
        packed_span q = {.begin_ns = s[k].begin_ns,
                         .end_ns = s[k].end_ns,
                         .name = s[k].name ? name_find(w, s[k].name) : NO_NAME,
                         .layer = s[k].layer,
                         .microbatch = s[k].microbatch,
                         .kind = s[k].kind,
                         .dir = s[k].dir};
        put(to, &q, sizeof q);
    }
}

static void put_all(char *to, const head *h, const hr_timeline *t, const names *w)
{
    put(&to, h, sizeof *h);
    for (int32_t i = 0; i < w->n; i++)
        put(&to, w->list[i].text, strlen(w->list[i].text) + 1);
    for (int i = 0; i < hr_timeline_lanes(t); i++) {
        const hr_lane *lane = hr_timeline_lane_at(t, i);
        if (hr_lane_rank(lane) == h->rank)
            put_lane(&to, lane, w);
    }
}

hr_status hr_timeline_pack(const hr_timeline *t, int rank, void **out, size_t *bytes)
{
    HR_NEED(out);
    *out = NULL;
    HR_NEED(t);
    HR_NEED(bytes);
    names w = {0};
    head h;
    hr_status st = survey(t, rank, &w, &h, bytes);
    if (st == HR_OK && !(*out = malloc(*bytes)))
        st = hr_fail(HR_ERR_NOMEM, NULL, "no memory to pack a timeline of %zu bytes",
                     *bytes);
    if (st == HR_OK)
        put_all(*out, &h, t, &w);
    free(w.list);
    return st;
}

/* ---- unpacking ----------------------------------------------------------------------------- */

typedef struct reader {
    const char *at;
    size_t left;
    const char *names;
    int32_t names_bytes;
} reader;

static hr_status broken(const char *what)
{
    return hr_fail(HR_ERR_PARSE, "timeline_pack", "a packed timeline: %s", what);
}

static hr_status get(reader *r, void *to, size_t n)
{
    if (r->left < n)
        return broken("it was cut short");
    memcpy(to, r->at, n);
    r->at += n;
    r->left -= n;
    return HR_OK;
}

static hr_status get_names(reader *r, const head *h)
{
    if (h->names < 0 || (size_t)h->names > r->left ||
        (h->names > 0 && r->at[h->names - 1] != '\0'))
        return broken("its names do not end");
    r->names = r->at;
    r->names_bytes = h->names;
    r->at += h->names;
    r->left -= (size_t)h->names;
    return HR_OK;
}

static hr_status get_name(const reader *r, int64_t at, const char **out)
{
    *out = NULL;
    if (at == NO_NAME)
        return HR_OK;
    if (at < 0 || at >= r->names_bytes)
        return broken("a name is not among its names");
    *out = r->names + at;
    return HR_OK;
}

static hr_status get_span(reader *r, int64_t add_ns, hr_span *out)
{
    packed_span q;
    const char *name;
    HR_TRY(get(r, &q, sizeof q));
    HR_TRY(get_name(r, q.name, &name));
    *out = (hr_span){.begin_ns = (int64_t)((uint64_t)q.begin_ns + (uint64_t)add_ns),
                     .end_ns = (int64_t)((uint64_t)q.end_ns + (uint64_t)add_ns),
                     .name = name ? hr_intern(name) : NULL,
                     .layer = q.layer,
                     .microbatch = q.microbatch,
                     .kind = q.kind,
                     .dir = q.dir};
    return HR_OK;
}

static hr_status get_lane(reader *r, hr_timeline *t, int rank, int64_t add_ns)
{
    packed_lane p;
    const char *role;
    hr_lane *lane;
    hr_span span;
    HR_TRY(get(r, &p, sizeof p));
    HR_TRY(get_name(r, p.role, &role));
    if (!role || p.spans < 0 || p.dropped < 0 ||
        (uint64_t)p.spans > r->left / sizeof(packed_span))
        return broken("a lane says more than there is");
    HR_TRY(hr_timeline_lane(t, rank, role, &lane));
    for (int64_t k = 0; k < p.spans; k++) {
        HR_TRY(get_span(r, add_ns, &span));
        hr_lane_add(lane, &span);
    }
    hr__lane_drop(lane, (size_t)p.dropped);
    return HR_OK;
}

hr_status hr_timeline_unpack(hr_timeline *t, const void *bytes, size_t n,
                             int64_t add_ns)
{
    HR_NEED(t);
    HR_NEED(bytes);
    reader r = {.at = bytes, .left = n};
    head h;
    HR_TRY(get(&r, &h, sizeof h));
    if (h.magic != MAGIC)
        return broken("it does not begin as one");
    HR_TRY(get_names(&r, &h));
    for (int32_t i = 0; i < h.lanes; i++)
        HR_TRY(get_lane(&r, t, h.rank, add_ns));
    return r.left == 0 ? HR_OK : broken("something follows its last lane");
}
