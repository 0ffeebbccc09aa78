/* Pictures, from spans and losses made by hand. What can be seen is looked at by people; here: that a whole
 * file of the right kind appears for whatever comes in, the same each time, and that a failure leaves the
 * former one. HEADRACE_KEEP_PICTURES=dir leaves the timeline there to be looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "picture_canvas.h"
#include "picture_loss.h"
#include "picture_timeline.h"
#include "scratch.h"

static hr_timeline *t;

static void add(hr_lane *lane, const char *name, int microbatch, int kind, int dir,
                double from_ms, double to_ms)
{
    hr_lane_add(lane, &(hr_span){.begin_ns = (int64_t)(from_ms * 1e6),
                                 .end_ns = (int64_t)(to_ms * 1e6),
                                 .name = name,
                                 .layer = 0,
                                 .microbatch = (int16_t)microbatch,
                                 .kind = (uint8_t)kind,
                                 .dir = (uint8_t)dir});
}

/* `n` microbatches of one layer on each of `ranks`: backward of one beside forward of the next. */
static void make_timeline(int ranks, int n)
{
    assert_int_equal(hr_timeline_create(4096, &t), HR_OK);
    for (int rank = 0; rank < ranks; rank++) {
        hr_lane *compute, *communication;
        assert_int_equal(hr_timeline_lane(t, rank, "compute", &compute), HR_OK);
        assert_int_equal(hr_timeline_lane(t, rank, "communication", &communication),
                         HR_OK);
        for (int i = 0; i < n; i++) {
            double at = 1000 + 10 * i + 0.3 * rank;
            add(compute, "pre_dispatch_computation", i, HR_SPAN_NODE, HR_DIR_FORWARD,
                at, at + 3);
            add(compute, "kernel", i, HR_SPAN_BUSY, HR_DIR_FORWARD, at, at + 9);
            add(compute, "mlp", i - 1, HR_SPAN_NODE, HR_DIR_BACKWARD, at + 3, at + 7);
            add(compute, "mlp", i - 1, HR_SPAN_NODE, HR_DIR_WGRAD, at + 7, at + 8);
            add(communication, "all_to_all", -1, HR_SPAN_PEERS, HR_DIR_NONE, at + 3,
                at + 3.5);
            add(communication, "all_to_all", -1, HR_SPAN_TRANSFER, HR_DIR_NONE,
                at + 3.5, at + 6);
            add(communication, "moe_dispatch", i, HR_SPAN_NODE, HR_DIR_FORWARD, at + 3,
                at + 6);
        }
    }
}

static void draw(const char *name, const char *title)
{
    picture_timeline p = {
        .timeline = t, .title = title, .link_gbps = 0.25, .link_us = 20};
    assert_int_equal(hr_app_picture_timeline(&p, hr_scratch_path(name)), HR_OK);
}

static void is_png(const char *name, uint32_t least_width)
{
    size_t n;
    uint8_t *bytes = (uint8_t *)hr_scratch_read(hr_scratch_path(name), &n);
    assert_non_null(bytes);
    assert_true(n > 1000);
    assert_memory_equal(bytes, "\x89PNG\r\n\x1a\n", 8);
    uint32_t width = (uint32_t)bytes[16] << 24 | (uint32_t)bytes[17] << 16 |
                     (uint32_t)bytes[18] << 8 | bytes[19];
    assert_true(width >= least_width);
    assert_memory_equal(bytes + n - 8, "IEND", 4);
    free(bytes);
}

static void is_svg(const char *name)
{
    size_t n;
    char *bytes = hr_scratch_read(hr_scratch_path(name), &n);
    assert_non_null(bytes);
    assert_non_null(strstr(bytes, "<svg"));
    assert_non_null(strstr(bytes, "</svg>"));
    free(bytes);
}

static void a_timeline_becomes_svg_and_png(void **state)
{
    (void)state;
    make_timeline(2, 40);
    draw("timeline.svg", "MoE GPT · 2 expert ranks");
    draw("timeline.png", "MoE GPT · 2 expert ranks");
    is_svg("timeline.svg");
    is_png("timeline.png", 1600);
    const char *keep = getenv("HEADRACE_KEEP_PICTURES");
    if (keep) {
        char path[1024];
        picture_timeline p = {.timeline = t, .title = "By hand"};
        snprintf(path, sizeof path, "%s/timeline.png", keep);
        assert_int_equal(hr_app_picture_timeline(&p, path), HR_OK);
    }
    hr_timeline_destroy(t);
}

static void the_same_spans_give_the_same_bytes(void **state)
{
    (void)state;
    size_t n, m;
    make_timeline(2, 4);
    draw("one.png", "x");
    draw("two.png", "x");
    char *a = hr_scratch_read(hr_scratch_path("one.png"), &n);
    char *b = hr_scratch_read(hr_scratch_path("two.png"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
    hr_timeline_destroy(t);
}

static void draw_ends(const char *file, const char *first, const char *last)
{
    hr_lane *compute;
    assert_int_equal(hr_timeline_create(16, &t), HR_OK);
    assert_int_equal(hr_timeline_lane(t, 0, "compute", &compute), HR_OK);
    add(compute, first, 0, HR_SPAN_NODE, HR_DIR_FORWARD, 1, 11);
    add(compute, last, 0, HR_SPAN_NODE, HR_DIR_FORWARD, 11, 21);
    draw(file, "x");
    hr_timeline_destroy(t);
}

static void the_ends_of_a_plan_have_short_names(void **state)
{
    (void)state;
    size_t n, m;
    draw_ends("plan.png", "pre_process", "post_process");
    draw_ends("short.png", "embedding", "loss");
    char *a = hr_scratch_read(hr_scratch_path("plan.png"), &n);
    char *b = hr_scratch_read(hr_scratch_path("short.png"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

static void another_microbatch_changes_the_picture(void **state)
{
    (void)state;
    size_t n, m;
    make_timeline(1, 4);
    draw("four.png", "x");
    hr_timeline_destroy(t);
    make_timeline(1, 5);
    draw("five.png", "x");
    hr_timeline_destroy(t);
    char *a = hr_scratch_read(hr_scratch_path("four.png"), &n);
    char *b = hr_scratch_read(hr_scratch_path("five.png"), &m);
    assert_true(n != m || memcmp(a, b, n) != 0);
    free(a);
    free(b);
}

static void odd_timelines_are_drawn_too(void **state)
{
    (void)state;
    assert_int_equal(hr_timeline_create(64, &t), HR_OK);
    draw("nothing.svg", NULL);
    hr_lane *lane;
    assert_int_equal(hr_timeline_lane(t, 3, "compute", &lane), HR_OK);
    draw("no_span.svg", "");
    add(lane, "mlp", 0, HR_SPAN_NODE, HR_DIR_FORWARD, 5, 5); /* no duration */
    draw("point.svg", "x");
    for (int i = 0; i < 60; i++) /* all at one time: nothing to look closer at */
        add(lane, "mlp", 0, HR_SPAN_NODE, 77, 5, 6);
    draw("stack.png", "x");
    is_png("stack.png", 1600);
    hr_timeline_destroy(t);
    make_timeline(12, 3); /* more ranks than fit */
    draw("ranks.png",
         "a title that is very long, longer than any page is wide, so that it "
         "runs into the legend and past the end of the picture and beyond it");
    picture_timeline p = {.timeline = t, .title = "part", .begin_ns = 1, .end_ns = 2};
    assert_int_equal(hr_app_picture_timeline(&p, hr_scratch_path("outside.svg")),
                     HR_OK);
    is_svg("outside.svg");
    hr_timeline_destroy(t);
}

static void losses_become_svg_and_png(void **state)
{
    (void)state;
    loss_point train[200], validation[4];
    for (int i = 0; i < 200; i++)
        train[i] = (loss_point){i + 1, 2 + 3 * exp(-i / 30.0)};
    for (int i = 0; i < 4; i++)
        validation[i] = (loss_point){50 * (i + 1), 2.1 + 3 * exp(-50 * (i + 1) / 30.0)};
    picture_loss p = {"Loss", "by hand", train, validation, 200, 4, 3.3};
    assert_int_equal(hr_app_picture_loss(&p, hr_scratch_path("loss.svg")), HR_OK);
    assert_int_equal(hr_app_picture_loss(&p, hr_scratch_path("loss.png")), HR_OK);
    is_svg("loss.svg");
    is_png("loss.png", 1000);
}

static void odd_losses_are_drawn_too(void **state)
{
    (void)state;
    loss_point p[3] = {{1, NAN}, {2, INFINITY}, {3, 2}};
    picture_loss none = {0}, one = {"x", NULL, p + 2, p + 2, 1, 1, 0};
    picture_loss mixed = {"x", NULL, p, p, 3, 3, 0}, bad = {"x", NULL, p, p, 2, 2, 0};
    const char *path = hr_scratch_path("odd.svg");
    assert_int_equal(hr_app_picture_loss(&none, path), HR_OK);
    assert_int_equal(hr_app_picture_loss(&one, path), HR_OK);
    assert_int_equal(hr_app_picture_loss(&mixed, path), HR_OK);
    assert_int_equal(hr_app_picture_loss(&bad, path), HR_OK);
    is_svg("odd.svg");
}

/* How many lines the paths of an SVG have, and the highest point (least y) that one near `x` ends in. */
static size_t lines_of(const char *name, double x, double *top)
{
    size_t n, lines = 0;
    char *bytes = hr_scratch_read(hr_scratch_path(name), &n);
    *top = INFINITY;
    for (char *p = bytes; (p = strstr(p, "L ")) != NULL; lines++) {
        double to = strtod(p + 2, &p), y = strtod(p, &p);
        if (fabs(to - x) < 1)
            *top = fmin(*top, y);
    }
    free(bytes);
    return lines;
}

/* Neither a file that no viewer opens nor a window of means for each of a million steps. */
static void a_long_run_is_thinned_and_keeps_its_peaks(void **state)
{
    (void)state;
    enum { LONG = 1000000, SHORT = 3000 };
    double top;
    loss_point *p = malloc(LONG * sizeof *p);
    assert_non_null(p);
    for (int i = 0; i < LONG; i++)
        p[i] = (loss_point){i + 1, 2 + 0.01 * (i * 7919L % 101)};
    p[499999].loss = 8.9;
    picture_loss pic = {.train = p, .n_train = LONG};
    assert_int_equal(hr_app_picture_loss(&pic, hr_scratch_path("long.svg")), HR_OK);
    assert_in_range(lines_of("long.svg", 524, &top), 5000, 13000);
    assert_true(top < 200); /* in the middle, far over the rest, which is at 500 */
    pic.n_train = SHORT;
    assert_int_equal(hr_app_picture_loss(&pic, hr_scratch_path("short.svg")), HR_OK);
    assert_in_range(lines_of("short.svg", 0, &top), SHORT - 100, 2 * SHORT); /* all */
    free(p);
}

static void a_failure_leaves_the_former_picture(void **state)
{
    (void)state;
    picture_loss p = {0};
    assert_int_equal(hr_app_picture_loss(&p, "/nonexistent/loss.svg"), HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), "/nonexistent/loss.svg"));
    assert_int_equal(mkdir(hr_scratch_path("shut"), 0777), 0);
    hr_scratch_write("shut/loss.svg", "former", 6);
    assert_int_equal(chmod(hr_scratch_path("shut"), 0555), 0);
    if (!hr_scratch_as_nobody(true))
        skip();
    hr_status st = hr_app_picture_loss(&p, hr_scratch_path("shut/loss.svg"));
    assert_true(hr_scratch_as_nobody(false));
    assert_int_equal(chmod(hr_scratch_path("shut"), 0777), 0);
    assert_int_equal(st, HR_ERR_IO);
    size_t n;
    char *bytes = hr_scratch_read(hr_scratch_path("shut/loss.svg"), &n);
    assert_string_equal(bytes, "former");
    free(bytes);
}

static void ticks_are_round(void **state)
{
    (void)state;
    assert_float_equal(hr_app_tick_step(10, 10), 1, 1e-12);
    assert_float_equal(hr_app_tick_step(11, 10), 2, 1e-12);
    assert_float_equal(hr_app_tick_step(0.0043, 10), 0.0005, 1e-12);
    assert_float_equal(hr_app_tick_step(99, 10), 10, 1e-12);
    assert_float_equal(hr_app_tick_step(0, 10), 1, 1e-12);
    assert_int_equal(hr_app_tick_digits(0.0005), 4);
    assert_int_equal(hr_app_tick_digits(20), 0);
}

static int teardown(void **state)
{
    hr_app_canvas_fini();
    return hr_scratch_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timeline_becomes_svg_and_png),
        cmocka_unit_test(the_same_spans_give_the_same_bytes),
        cmocka_unit_test(the_ends_of_a_plan_have_short_names),
        cmocka_unit_test(another_microbatch_changes_the_picture),
        cmocka_unit_test(odd_timelines_are_drawn_too),
        cmocka_unit_test(losses_become_svg_and_png),
        cmocka_unit_test(odd_losses_are_drawn_too),
        cmocka_unit_test(a_long_run_is_thinned_and_keeps_its_peaks),
        cmocka_unit_test(a_failure_leaves_the_former_picture),
        cmocka_unit_test(ticks_are_round),
    };
    return cmocka_run_group_tests(tests, hr_scratch_setup, teardown);
}
