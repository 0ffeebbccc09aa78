/* The page around the rows: title, legend, and two panels. The upper one is the whole stretch of time, the
 * lower one a part of it that is large enough to read; where everything can be read there is one.
 *
 *     title                                              legend
 *     the link, how much was hidden
 *     [ whole step: thin rows of each rank, the part below marked ]
 *     [ part: tall rows of each rank, named boxes                 ]
 *       axis in ms
 */
#include "picture_timeline.h"
#include "app_try.h"
#include "picture_lane.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 1600,
    LEFT = 172,
    RIGHT = 24,
    HEAD = 92,
    MOST_RANKS = 8,
    READABLE = 24, /* nodes of a compute row that can be read beside each other */
    THIN = 13,     /* height of a row of the upper panel */
    TALL = 50,     /* of the lower */
    SLIM = 20,     /* of the lower: to, and from, other stages */
    PANEL_GAP = 58
};

typedef struct page {
    const picture_timeline *p;
    const hr_timeline *t;
    int ranks[MOST_RANKS], n_ranks, all_ranks;
    int64_t origin_ns; /* 0 ms */
    time_axis whole, part;
    bool zoomed;
    bool stages; /* something goes from stage to stage */
} page;

/* ---- what to show ------------------------------------------------------------------------ */
static void add_rank(page *g, int rank)
{
    for (int i = 0; i < g->n_ranks; i++)
        if (g->ranks[i] == rank)
            return;
    g->all_ranks++;
    if (g->n_ranks < MOST_RANKS)
        g->ranks[g->n_ranks++] = rank;
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Ranks, and first begin to last end of what can be drawn. */
static void survey(page *g)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (int i = 0; i < hr_timeline_lanes(g->t); i++) {
        const hr_lane *lane = hr_timeline_lane_at(g->t, i);
        size_t n = 0;
        const hr_span *s = hr_lane_spans(lane, &n);
        g->stages |= hr_app_lane_is(lane, hr_lane_rank(lane), LANE_SEND) && n > 0;
        if (!hr_app_lane_is(lane, hr_lane_rank(lane), LANE_COMPUTE) &&
            !hr_app_lane_is(lane, hr_lane_rank(lane), LANE_COMMUNICATION))
            continue;
        add_rank(g, hr_lane_rank(lane));
        for (size_t k = 0; k < n; k++) {
            first = s[k].begin_ns < first ? s[k].begin_ns : first;
            last = s[k].end_ns > last ? s[k].end_ns : last;
        }
    }
    qsort(g->ranks, (size_t)g->n_ranks, sizeof g->ranks[0], by_value);
    bool given = g->p->end_ns > g->p->begin_ns;
    g->whole.begin_ns = given ? g->p->begin_ns : first == INT64_MAX ? 0 : first;
    g->whole.end_ns = given ? g->p->end_ns : last == INT64_MIN ? 0 : last;
    if (g->whole.end_ns <= g->whole.begin_ns)
        g->whole.end_ns = g->whole.begin_ns + 1000000;
    g->origin_ns = g->whole.begin_ns;
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Where the nodes of the first rank's compute row begin, in order. *out is the caller's. */
static size_t node_begins(const page *g, int64_t **out)
{
    size_t room = 0, n = 0;
    for (int i = 0; i < hr_timeline_lanes(g->t); i++) {
        size_t spans = 0;
        hr_lane_spans(hr_timeline_lane_at(g->t, i), &spans);
        room += spans;
    }
    *out = malloc((room + 1) * sizeof **out);
    for (int i = 0; *out && i < hr_timeline_lanes(g->t); i++) {
        const hr_lane *lane = hr_timeline_lane_at(g->t, i);
        size_t spans = 0;
        const hr_span *s = hr_lane_spans(lane, &spans);
        if (g->n_ranks == 0 || !hr_app_lane_is(lane, g->ranks[0], LANE_COMPUTE))
            continue;
        for (size_t k = 0; k < spans; k++)
            if (s[k].kind == HR_SPAN_NODE && s[k].begin_ns >= g->whole.begin_ns &&
                s[k].end_ns <= g->whole.end_ns)
                (*out)[n++] = s[k].begin_ns;
    }
    if (n > 1)
        qsort(*out, n, sizeof **out, by_time);
    return n;
}

/* The middle of the stretch, where schedules are in their steady state. */
static hr_status choose_part(page *g)
{
    int64_t *begins = NULL;
    size_t n = node_begins(g, &begins);
    if (!begins)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to draw the timeline");
    g->part = g->whole;
    g->zoomed = n > READABLE + READABLE / 2;
    if (g->zoomed) {
        size_t first = (n - READABLE) / 2;
        g->part.begin_ns = begins[first];
        g->part.end_ns = begins[first + READABLE];
        g->zoomed = g->part.end_ns > g->part.begin_ns;
        if (!g->zoomed)
            g->part = g->whole;
    }
    free(begins);
    return HR_OK;
}

/* ---- head ------------------------------------------------------------------------------------ */
static void legend_text(canvas *c, double *x, double y, const char *text)
{
    hr_app_canvas_font(c, 12, false);
    *x += 20;
    *x += hr_app_canvas_text(c, *x, y, ALIGN_LEFT, INK, text) + 18;
}

static void draw_legend(canvas *c)
{
    static const char *const names[] = {"other", "forward", "backward",
                                        "weight gradients"};
    static const int order[] = {HR_DIR_FORWARD, HR_DIR_BACKWARD, HR_DIR_WGRAD,
                                HR_DIR_NONE};
    double x = WIDTH - 522, y = 66;
    for (int i = 0; i < 4; i++) {
        int dir = order[i];
        hr_app_canvas_box(c, x, y - 11, 14, 14, 3);
        hr_app_canvas_fill(c, hr_app_dir_colour(dir), 1);
        legend_text(c, &x, y, names[dir]);
    }
    hr_app_draw_hatched(c, x, y - 11, 14, 14);
    legend_text(c, &x, y, "waits for peers");
}

/* Fraction of communication that was hidden; negative if there was none. */
static double hidden(const page *g, int rank)
{
    hr_overlap o;
    if (hr_timeline_overlap(g->t, rank, &o) < 0 || o.comm_ns <= 0)
        return -1;
    return (double)o.hidden_ns / (double)o.comm_ns;
}

/* Share of the whole stretch in which the rank does not compute. */
static double bubble(const page *g, int rank)
{
    hr_overlap o;
    if (hr_timeline_overlap(g->t, rank, &o) < 0)
        return 1;
    return 1 - (double)o.compute_ns / (double)(g->whole.end_ns - g->whole.begin_ns);
}

static void draw_head(canvas *c, const page *g)
{
    char text[256] = "";
    double sum = 0;
    int counted = 0;
    for (int i = 0; i < g->n_ranks; i++) {
        double h = hidden(g, g->ranks[i]);
        sum += h >= 0 ? h : 0;
        counted += h >= 0;
    }
    if (counted > 0)
        snprintf(text, sizeof text, "%.0f%% of communication hidden",
                 100 * sum / counted);
    if (g->p->link_gbps > 0 || g->p->link_us > 0)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "%simitated link, %g Gbit/s and %g us", *text ? "   ·   " : "",
                 g->p->link_gbps, g->p->link_us);
    if (g->all_ranks > g->n_ranks)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "%s%d of %d ranks shown", *text ? "   ·   " : "", g->n_ranks,
                 g->all_ranks);
    snprintf(text + strlen(text), sizeof text - strlen(text),
             "%snumbers are microbatches", *text ? "   ·   " : "");
    hr_app_canvas_font(c, 22, true);
    hr_app_canvas_text(c, 24, 40, ALIGN_LEFT, INK,
                       g->p->title ? g->p->title : "Timeline");
    hr_app_canvas_font(c, 14, false);
    hr_app_canvas_text(c, 24, 66, ALIGN_LEFT, INK_SOFT, text);
    draw_legend(c);
}

/* ---- panels ----------------------------------------------------------------------------------- */
/* Rows of a rank with the gaps between them, from top to bottom. */
static double rows_height(const page *g, bool detail)
{
    double gap = detail ? 4 : 2;
    return 2 * (detail ? TALL : THIN) + gap +
           (g->stages ? 2 * (detail ? SLIM : THIN / 2) + gap : 0);
}

static double rank_height(const page *g, bool detail)
{
    return rows_height(g, detail) + (detail ? 16 : 8);
}

static double panel_height(const page *g, bool detail)
{
    int n = g->n_ranks > 0 ? g->n_ranks : 1;
    return n * rank_height(g, detail) - (detail ? 16 : 8);
}

static void draw_ticks(canvas *c, const page *g, const time_axis *a, double y, double h)
{
    double from = (double)(a->begin_ns - g->origin_ns) * 1e-6;
    double to = (double)(a->end_ns - g->origin_ns) * 1e-6;
    double step = hr_app_tick_step(to - from, 14);
    int digits = hr_app_tick_digits(step);
    char text[48];
    hr_app_canvas_font(c, 11, false);
    for (double k = ceil(from / step); k * step <= to; k++) {
        double x = a->x + a->width * (k * step - from) / (to - from);
        hr_app_canvas_line(c, x, y, x, y + h + 5);
        hr_app_canvas_stroke(c, GRID, 1, 1);
        snprintf(text, sizeof text, "%.*f", digits, k * step);
        hr_app_canvas_text(c, x, y + h + 18, ALIGN_CENTER, INK_SOFT, text);
    }
    hr_app_canvas_text(c, a->x - 10, y + h + 18, ALIGN_RIGHT, INK_SOFT, "ms");
}

static void draw_rank_name(canvas *c, const page *g, int rank, double y, bool detail)
{
    char text[64];
    double h = hidden(g, rank), idle = bubble(g, rank);
    snprintf(text, sizeof text, "rank %d", rank);
    hr_app_canvas_font(c, detail ? 15 : 12, true);
    hr_app_canvas_text(c, 24, y + (detail ? 22 : 16), ALIGN_LEFT, INK, text);
    if (!detail)
        return;
    hr_app_canvas_font(c, 11, false);
    snprintf(text, sizeof text, "%.0f%% hidden", 100 * h);
    if (h >= 0)
        hr_app_canvas_text(c, 24, y + 40, ALIGN_LEFT, INK_SOFT, text);
    snprintf(text, sizeof text, "%.0f%% bubble", 100 * idle);
    if (g->stages)
        hr_app_canvas_text(c, 24, y + 56, ALIGN_LEFT, INK_SOFT, text);
}

static void draw_row_name(canvas *c, double y, double height, const char *name)
{
    hr_app_canvas_font(c, 11, false);
    hr_app_canvas_text(c, LEFT - 10, y + height / 2 + 4, ALIGN_RIGHT, INK_SOFT, name);
}

static void draw_rank(canvas *c, const page *g, int rank, const time_axis *a, double y,
                      bool detail)
{
    static const char *const names[LANE_ROLES] = {"compute", "communication",
                                                  "to stages", "from stages"};
    double gap = detail ? 4 : 2;
    draw_rank_name(c, g, rank, y, detail);
    for (lane_role role = LANE_COMPUTE; role < LANE_ROLES; role++) {
        bool slim = role >= LANE_SEND;
        double h = detail ? (slim ? SLIM : TALL) : slim ? THIN / 2 : THIN;
        if (slim && !g->stages)
            break;
        hr_app_draw_row(c, g->t, rank, role, a, y, h, detail);
        if (detail)
            draw_row_name(c, y, h, names[role]);
        y += h + (role == LANE_SEND ? 0 : gap);
    }
}

static void draw_panel(canvas *c, const page *g, const time_axis *a, double top,
                       bool detail)
{
    draw_ticks(c, g, a, top, panel_height(g, detail));
    for (int i = 0; i < g->n_ranks; i++)
        draw_rank(c, g, g->ranks[i], a, top + i * rank_height(g, detail), detail);
}

/* Frame the part in the upper panel, and lead the eye down to it. */
static void draw_zoom(canvas *c, const page *g, double top, double bottom, double lower)
{
    double x0 = hr_app_axis_x(&g->whole, g->part.begin_ns);
    double x1 = hr_app_axis_x(&g->whole, g->part.end_ns);
    hr_app_canvas_box(c, x0 - 1, top - 3, x1 - x0 + 2, bottom - top + 6, 2);
    hr_app_canvas_stroke(c, INK, 1, 1.6);
    hr_app_canvas_line(c, x0 - 1, bottom + 3, g->part.x, lower);
    hr_app_canvas_line(c, x1 + 1, bottom + 3, g->part.x + g->part.width, lower);
    hr_app_canvas_stroke(c, INK_SOFT, 0.6, 1);
}

hr_status hr_app_picture_timeline(const picture_timeline *p, const char *path)
{
    page g = {.p = p, .t = p->timeline};
    canvas c;
    survey(&g);
    APP_TRY(choose_part(&g));
    g.whole.x = g.part.x = LEFT;
    g.whole.width = g.part.width = WIDTH - LEFT - RIGHT;
    double upper = panel_height(&g, false), lower = panel_height(&g, true);
    double top = HEAD + (g.zoomed ? upper + PANEL_GAP : 0);
    APP_TRY(hr_app_canvas_begin(&c, path, WIDTH, top + lower + 36));
    draw_head(&c, &g);
    draw_panel(&c, &g, &g.part, top, true);
    if (g.zoomed) {
        draw_panel(&c, &g, &g.whole, HEAD, false);
        draw_zoom(&c, &g, HEAD, HEAD + upper, top - 4);
    }
    if (g.n_ranks == 0) {
        hr_app_canvas_font(&c, 16, false);
        hr_app_canvas_text(&c, WIDTH / 2.0, top + lower / 2, ALIGN_CENTER, INK_SOFT,
                           "nothing was recorded");
    }
    return hr_app_canvas_end(&c);
}
