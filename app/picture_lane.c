/* How one span looks. A node's frame is tinted on communication rows, where the transfer is the solid part
 * and waiting is hatched; on compute rows the node itself is solid. */
#include "picture_lane.h"

#include <math.h>
#include <string.h>

enum { FORWARD = 0x2F6DB5, BACKWARD = 0xE0672C, WGRAD = 0xF2B134, OTHER = 0x8A94A6 };

colour hr_app_dir_colour(int dir)
{
    static const colour colours[] = {OTHER, FORWARD, BACKWARD, WGRAD};
    return dir >= HR_DIR_NONE && dir <= HR_DIR_WGRAD ? colours[dir] : (colour)OTHER;
}

static colour on_colour(int dir)
{
    return dir == HR_DIR_WGRAD ? INK : PAPER;
}

double hr_app_axis_x(const time_axis *a, int64_t ns)
{
    return a->x +
           a->width * (double)(ns - a->begin_ns) / (double)(a->end_ns - a->begin_ns);
}

bool hr_app_lane_is(const hr_lane *lane, int rank, lane_role role)
{
    static const char *const names[LANE_ROLES] = {"compute", "communication", "send",
                                                  "receive"};
    return hr_lane_rank(lane) == rank && strcmp(hr_lane_role(lane), names[role]) == 0;
}

void hr_app_draw_hatched(canvas *c, double x, double y, double w, double h)
{
    cairo_save(c->cr);
    cairo_rectangle(c->cr, x, y, w, h);
    cairo_clip(c->cr);
    cairo_rectangle(c->cr, x, y, w, h);
    hr_app_canvas_fill(c, 0xEEF0F3, 1);
    int lines = (int)((w + h) / 5) + 1;
    for (int i = 0; i < lines; i++)
        hr_app_canvas_line(c, x - h + 5 * i, y + h, x + 5 * i, y);
    hr_app_canvas_stroke(c, 0x9CA3AF, 0.9, 1);
    cairo_restore(c->cr);
}

/* What a node is called where there is little room, and where there is less. */
static const char *short_name(const char *name, bool shortest)
{
    static const char *const names[][3] = {
        {"pre_dispatch_computation", "attention", "attn"},
        {"moe_dispatch", "dispatch", "disp"},
        {"moe_combine", "combine", "comb"},
        {"mtp_post_process", "mtp", "mtp"},
        {"pre_process", "embedding", "emb"},
        {"post_process", "loss", "loss"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i][0]) == 0)
            return names[i][shortest ? 2 : 1];
    return name;
}

typedef struct rectangle {
    double x, y, w, h;
} rectangle;

static bool place(const hr_span *s, const time_axis *a, double y, double h,
                  rectangle *out)
{
    if (s->end_ns <= a->begin_ns || s->begin_ns >= a->end_ns)
        return false;
    double x0 = fmax(hr_app_axis_x(a, s->begin_ns), a->x);
    double x1 = fmin(hr_app_axis_x(a, s->end_ns), a->x + a->width);
    *out = (rectangle){x0, y, fmax(x1 - x0, 0.4), h};
    return true;
}

/* The name in the largest form that fits, with its font chosen; NULL if none does. */
static const char *fit_name(canvas *c, const char *name, double width)
{
    static const struct form {
        double size, margin;
        bool shortest;
    } forms[] = {{11, 6, false}, {9, 3, false}, {11, 4, true}, {9, 2, true}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const char *text = short_name(name, forms[i].shortest);
        hr_app_canvas_font(c, forms[i].size, false);
        if (hr_app_canvas_text_width(c, text) + forms[i].margin <= width)
            return text;
    }
    return NULL;
}

/* On a compute row: the name over the microbatch, as far as they fit. */
static void label_compute(canvas *c, const hr_span *s, const rectangle *r)
{
    char batch[16] = "";
    colour ink = on_colour(s->dir);
    double middle = r->x + r->w / 2, center = r->y + r->h / 2;
    if (s->microbatch >= 0)
        snprintf(batch, sizeof batch, "%d", s->microbatch);
    const char *name = fit_name(c, s->name, r->w);
    if (name)
        hr_app_canvas_text(c, middle, *batch ? center - 4 : center + 4, ALIGN_CENTER,
                           ink, name);
    hr_app_canvas_font(c, 12, true);
    if (*batch && hr_app_canvas_text_width(c, batch) + 2 <= r->w)
        hr_app_canvas_text(c, middle, name ? center + 12 : center + 4, ALIGN_CENTER,
                           ink, batch);
}

/* On a communication row the name is above; the microbatch is on the transfer below it. */
static void label_communication(canvas *c, const hr_span *s, const rectangle *r)
{
    const char *name = fit_name(c, s->name, r->w);
    if (name)
        hr_app_canvas_text(c, r->x + r->w / 2, r->y + r->h * 0.24 + 4, ALIGN_CENTER,
                           INK, name);
}

static void draw_node(canvas *c, const hr_span *s, const rectangle *r, lane_role role)
{
    double gap = r->w > 3 ? 0.6 : 0; /* white between neighbours */
    hr_app_canvas_box(c, r->x + gap, r->y, r->w - 2 * gap, r->h, 3);
    if (role == LANE_COMPUTE) {
        hr_app_canvas_fill(c, hr_app_dir_colour(s->dir), 1);
        label_compute(c, s, r);
        return;
    }
    hr_app_canvas_colour(c, hr_app_dir_colour(s->dir), 0.14);
    cairo_fill_preserve(c->cr);
    hr_app_canvas_stroke(c, hr_app_dir_colour(s->dir), 0.5, 0.8);
    label_communication(c, s, r);
}

/* Groups know nothing of layers: direction and microbatch of a transfer are those of the node that it
 * lies in, which ends next on the same lane. */
static hr_span in_its_node(const hr_span *spans, size_t n, size_t i)
{
    hr_span s = spans[i];
    for (size_t k = i + 1; k < n && s.dir == HR_DIR_NONE; k++) {
        if (spans[k].kind != HR_SPAN_NODE)
            continue;
        if (spans[k].begin_ns <= s.begin_ns) {
            s.dir = spans[k].dir;
            s.microbatch = spans[k].microbatch;
        }
        break;
    }
    return s;
}

static void label_transfer(canvas *c, const hr_span *s, const rectangle *r)
{
    char batch[16];
    double size = r->h < 20 ? 10 : 12;
    snprintf(batch, sizeof batch, "%d", s->microbatch);
    hr_app_canvas_font(c, size, true);
    if (s->microbatch >= 0 && hr_app_canvas_text_width(c, batch) + 2 <= r->w)
        hr_app_canvas_text(c, r->x + r->w / 2, r->y + r->h / 2 + size * 0.37,
                           ALIGN_CENTER, on_colour(s->dir), batch);
}

/* A transfer, or the wait before it. */
static void draw_transfer(canvas *c, const hr_span *s, const rectangle *r, bool detail)
{
    if (s->kind == HR_SPAN_TRANSFER) {
        hr_app_canvas_box(c, r->x, r->y, r->w, r->h, detail ? 2 : 0);
        hr_app_canvas_fill(c, hr_app_dir_colour(s->dir), 1);
        if (detail)
            label_transfer(c, s, r);
    } else if (detail && r->w > 2) {
        hr_app_draw_hatched(c, r->x, r->y, r->w, r->h);
    } else {
        hr_app_canvas_box(c, r->x, r->y, r->w, r->h, 0);
        hr_app_canvas_fill(c, 0xD1D5DB, 1);
    }
}

/* What a communication row shows of a span that is no node: in detail below the name of its node. A
 * receive is posted long before it can begin, so its wait says nothing. */
static void draw_on_wire(canvas *c, const hr_span *s, rectangle r, lane_role role,
                         bool detail)
{
    if (role == LANE_RECEIVE && s->kind == HR_SPAN_PEERS)
        return;
    if (role == LANE_COMMUNICATION && detail) {
        r.y += r.h * 0.44;
        r.h = r.h * 0.56 - 3;
    }
    draw_transfer(c, s, &r, detail);
}

static void draw_spans(canvas *c, const hr_lane *lane, lane_role role,
                       const time_axis *a, double y, double height, bool detail,
                       bool nodes)
{
    size_t n = 0;
    const hr_span *spans = hr_lane_spans(lane, &n);
    for (size_t i = 0; i < n; i++) {
        const hr_span *s = &spans[i];
        rectangle r;
        bool is_node = s->kind == HR_SPAN_NODE;
        if (is_node != nodes || s->kind == HR_SPAN_BUSY || !place(s, a, y, height, &r))
            continue;
        if (is_node && detail && role <= LANE_COMMUNICATION)
            draw_node(c, s, &r, role);
        else if (is_node && role == LANE_COMPUTE) {
            hr_app_canvas_box(c, r.x, r.y, r.w, r.h, 0);
            hr_app_canvas_fill(c, hr_app_dir_colour(s->dir), 1);
        } else if (!is_node && role != LANE_COMPUTE) {
            hr_span on_wire = in_its_node(spans, n, i);
            draw_on_wire(c, &on_wire, r, role, detail);
        }
    }
}

void hr_app_draw_row(canvas *c, const hr_timeline *t, int rank, lane_role role,
                     const time_axis *a, double y, double height, bool detail)
{
    hr_app_canvas_box(c, a->x, y, a->width, height, 0);
    hr_app_canvas_fill(c, PANEL, 1);
    cairo_save(c->cr);
    cairo_rectangle(c->cr, a->x, y - 1, a->width, height + 2);
    cairo_clip(c->cr);
    for (int nodes = 1; nodes >= 0; nodes--) /* frames first, what lies in them after */
        for (int i = 0; i < hr_timeline_lanes(t); i++) {
            const hr_lane *lane = hr_timeline_lane_at(t, i);
            if (hr_app_lane_is(lane, rank, role))
                draw_spans(c, lane, role, a, y, height, detail, nodes);
        }
    cairo_restore(c->cr);
}
