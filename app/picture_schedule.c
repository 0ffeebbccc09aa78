/* The page: title and legend, then the bands.
 *
 *     title                                              legend
 *     sizes and figures
 *     [ rank 0    F0 F1 F2 F3 .. .. B0    ]
 *     [ rank 1       F0 F1 F2 .. B0    B1 ]
 *       axis in units of cost
 *     [ the same ranks, later ... ]
 *
 * Colours are those of the timeline, and plum for the first half of a split backward: dark, so that
 * it can be told from the others without seeing red and green, or blue and yellow. In a rank's
 * later chunks a bar stands at the foot of the box, the taller the later. A line runs below the slots
 * of the critical path.
 */
#include "picture_schedule.h"
#include "app_try.h"
#include "picture_lane.h"

#include <math.h>
#include <string.h>

#define GAP      0.2 /* between rows, of a row */
#define CRITICAL 0.6 /* of a gap, the line of the critical path */

enum {
    WIDTH = 1600,
    LEFT = 146,
    RIGHT = 24,
    HEAD = 92,
    SLOT = 17, /* width of the shortest slot, where that is possible */
    MOST_BANDS = 8,
    MOST_HEIGHT = 4000, /* of all rows together; what is above gets thinner */
    BAND_GAP = 44,
    INPUT_GRADIENT = 0x7A2E5C,
    IDLE = 0xEEF0F3
};

typedef struct page {
    const picture_schedule *p;
    hr_schedule_shape shape;
    int bands;
    int64_t band;    /* ticks of one */
    double row, gap; /* height of a row, and between two */
    double per_tick; /* points */
} page;

/* ---- colours ----------------------------------------------------------------------------- */
static colour kind_colour(int kind)
{
    switch (kind) {
    case HR_ACTION_F:
        return hr_app_dir_colour(HR_DIR_FORWARD);
    case HR_ACTION_B:
        return hr_app_dir_colour(HR_DIR_BACKWARD);
    case HR_ACTION_I:
        return INPUT_GRADIENT;
    default:
        return hr_app_dir_colour(HR_DIR_WGRAD);
    }
}

static bool has_kind(const page *g, int kind)
{
    for (int k = 0; k < g->shape.ranks; k++) {
        size_t n = 0;
        const hr_action *a = hr_schedule_order(g->p->schedule, k, &n);
        for (size_t i = 0; i < n; i++)
            if (a[i].kind == kind)
                return true;
    }
    return false;
}

static int chunks_of(const page *g)
{
    hr_action first = {.microbatch = 0};
    int chunks = 1;
    (void)hr_app_chunk_of(&g->shape, &first, &chunks);
    return chunks;
}

/* ---- head ------------------------------------------------------------------------------------ */
/* Height of the bar in a box of height 1. */
static double bar_height(int chunk, int chunks)
{
    return chunk > 0 ? 0.08 + 0.14 * chunk / (chunks - 1) : 0;
}

static void draw_bar(canvas *c, double x, double y, double w, double h, double bar)
{
    hr_app_canvas_box(c, x, y + h * (1 - bar), w, h * bar, 0);
    hr_app_canvas_fill(c, INK, 0.55);
}

/* An entry that ends at *right, which moves to its left. */
static void legend_entry(canvas *c, double *right, colour fill, bool bar,
                         const char *text)
{
    hr_app_canvas_font(c, 12, false);
    double x = *right - hr_app_canvas_text_width(c, text) - 20, y = 38;
    hr_app_canvas_box(c, x, y - 11, 14, 14, 3);
    hr_app_canvas_fill(c, fill, 1);
    if (bar)
        draw_bar(c, x, y - 11, 14, 14, bar_height(1, 2));
    hr_app_canvas_text(c, x + 20, y, ALIGN_LEFT, INK, text);
    *right = x - 18;
}

static void critical_line(canvas *c, double x, double y, double w, double gap)
{
    double h = fmax(gap * CRITICAL, 1);
    hr_app_canvas_box(c, x, y + (gap - h) / 2, w, h, 0);
    hr_app_canvas_fill(c, INK, 1);
}

static void legend_line(canvas *c, double *right, const char *text)
{
    hr_app_canvas_font(c, 12, false);
    double x = *right - hr_app_canvas_text_width(c, text) - 26, y = 38;
    critical_line(c, x, y - 8, 20, 8);
    hr_app_canvas_text(c, x + 26, y, ALIGN_LEFT, INK, text);
    *right = x - 18;
}

static void draw_head(canvas *c, const page *g)
{
    static const struct entry {
        int kind;
        const char *text;
    } entries[] = {
        {HR_ACTION_W, "W weight gradient"},
        {HR_ACTION_I, "I input gradient"},
        {HR_ACTION_B, "B backward"},
        {HR_ACTION_F, "F forward"},
    };
    double right = WIDTH - RIGHT;
    legend_entry(c, &right, IDLE, false, "idle");
    if (g->p->figures->path_steps > 0)
        legend_line(c, &right, "critical path");
    if (chunks_of(g) > 1)
        legend_entry(c, &right, 0xC5CAD3, true,
                     g->shape.placement == HR_PLACEMENT_BIDIRECTIONAL
                         ? "other direction"
                         : "later chunk");
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        if (has_kind(g, entries[i].kind))
            legend_entry(c, &right, kind_colour(entries[i].kind), false,
                         entries[i].text);
    hr_app_canvas_font(c, 22, true);
    hr_app_canvas_text(c, 24, 40, ALIGN_LEFT, INK, g->p->title);
    hr_app_canvas_font(c, 14, false);
    hr_app_canvas_text(c, 24, 66, ALIGN_LEFT, INK_SOFT, g->p->subtitle);
}

/* ---- bands ----------------------------------------------------------------------------------- */
typedef struct rectangle {
    double x, y, w, h;
} rectangle;

static void draw_action(canvas *c, const page *g, const hr_action *a, rectangle r)
{
    char text[16];
    int chunks = 1, chunk = hr_app_chunk_of(&g->shape, a, &chunks);
    double size = fmin(12, r.h * 0.72);
    double margin = r.w > 3 ? 0.5 : 0; /* white between neighbours */
    r.x += margin;
    r.w -= 2 * margin;
    hr_app_canvas_box(c, r.x, r.y, r.w, r.h, r.h < 18 ? 0 : 2);
    hr_app_canvas_fill(c, kind_colour(a->kind), 1);
    draw_bar(c, r.x, r.y, r.w, r.h, bar_height(chunk, chunks));
    r.h *= 1 - bar_height(chunks - 1, chunks); /* numbers of a row on one line */
    snprintf(text, sizeof text, "%d", a->microbatch);
    hr_app_canvas_font(c, size, false);
    double width = hr_app_canvas_text_width(c, text);
    if (width + 1 > r.w) {
        size *= (r.w - 1) / width;
        hr_app_canvas_font(c, size, false);
    }
    if (size >= 6)
        hr_app_canvas_text(c, r.x + r.w / 2, r.y + r.h / 2 + size * 0.36, ALIGN_CENTER,
                           a->kind == HR_ACTION_W ? INK : PAPER, text);
}

/* The part of a slot that lies in [from, to). */
static void draw_slot(canvas *c, const page *g, const timed_slot *s, int64_t from,
                      int64_t to, double y)
{
    int64_t begin = s->begin > from ? s->begin : from, end = s->end < to ? s->end : to;
    double x = LEFT + (double)(begin - from) * g->per_tick;
    double w = (double)(end - begin) * g->per_tick, h = g->row / s->n;
    for (int k = 0; k < s->n; k++)
        draw_action(c, g, &s->a[k], (rectangle){x, y + k * h, w, h});
    if (s->critical)
        critical_line(c, x, y + g->row, w, g->gap);
}

static void draw_rank_name(canvas *c, const page *g, int rank, double y)
{
    const hr_rank_figures *f = &g->p->figures->rank[rank];
    char text[64];
    if (g->row < 10)
        return;
    bool roomy = g->row >= 26;
    snprintf(text, sizeof text, "rank %d", rank);
    hr_app_canvas_font(c, fmin(13, g->row * 0.6), true);
    hr_app_canvas_text(c, 24, y + (roomy ? 13 : g->row * 0.7), ALIGN_LEFT, INK, text);
    if (!roomy)
        return;
    snprintf(text, sizeof text, "%.1f%% idle, holds %.3g", 100 * f->bubble,
             (double)f->peak_act / g->p->parts);
    hr_app_canvas_font(c, 10, false);
    hr_app_canvas_text(c, 24, y + 26, ALIGN_LEFT, INK_SOFT, text);
}

static void draw_ticks(canvas *c, const page *g, int64_t from, int64_t to, double y)
{
    double unit = (double)HR_TICKS, per_unit = g->per_tick * unit;
    double step = hr_app_tick_step((double)g->band / unit, 16);
    int digits = hr_app_tick_digits(step);
    char text[48];
    hr_app_canvas_font(c, 11, false);
    for (double k = ceil((double)from / unit / step); k * step * unit <= (double)to;
         k++) {
        double x = LEFT + (k * step - (double)from / unit) * per_unit;
        hr_app_canvas_line(c, x, y, x, y + 5);
        hr_app_canvas_stroke(c, INK_SOFT, 0.7, 1);
        snprintf(text, sizeof text, "%.*f", digits, k * step);
        hr_app_canvas_text(c, x, y + 18, ALIGN_CENTER, INK_SOFT, text);
    }
}

static void draw_band(canvas *c, const page *g, int band, double top)
{
    const slot_times *t = g->p->times;
    int64_t from = band * g->band, to = from + g->band;
    to = to < t->makespan ? to : t->makespan;
    double width = (double)(to - from) * g->per_tick, y = top;
    for (int k = 0; k < t->ranks; k++, y += g->row + g->gap) {
        draw_rank_name(c, g, k, y);
        hr_app_canvas_box(c, LEFT, y, width, g->row, 0);
        hr_app_canvas_fill(c, IDLE, 1);
        for (size_t i = 0; i < t->n[k]; i++) {
            const timed_slot *s = &t->slot[t->first[k] + i];
            if (s->end > from && s->begin < to && s->end > s->begin)
                draw_slot(c, g, s, from, to, y);
        }
    }
    draw_ticks(c, g, from, to, y - g->gap + 3);
}

/* How many bands, and how much of the time and of the paper each gets. */
static void lay_out(page *g)
{
    const slot_times *t = g->p->times;
    double room = WIDTH - LEFT - RIGHT;
    double wanted =
        t->shortest > 0 ? (double)t->makespan / (double)t->shortest * SLOT : 0;
    double bands = fmin(fmax(ceil(wanted / room), 1), MOST_BANDS);
    int64_t grain = t->shortest > 0 && bands < MOST_BANDS ? t->shortest : 1;
    g->bands = (int)bands;
    g->band = (t->makespan + g->bands - 1) / g->bands;
    g->band = (g->band + grain - 1) / grain * grain;
    g->band = g->band > 0 ? g->band : 1;
    g->per_tick = room / (double)g->band;
    g->row = fmin(30, MOST_HEIGHT / (double)(t->ranks * g->bands));
    g->gap = g->row * GAP;
}

hr_status hr_app_picture_schedule(const picture_schedule *p, const char *path)
{
    page g = {.p = p, .shape = {HR_INIT(hr_schedule_shape)}};
    canvas c;
    hr_schedule_get_shape(p->schedule, &g.shape);
    lay_out(&g);
    double band = p->times->ranks * (g.row + g.gap) + BAND_GAP;
    APP_TRY(hr_app_canvas_begin(&c, path, WIDTH, HEAD + g.bands * band));
    draw_head(&c, &g);
    for (int b = 0; b < g.bands; b++)
        draw_band(&c, &g, b, HEAD + b * band);
    return hr_app_canvas_end(&c);
}
