/* The recorded timeline: lanes of fixed memory, each written by one thread without a lock. What
 * is made of it stands elsewhere: overlap.c measures, trace_json.c writes it for viewers. */
#include "base/try.h" /* HR_TRY */
#include "headrace/trace.h"
#include "trace/lane.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct hr_lane {
    int rank;              /* set at create, then constant */
    char *role;            /* set at create, then constant */
    size_t cap;            /* set at create, then constant */
    atomic_size_t n;       /* the writer stores (release), anyone loads (acquire) */
    atomic_size_t dropped; /* the writer stores, anyone loads */
    hr_span spans[];       /* the writer; readers want it idle */
};

/* Lanes lie in blocks that double and never move, so that one rank may go through its lanes while
 * another adds one. */
enum { FIRST_BLOCK = 8, BLOCKS = 24 };

struct hr_timeline {
    pthread_mutex_t mu;      /* held while a lane is added */
    size_t spans_per_lane;   /* set at create, then constant */
    hr_lane **block[BLOCKS]; /* mu; what lies below n is constant */
    atomic_int n;            /* mu to store (release), anyone loads (acquire) */
};

hr_status hr_timeline_create(size_t spans_per_lane, hr_timeline **out)
{
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "hr_timeline_create: `out` is NULL");
    *out = NULL;
    if (spans_per_lane == 0 || spans_per_lane > SIZE_MAX / 2 / sizeof(hr_span))
        return hr_fail(HR_ERR_INVALID, "spans_per_lane",
                       "timeline of %zu spans a lane: want 1 to %zu", spans_per_lane,
                       SIZE_MAX / 2 / sizeof(hr_span));
    hr_timeline *t = calloc(1, sizeof *t);
    if (!t)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a timeline");
    pthread_mutex_init(&t->mu, NULL);
    t->spans_per_lane = spans_per_lane;
    *out = t;
    return HR_OK;
}

void hr_timeline_destroy(hr_timeline *t)
{
    if (!t)
        return;
    for (int i = 0; i < hr_timeline_lanes(t); i++) {
        hr_lane *lane = hr_timeline_lane_at(t, i);
        free(lane->role);
        free(lane);
    }
    for (int b = 0; b < BLOCKS; b++)
        free(t->block[b]);
    pthread_mutex_destroy(&t->mu);
    free(t);
}

static hr_status lane_create(const hr_timeline *t, int rank, const char *role,
                             hr_lane **out)
{
    hr_lane *lane = malloc(sizeof *lane + t->spans_per_lane * sizeof(hr_span));
    char *copy = strdup(role);
    if (!lane || !copy) {
        free(lane);
        free(copy);
        return hr_fail(HR_ERR_NOMEM, NULL,
                       "no memory for lane '%s' of rank %d (%zu spans)", role, rank,
                       t->spans_per_lane);
    }
    lane->rank = rank;
    lane->role = copy;
    lane->cap = t->spans_per_lane;
    atomic_init(&lane->n, 0);
    atomic_init(&lane->dropped, 0);
    *out = lane;
    return HR_OK;
}

/* The block of lane *i, which becomes its place in there. */
static int find_block(int *i)
{
    int b = 0;
    for (; *i >= FIRST_BLOCK << b; b++)
        *i -= FIRST_BLOCK << b;
    return b;
}

static hr_status append_locked(hr_timeline *t, hr_lane *lane)
{
    int n = atomic_load_explicit(&t->n, memory_order_relaxed), at = n;
    int b = find_block(&at);
    if (b < BLOCKS && !t->block[b])
        t->block[b] = calloc((size_t)FIRST_BLOCK << b, sizeof *t->block[b]);
    if (b == BLOCKS || !t->block[b])
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d lanes", n + 1);
    t->block[b][at] = lane;
    atomic_store_explicit(&t->n, n + 1, memory_order_release);
    return HR_OK;
}

hr_status hr_timeline_lane(hr_timeline *t, int rank, const char *role, hr_lane **out)
{
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "hr_timeline_lane: `out` is NULL");
    *out = NULL;
    if (!t || !role)
        return hr_fail(HR_ERR_INVALID, "lane", "a lane wants a timeline and a role");
    hr_lane *lane = NULL;
    HR_TRY(lane_create(t, rank, role, &lane));
    pthread_mutex_lock(&t->mu);
    hr_status st = append_locked(t, lane);
    pthread_mutex_unlock(&t->mu);
    if (st < 0) {
        free(lane->role);
        free(lane);
        return st;
    }
    *out = lane;
    return HR_OK;
}

/* Spans come in about the order in which they end; one that ended earlier than its neighbours
 * (a node, noticed after the launches that follow it) moves up past them. */
void hr_lane_add(hr_lane *lane, const hr_span *span)
{
    if (!lane || !span)
        return;
    size_t n = atomic_load_explicit(&lane->n, memory_order_relaxed);
    if (n == lane->cap) {
        hr__lane_drop(lane, 1);
        return;
    }
    size_t at = n;
    for (; at > 0 && lane->spans[at - 1].end_ns > span->end_ns; at--)
        lane->spans[at] = lane->spans[at - 1];
    lane->spans[at] = *span;
    atomic_store_explicit(&lane->n, n + 1, memory_order_release);
}

void hr_timeline_clear(hr_timeline *t, int rank)
{
    for (int i = 0; i < hr_timeline_lanes(t); i++) {
        hr_lane *lane = hr_timeline_lane_at(t, i);
        if (rank >= 0 && lane->rank != rank)
            continue;
        atomic_store_explicit(&lane->n, 0, memory_order_release);
        atomic_store_explicit(&lane->dropped, 0, memory_order_release);
    }
}

int hr_timeline_lanes(const hr_timeline *t)
{
    return t ? atomic_load_explicit(&t->n, memory_order_acquire) : 0;
}

hr_lane *hr_timeline_lane_at(const hr_timeline *t, int i)
{
    if (i < 0 || i >= hr_timeline_lanes(t))
        return NULL;
    int b = find_block(&i);
    return t->block[b][i];
}

int hr_lane_rank(const hr_lane *lane)
{
    return lane->rank;
}

const char *hr_lane_role(const hr_lane *lane)
{
    return lane->role;
}

const hr_span *hr_lane_spans(const hr_lane *lane, size_t *n)
{
    *n = atomic_load_explicit(&lane->n, memory_order_acquire);
    return lane->spans;
}

size_t hr__lane_dropped(const hr_lane *lane)
{
    return atomic_load_explicit(&lane->dropped, memory_order_acquire);
}

void hr__lane_drop(hr_lane *lane, size_t n)
{
    atomic_fetch_add_explicit(&lane->dropped, n, memory_order_relaxed);
}

size_t hr_timeline_dropped(const hr_timeline *t)
{
    size_t dropped = 0;
    for (int i = 0; i < hr_timeline_lanes(t); i++)
        dropped += hr__lane_dropped(hr_timeline_lane_at(t, i));
    return dropped;
}
