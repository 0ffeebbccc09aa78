/* See stage_costs.h. Nodes overlap neither on the compute stream nor beyond a window, so what directions take
 * of a window is in proportion to their nodes. */
#include "stage_costs.h"
#include "app_try.h"

#include <stdlib.h>
#include <string.h>

struct stage_windows {
    stage_window *at;
    int stages, n, most;
    int divided; /* have their parts */
};

hr_status hr_app_windows_create(int stages, int most, stage_windows **out)
{
    stage_windows *w = calloc(1, sizeof *w);
    *out = NULL;
    if (w) {
        w->stages = stages;
        w->most = most;
        w->at = calloc((size_t)most + 1, sizeof *w->at);
    }
    if (!w || !w->at) {
        hr_app_windows_destroy(w);
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to measure %d slots", most);
    }
    *out = w;
    return HR_OK;
}

void hr_app_windows_destroy(stage_windows *w)
{
    if (w)
        free(w->at);
    free(w);
}

void hr_app_windows_clear(stage_windows *w)
{
    w->n = w->divided = 0;
}

stage_window *hr_app_windows_add(stage_windows *w, int forward, int backward)
{
    if (w->n == w->most)
        return NULL;
    w->at[w->n] = (stage_window){.forward = forward, .backward = backward};
    return &w->at[w->n++];
}

/* ---- parts ----------------------------------------------------------------------------------- */

static bool is_lane(const hr_lane *lane, int rank, const char *role)
{
    return hr_lane_rank(lane) == rank && strcmp(hr_lane_role(lane), role) == 0;
}

static void add_nodes(stage_windows *w, const hr_lane *lane)
{
    size_t n;
    const hr_span *s = hr_lane_spans(lane, &n);
    for (int i = w->divided; i < w->n; i++) {
        stage_window *v = &w->at[i];
        for (; n > 0 && s->begin_ns < v->end_ns; s++, n--)
            if (s->kind == HR_SPAN_NODE && s->begin_ns >= v->begin_ns &&
                s->end_ns <= v->end_ns && s->dir <= HR_DIR_WGRAD)
                v->part[s->dir] += (double)(s->end_ns - s->begin_ns);
    }
}

/* Time between nodes is shared out; without any node, all of it is what the slot is for. */
static void fill_up(stage_window *v)
{
    double sum = 0, ns = (double)(v->end_ns - v->begin_ns);
    v->part[HR_DIR_NONE] = 0;
    for (int d = HR_DIR_FORWARD; d <= HR_DIR_WGRAD; d++)
        sum += v->part[d];
    if (sum <= 0)
        v->part[v->backward >= 0 ? HR_DIR_BACKWARD : HR_DIR_FORWARD] = sum = 1;
    for (int d = HR_DIR_FORWARD; d <= HR_DIR_WGRAD; d++)
        v->part[d] *= ns / sum;
}

void hr_app_windows_divide(stage_windows *w, const hr_timeline *t, int rank)
{
    for (int i = 0; i < hr_timeline_lanes(t); i++)
        if (is_lane(hr_timeline_lane_at(t, i), rank, "compute"))
            add_nodes(w, hr_timeline_lane_at(t, i));
    for (int i = w->divided; i < w->n; i++)
        fill_up(&w->at[i]);
    w->divided = w->n;
}

/* ---- medians --------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *at, size_t n)
{
    if (n == 0)
        return 0;
    qsort(at, n, sizeof *at, by_size);
    return (at[(n - 1) / 2] + at[n / 2]) / 2;
}

static double part_median(const stage_windows *w, int stage, hr_span_dir dir, bool pair,
                          double *room)
{
    size_t n = 0;
    for (int i = 0; i < w->divided; i++) {
        const stage_window *v = &w->at[i];
        int of = dir == HR_DIR_FORWARD ? v->forward : v->backward;
        if (of == stage && (v->forward >= 0 && v->backward >= 0) == pair)
            room[n++] = v->part[dir];
    }
    return n > 0 ? median(room, n) : -1;
}

static double part_time(const stage_windows *w, int stage, hr_span_dir dir,
                        double *room)
{
    double alone = part_median(w, stage, dir, false, room);
    double paired = alone < 0 ? part_median(w, stage, dir, true, room) : 0;
    return alone >= 0 ? alone : paired > 0 ? paired : 0;
}

static hr_status make_room(size_t n, double **out)
{
    *out = calloc(n + 1, sizeof **out);
    return *out ? HR_OK : hr_fail(HR_ERR_NOMEM, NULL, "no memory for %zu times", n);
}

hr_status hr_app_windows_times(const stage_windows *w, int stage, stage_times *out)
{
    double *room;
    APP_TRY(make_room((size_t)w->n, &room));
    *out = (stage_times){.forward_ns = part_time(w, stage, HR_DIR_FORWARD, room),
                         .input_grad_ns = part_time(w, stage, HR_DIR_BACKWARD, room),
                         .weight_grad_ns = part_time(w, stage, HR_DIR_WGRAD, room)};
    free(room);
    return HR_OK;
}

hr_status hr_app_windows_discount(const stage_windows *w, const stage_times *times,
                                  int *percent)
{
    double *room;
    size_t n = 0;
    *percent = 0;
    APP_TRY(make_room((size_t)w->n, &room));
    for (int i = 0; i < w->divided; i++) {
        const stage_window *v = &w->at[i];
        if (v->forward < 0 || v->backward < 0)
            continue;
        const stage_times *b = &times[v->backward];
        double apart =
            times[v->forward].forward_ns + b->input_grad_ns + b->weight_grad_ns;
        if (apart > 0)
            room[n++] = 100 - 100 * (double)(v->end_ns - v->begin_ns) / apart;
    }
    double d = median(room, n);
    *percent = d > 0 ? (int)d : 0;
    free(room);
    return HR_OK;
}

hr_status hr_app_transfer_time(const hr_timeline *t, int rank, double *ns)
{
    double *room = NULL;
    size_t all = 0, n = 0;
    *ns = 0;
    for (int i = 0; i < hr_timeline_lanes(t); i++) {
        size_t k = 0;
        const hr_lane *lane = hr_timeline_lane_at(t, i);
        if (is_lane(lane, rank, "send"))
            (void)hr_lane_spans(lane, &k);
        all += k;
    }
    APP_TRY(make_room(all, &room));
    for (int i = 0; i < hr_timeline_lanes(t); i++) {
        size_t k;
        const hr_lane *lane = hr_timeline_lane_at(t, i);
        const hr_span *s = hr_lane_spans(lane, &k);
        for (; k > 0 && is_lane(lane, rank, "send"); s++, k--)
            if (s->kind == HR_SPAN_TRANSFER)
                room[n++] = (double)(s->end_ns - s->begin_ns);
    }
    *ns = median(room, n);
    free(room);
    return HR_OK;
}
