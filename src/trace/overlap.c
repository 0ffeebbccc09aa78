/* How much communication was hidden. Spans become sets of intervals; a set is sorted and merged,
 * so that time which two spans share counts once. */
#include "base/try.h" /* HR_TRY_GOTO */
#include "headrace/trace.h"

#include <stdlib.h>
#include <string.h>

struct interval {
    int64_t begin, end;
};

struct set {
    struct interval *at;
    size_t n;
};

static int by_begin(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static void merge(struct set *s)
{
    size_t kept = 0;
    qsort(s->at, s->n, sizeof *s->at, by_begin);
    for (size_t i = 0; i < s->n; i++) {
        struct interval *last = kept ? &s->at[kept - 1] : NULL;
        if (!last || s->at[i].begin > last->end)
            s->at[kept++] = s->at[i];
        else if (s->at[i].end > last->end)
            last->end = s->at[i].end;
    }
    s->n = kept;
}

static int64_t length(const struct set *s)
{
    int64_t sum = 0;
    for (size_t i = 0; i < s->n; i++)
        sum += s->at[i].end - s->at[i].begin;
    return sum;
}

static int64_t common_length(const struct set *a, const struct set *b)
{
    int64_t sum = 0;
    for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
        const struct interval x = a->at[i], y = b->at[k];
        int64_t begin = x.begin > y.begin ? x.begin : y.begin;
        int64_t end = x.end < y.end ? x.end : y.end;
        if (end > begin)
            sum += end - begin;
        if (x.end < y.end)
            i++;
        else
            k++;
    }
    return sum;
}

/* Copies the spans of one kind on the lanes of one role; returns how many there are. With `to`
 * NULL it only counts. */
static size_t gather(const hr_timeline *t, int rank, const char *role,
                     hr_span_kind kind, struct interval *to)
{
    size_t found = 0;
    for (int i = 0; i < hr_timeline_lanes(t); i++) {
        const hr_lane *lane = hr_timeline_lane_at(t, i);
        if (hr_lane_rank(lane) != rank || strcmp(hr_lane_role(lane), role) != 0)
            continue;
        size_t n;
        const hr_span *spans = hr_lane_spans(lane, &n);
        for (size_t k = 0; k < n; k++) {
            if (spans[k].kind != kind || spans[k].end_ns <= spans[k].begin_ns)
                continue;
            if (to)
                to[found] = (struct interval){spans[k].begin_ns, spans[k].end_ns};
            found++;
        }
    }
    return found;
}

static hr_status set_make(const hr_timeline *t, int rank, const char *role,
                          hr_span_kind kind, struct set *out)
{
    size_t n = gather(t, rank, role, kind, NULL);
    out->at = malloc((n ? n : 1) * sizeof *out->at);
    if (!out->at)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to measure %zu spans", n);
    out->n = gather(t, rank, role, kind, out->at);
    merge(out);
    return HR_OK;
}

/* First begin to last end of anything on the rank; false if it has no lane. */
static bool extent(const hr_timeline *t, int rank, int64_t *span_ns)
{
    bool has_lane = false, has_span = false;
    int64_t first = 0, last = 0;
    for (int i = 0; i < hr_timeline_lanes(t); i++) {
        const hr_lane *lane = hr_timeline_lane_at(t, i);
        if (hr_lane_rank(lane) != rank)
            continue;
        has_lane = true;
        size_t n;
        const hr_span *spans = hr_lane_spans(lane, &n);
        for (size_t k = 0; k < n; k++) {
            if (!has_span || spans[k].begin_ns < first)
                first = spans[k].begin_ns;
            if (!has_span || spans[k].end_ns > last)
                last = spans[k].end_ns;
            has_span = true;
        }
    }
    *span_ns = last - first;
    return has_lane;
}

hr_status hr_timeline_overlap(const hr_timeline *t, int rank, hr_overlap *out)
{
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "hr_timeline_overlap: `out` is NULL");
    *out = (hr_overlap){0};
    struct set transfer = {0}, busy = {0}, peers = {0};
    int64_t span_ns;
    if (!extent(t, rank, &span_ns))
        return hr_fail(HR_ERR_INVALID, "rank", "the timeline has no lane of rank %d",
                       rank);
    hr_status st;
    HR_TRY_GOTO(st, set_make(t, rank, "communication", HR_SPAN_TRANSFER, &transfer),
                done);
    HR_TRY_GOTO(st, set_make(t, rank, "compute", HR_SPAN_BUSY, &busy), done);
    HR_TRY_GOTO(st, set_make(t, rank, "communication", HR_SPAN_PEERS, &peers), done);
    *out = (hr_overlap){.comm_ns = length(&transfer),
                        .hidden_ns = common_length(&transfer, &busy),
                        .compute_ns = length(&busy),
                        .peers_ns = length(&peers),
                        .span_ns = span_ns};
done:
    free(transfer.at);
    free(busy.at);
    free(peers.at);
    return st;
}
