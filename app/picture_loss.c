/* The loss curve: what each step lost, faintly; its running mean; validation as points. */
#include "picture_loss.h"
#include "app_try.h"
#include "picture_canvas.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 1000, HEIGHT = 620, LEFT = 78, RIGHT = 30, TOP = 112, BOTTOM = 62 };
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

/* Each value, or the mean of those around it: half a window on either side. */
static void draw_line(canvas *c, const plot *a, const loss_point *p, size_t n,
                      size_t half)
{
    bool open = false; /* a gap where a loss is not finite */
    for (size_t i = 0; i < n; i++) {
        size_t from = i > half ? i - half : 0, to = i + half < n ? i + half : n - 1;
        double sum = 0;
        for (size_t k = from; k <= to; k++)
            sum += p[k].loss;
        double mean = sum / (double)(to - from + 1);
        if (!isfinite(mean)) {
            open = false;
            continue;
        }
        (open ? cairo_line_to : cairo_move_to)(c->cr, at_x(a, p[i].step),
                                               at_y(a, mean));
        open = true;
    }
}

static void draw_validation(canvas *c, const plot *a, const loss_point *p, size_t n)
{
    char text[32];
    draw_line(c, a, p, n, 0);
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
    draw_line(&c, &a, p->train, p->n_train, 0);
    hr_app_canvas_stroke(&c, TRAIN, 0.3, 1);
    draw_line(&c, &a, p->train, p->n_train, p->n_train / 60);
    hr_app_canvas_stroke(&c, TRAIN, 1, 2.5);
    draw_validation(&c, &a, p->validation, p->n_validation);
    return hr_app_canvas_end(&c);
}
