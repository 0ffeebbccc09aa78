/* What the pictures share: a cairo surface that becomes a file whole or not at all, text, colours, ticks.
 * Coordinates are points of the SVG; a PNG has two pixels for each.
 */
#ifndef HR_APP_PICTURE_CANVAS_H
#define HR_APP_PICTURE_CANVAS_H
#include "headrace/base.h"

#include <cairo.h>

typedef struct canvas {
    cairo_t *cr;
    cairo_surface_t *surface;
    hr_file *file;
    double width, height;
    bool png;
} canvas;

typedef enum text_align { ALIGN_LEFT, ALIGN_CENTER, ALIGN_RIGHT } text_align;

/* 0xRRGGBB */
typedef uint32_t colour;
enum {
    INK = 0x1F2937,
    INK_SOFT = 0x6B7280,
    GRID = 0xE5E7EB,
    PAPER = 0xFFFFFF,
    PANEL = 0xF8FAFC
};

/* A white page. `path` decides between PNG and SVG. After a failure there is nothing to end. */
hr_status hr_app_canvas_begin(canvas *c, const char *path, double width, double height);
/* Writes the file. Consumes the canvas, on failure too. */
hr_status hr_app_canvas_end(canvas *c);

/* Gives back what cairo and fontconfig keep for the next picture: for the end of a program, so that a
 * leak checker has nothing to say. No canvas may be open. */
void hr_app_canvas_fini(void);

void hr_app_canvas_colour(canvas *c, colour rgb, double alpha);
void hr_app_canvas_box(canvas *c, double x, double y, double w, double h,
                       double radius);
void hr_app_canvas_fill(canvas *c, colour rgb, double alpha);
void hr_app_canvas_stroke(canvas *c, colour rgb, double alpha, double width);
void hr_app_canvas_line(canvas *c, double x0, double y0, double x1, double y1);

/* Font of the text calls that follow. */
void hr_app_canvas_font(canvas *c, double size, bool bold);
double hr_app_canvas_text_width(canvas *c, const char *text);
/* `y` is the base line. Returns the width. */
double hr_app_canvas_text(canvas *c, double x, double y, text_align align, colour rgb,
                          const char *text);

/* The distance of round ticks (1, 2 or 5 times a power of ten): at most `most` of them in `range`. */
double hr_app_tick_step(double range, int most);
/* Digits behind the point that ticks of this distance want. */
int hr_app_tick_digits(double step);

#endif
