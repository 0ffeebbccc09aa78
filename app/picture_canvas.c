/* Pictures by cairo. The bytes go through a whole file, so a full disk leaves the former picture. */
#include "picture_canvas.h"
#include "app_try.h"

#include <cairo-svg.h>
#include <fontconfig/fontconfig.h>
#include <math.h>
#include <string.h>

enum { PNG_SCALE = 2 };

static cairo_status_t put_bytes(void *file, const unsigned char *bytes, unsigned n)
{
    return fwrite(bytes, 1, n, hr_file_stream(file)) == n ? CAIRO_STATUS_SUCCESS
                                                          : CAIRO_STATUS_WRITE_ERROR;
}

hr_status hr_app_canvas_begin(canvas *c, const char *path, double width, double height)
{
    const char *dot = strrchr(path, '.');
    *c = (canvas){.width = width, .height = height};
    c->png = dot && strcmp(dot, ".png") == 0;
    APP_TRY(hr_file_begin(path, &c->file));
    if (c->png)
        c->surface =
            cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(width * PNG_SCALE),
                                       (int)ceil(height * PNG_SCALE));
    else
        c->surface =
            cairo_svg_surface_create_for_stream(put_bytes, c->file, width, height);
    c->cr = cairo_create(c->surface);
    if (cairo_status(c->cr) != CAIRO_STATUS_SUCCESS) {
        hr_status st = hr_fail(HR_ERR_NOMEM, "picture", "cannot draw '%s': %s", path,
                               cairo_status_to_string(cairo_status(c->cr)));
        cairo_destroy(c->cr);
        cairo_surface_destroy(c->surface);
        hr_file_discard(c->file);
        return st;
    }
    if (c->png)
        cairo_scale(c->cr, PNG_SCALE, PNG_SCALE);
    hr_app_canvas_colour(c, PAPER, 1);
    cairo_paint(c->cr);
    return HR_OK;
}

hr_status hr_app_canvas_end(canvas *c)
{
    cairo_status_t bad = cairo_status(c->cr);
    cairo_destroy(c->cr);
    if (c->png && bad == CAIRO_STATUS_SUCCESS)
        bad = cairo_surface_write_to_png_stream(c->surface, put_bytes, c->file);
    cairo_surface_finish(c->surface); /* an SVG is written here */
    if (bad == CAIRO_STATUS_SUCCESS)
        bad = cairo_surface_status(c->surface);
    cairo_surface_destroy(c->surface);
    if (bad == CAIRO_STATUS_SUCCESS || bad == CAIRO_STATUS_WRITE_ERROR)
        return hr_file_commit(c->file); /* which knows what a write met */
    hr_file_discard(c->file);
    return hr_fail(HR_ERR_NOMEM, "picture", "cannot draw: %s",
                   cairo_status_to_string(bad));
}

void hr_app_canvas_fini(void)
{
    cairo_debug_reset_static_data();
    FcFini();
}

void hr_app_canvas_colour(canvas *c, colour rgb, double alpha)
{
    cairo_set_source_rgba(c->cr, (rgb >> 16 & 255) / 255.0, (rgb >> 8 & 255) / 255.0,
                          (rgb & 255) / 255.0, alpha);
}

void hr_app_canvas_box(canvas *c, double x, double y, double w, double h, double radius)
{
    double r = fmin(radius, fmin(w, h) / 2);
    if (r < 0.5) {
        cairo_rectangle(c->cr, x, y, w, h);
        return;
    }
    cairo_new_sub_path(c->cr);
    cairo_arc(c->cr, x + w - r, y + r, r, -M_PI_2, 0);
    cairo_arc(c->cr, x + w - r, y + h - r, r, 0, M_PI_2);
    cairo_arc(c->cr, x + r, y + h - r, r, M_PI_2, M_PI);
    cairo_arc(c->cr, x + r, y + r, r, M_PI, 3 * M_PI_2);
    cairo_close_path(c->cr);
}

void hr_app_canvas_fill(canvas *c, colour rgb, double alpha)
{
    hr_app_canvas_colour(c, rgb, alpha);
    cairo_fill(c->cr);
}

void hr_app_canvas_stroke(canvas *c, colour rgb, double alpha, double width)
{
    hr_app_canvas_colour(c, rgb, alpha);
    cairo_set_line_width(c->cr, width);
    cairo_stroke(c->cr);
}

void hr_app_canvas_line(canvas *c, double x0, double y0, double x1, double y1)
{
    cairo_move_to(c->cr, x0, y0);
    cairo_line_to(c->cr, x1, y1);
}

void hr_app_canvas_font(canvas *c, double size, bool bold)
{
    cairo_select_font_face(c->cr, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c->cr, size);
}

double hr_app_canvas_text_width(canvas *c, const char *text)
{
    cairo_text_extents_t extents;
    cairo_text_extents(c->cr, text, &extents);
    return extents.x_advance;
}

double hr_app_canvas_text(canvas *c, double x, double y, text_align align, colour rgb,
                          const char *text)
{
    double width = hr_app_canvas_text_width(c, text);
    if (align == ALIGN_CENTER)
        x -= width / 2;
    else if (align == ALIGN_RIGHT)
        x -= width;
    hr_app_canvas_colour(c, rgb, 1);
    cairo_move_to(c->cr, x, y);
    cairo_show_text(c->cr, text);
    return width;
}

double hr_app_tick_step(double range, int most)
{
    if (!(range > 0) || !isfinite(range))
        return 1;
    double power = pow(10, floor(log10(range / most)));
    static const double steps[] = {1, 2, 5, 10};
    for (int i = 0; i < 3; i++)
        if (range / (power * steps[i]) <= most)
            return power * steps[i];
    return power * 10;
}

int hr_app_tick_digits(double step)
{
    int digits = (int)ceil(-log10(step) - 1e-9);
    return digits < 0 ? 0 : digits > 9 ? 9 : digits;
}
