/* The loss curve: what each step lost, faintly; its running mean; validation as points. */
#include "picture_loss.h"
#include "app_try.h"
#include "picture_canvas.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 1000, HEIGHT = 620, LEFT = 78, RIGHT = 30, TOP = 112, BOTTOM = 62 };
enum { MOST = 4000 }; /* points that a line is drawn through; past it, it is thinned */
enum { TRAIN = 0x2F6DB5, VALIDATION = 0xE0672C };

typedef struct plot {
    double x0, x1, y0, y1; /* of the data */
} plot;

static double at_x(const plot *a, double v)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (v - a->x0) / (a->x1 - a->x0);
}

static double at_y(const plot *a, double v)
{
    return TOP + (HEIGHT - TOP - BOTTOM) * (a->y1 - v) / (a->y1 - a->y0);
}

static void reach(plot *a, const loss_point *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(p[i].loss) || !isfinite(p[i].step))
            continue;
        a->x0 = fmin(a->x0, p[i].step);
        a->x1 = fmax(a->x1, p[i].step);
        a->y0 = fmin(a->y0, p[i].loss);
        a->y1 = fmax(a->y1, p[i].loss);
    }
}

static plot scale(const picture_loss *p)
{
    plot a = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    reach(&a, p->train, p->n_train);
    reach(&a, p->validation, p->n_validation);
    if (!isfinite(a.x0))
        a = (plot){0, 1, 0, 1};
    a.y1 = p->baseline > a.y1 ? p->baseline : a.y1;
    double step = hr_app_tick_step(a.y1 - a.y0, 8);
    a.y0 = floor(a.y0 / step) * step;
    a.y1 = ceil(a.y1 / step + 0.05) * step;
    a.x0 = 0;
    a.x1 = a.x1 > 0 ? a.x1 : 1;
    if (a.y1 <= a.y0)
        a.y1 = a.y0 + 1;
    return a;
}

static void draw_axes(canvas *c, const plot *a)
{
    char text[48];
    double step = hr_app_tick_step(a->y1 - a->y0, 8);
    hr_app_canvas_font(c, 13, false);
    for (double k = ceil(a->y0 / step - 1e-9); k * step <= a->y1 + step * 1e-9; k++) {
        double y = at_y(a, k * step);
        hr_app_canvas_line(c, LEFT, y, WIDTH - RIGHT, y);
        hr_app_canvas_stroke(c, GRID, 1, 1);
        snprintf(text, sizeof text, "%.*f", hr_app_tick_digits(step), k * step);
        hr_app_canvas_text(c, LEFT - 10, y + 4, ALIGN_RIGHT, INK_SOFT, text);
    }
    step = hr_app_tick_step(a->x1 - a->x0, 10);
    for (double k = ceil(a->x0 / step); k * step <= a->x1; k++) {
        snprintf(text, sizeof text, "%.*f", hr_app_tick_digits(step), k * step);
        hr_app_canvas_text(c, at_x(a, k * step), HEIGHT - BOTTOM + 20, ALIGN_CENTER,
                           INK_SOFT, text);
    }
    hr_app_canvas_text(c, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 14, ALIGN_CENTER,
                       INK_SOFT, "step");
    hr_app_canvas_text(c, 24, TOP - 14, ALIGN_LEFT, INK_SOFT, "nats a byte");
}

/* A line from left to right, with a gap where a value is not finite. */
typedef struct pen {
    canvas *c;
    const plot *a;
    bool open;
} pen;

static void put_point(pen *to, double step, double value)
{
    if (!isfinite(value)) {
        to->open = false;
        return;
    }
    (to->open ? cairo_line_to : cairo_move_to)(to->c->cr, at_x(to->a, step),
                                               at_y(to->a, value));
    to->open = true;
}

/* How many of `n` points make one of a line. */
static size_t run_length(size_t n)
{
    return (n + MOST - 1) / MOST;
}

/* The least and the greatest value of each run, in the order they came. A run of one is drawn as
 * it is. */
static void draw_values(canvas *c, const plot *a, const loss_point *p, size_t n)
{
    const size_t run = run_length(n);
    pen to = {c, a, false};
    for (size_t i = 0; i < n; i += run) {
        size_t end = i + run < n ? i + run : n, low = i, high = i;
        for (size_t k = i + 1; k < end; k++) {
            if (!isfinite(p[k].loss))
                continue;
            low = p[k].loss < p[low].loss || !isfinite(p[low].loss) ? k : low;
            high = p[k].loss > p[high].loss || !isfinite(p[high].loss) ? k : high;
        }
        size_t first = low < high ? low : high, second = low < high ? high : low;
        put_point(&to, p[first].step, p[first].loss);
        if (second != first)
            put_point(&to, p[second].step, p[second].loss);
    }
}

/* The mean of the values around each point, half a window on either side; around one of each run
 * only, since every mean costs a window. */
static void draw_means(canvas *c, const plot *a, const loss_point *p, size_t n)
{
    const size_t run = run_length(n), half = n / 60;
    pen to = {c, a, false};
    for (size_t at = 0; at < n; at += run) {
        size_t i = at + run < n ? at : n - 1; /* up to the last point */
        size_t from = i > half ? i - half : 0, end = i + half < n ? i + half : n - 1;
        double sum = 0;
        for (size_t k = from; k <= end; k++)
            sum += p[k].loss;
        put_point(&to, p[i].step, sum / (double)(end - from + 1));
    }
}

static void draw_validation(canvas *c, const plot *a, const loss_point *p, size_t n)
{
    char text[32];
    draw_values(c, a, p, n);
    hr_app_canvas_stroke(c, VALIDATION, 0.7, 1.8);
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(p[i].loss))
            continue;
        cairo_new_sub_path(c->cr);
        cairo_arc(c->cr, at_x(a, p[i].step), at_y(a, p[i].loss), 4.5, 0, 2 * M_PI);
        hr_app_canvas_colour(c, VALIDATION, 1);
        cairo_fill_preserve(c->cr);
        hr_app_canvas_stroke(c, PAPER, 1, 1.5);
    }
    if (n == 0 || !isfinite(p[n - 1].loss))
        return;
    snprintf(text, sizeof text, "%.3f", p[n - 1].loss);
    hr_app_canvas_font(c, 14, true);
    hr_app_canvas_text(c, at_x(a, p[n - 1].step) - 4, at_y(a, p[n - 1].loss) - 12,
                       ALIGN_RIGHT, VALIDATION, text);
}

static void draw_baseline(canvas *c, const plot *a, double baseline)
{
    static const double dashes[] = {6, 5};
    char text[64];
    double y = at_y(a, baseline);
    cairo_set_dash(c->cr, dashes, 2, 0);
    hr_app_canvas_line(c, LEFT, y, WIDTH - RIGHT, y);
    hr_app_canvas_stroke(c, INK_SOFT, 1, 1.2);
    cairo_set_dash(c->cr, NULL, 0, 0);
    snprintf(text, sizeof text, "byte frequencies alone: %.2f", baseline);
    hr_app_canvas_font(c, 12, false);
    hr_app_canvas_text(c, WIDTH - RIGHT, y - 6, ALIGN_RIGHT, INK_SOFT, text);
}

static void draw_head(canvas *c, const picture_loss *p)
{
    hr_app_canvas_font(c, 20, true);
    hr_app_canvas_text(c, 24, 38, ALIGN_LEFT, INK, p->title ? p->title : "Loss");
    hr_app_canvas_font(c, 13, false);
    if (p->subtitle)
        hr_app_canvas_text(c, 24, 60, ALIGN_LEFT, INK_SOFT, p->subtitle);
    double x = WIDTH - RIGHT;
    x -= hr_app_canvas_text(c, x, TOP - 14, ALIGN_RIGHT, INK, "validation") + 16;
    cairo_new_sub_path(c->cr);
    cairo_arc(c->cr, x + 6, TOP - 18.5, 4.5, 0, 2 * M_PI);
    hr_app_canvas_fill(c, VALIDATION, 1);
    x -= 14;
    x -= hr_app_canvas_text(c, x, TOP - 14, ALIGN_RIGHT, INK, "training") + 26;
    hr_app_canvas_line(c, x, TOP - 18.5, x + 20, TOP - 18.5);
    hr_app_canvas_stroke(c, TRAIN, 1, 2.5);
}

hr_status hr_app_picture_loss(const picture_loss *p, const char *path)
{
    canvas c;
    plot a = scale(p);
    APP_TRY(hr_app_canvas_begin(&c, path, WIDTH, HEIGHT));
    draw_head(&c, p);
    draw_axes(&c, &a);
    if (p->baseline > 0)
        draw_baseline(&c, &a, p->baseline);
    cairo_set_line_join(c.cr, CAIRO_LINE_JOIN_ROUND);
    draw_values(&c, &a, p->train, p->n_train);
    hr_app_canvas_stroke(&c, TRAIN, 0.3, 1);
    draw_means(&c, &a, p->train, p->n_train);
    hr_app_canvas_stroke(&c, TRAIN, 1, 2.5);
    draw_validation(&c, &a, p->validation, p->n_validation);
    return hr_app_canvas_end(&c);
}
