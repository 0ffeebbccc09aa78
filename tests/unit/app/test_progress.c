/* What a run shows, with a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"

static int64_t clock_ns;
static char *text;
static size_t length;
static FILE *to;
static progress *p;

static int64_t now(void)
{
    return clock_ns;
}

static void start(int terminal, int64_t first, int64_t steps, int columns)
{
    clock_ns = 0;
    to = open_memstream(&text, &length);
    assert_non_null(to);
    progress_opts o = {.to = to,
                       .first = first,
                       .steps = steps,
                       .terminal = terminal,
                       .columns = columns,
                       .now_ns = now};
    assert_int_equal(hr_app_progress_create(&o, &p), HR_OK);
}

static void finish(void)
{
    hr_app_progress_destroy(p);
    fclose(to);
}

static void step(int64_t n)
{
    progress_tick t = {n, 2.5, 12345, 0.93, -1};
    hr_app_progress_step(p, &t);
}

static int lines(void)
{
    int n = 0;
    for (const char *c = text; *c; c++)
        n += *c == '\n';
    return n;
}

static void a_line_comes_each_tenth_of_the_steps(void **state)
{
    (void)state;
    start(0, 0, 1000, 0);
    for (int i = 1; i <= 1000; i++)
        step(i);
    finish();
    assert_int_equal(lines(), 11); /* the first step, and ten tenths */
    assert_null(strchr(text, '\r'));
    assert_null(strchr(text, '\x1b'));
    assert_non_null(
        strstr(text, "step 1000/1000  loss 2.500  12345 tok/s  hidden  93%"));
    free(text);
}

static void a_line_comes_every_five_seconds(void **state)
{
    (void)state;
    start(0, 0, 1000000, 0);
    for (int i = 1; i <= 60; i++) {
        clock_ns += INT64_C(1000000000);
        step(i);
    }
    finish();
    assert_int_equal(lines(), 12);
    free(text);
}

static void time_left_follows_from_the_pace_of_this_run(void **state)
{
    (void)state;
    start(0, 100, 200, 0); /* resumed after 100 steps */
    clock_ns = INT64_C(20000000000);
    step(110);
    finish();
    assert_non_null(strstr(text, "left 3:00"));
    free(text);
}

static void the_bar_is_redrawn_in_place_and_fits_the_terminal(void **state)
{
    (void)state;
    static const int widths[] = {200, 80, 40};
    for (int w = 0; w < 3; w++) {
        start(1, 0, 100, widths[w]);
        step(50);
        fflush(to);
        assert_int_equal(strncmp(text, "\r\x1b[K", 4), 0);
        int cells = 0; /* characters, not bytes */
        for (const char *c = text + 4; *c; c++)
            cells += (*c & 0xc0) != 0x80;
        assert_true(cells < widths[w]);
        assert_int_equal(lines(), 0);
        finish();
        assert_int_equal(lines(), 1); /* the cursor is left on a fresh line */
        free(text);
    }
}

static void a_note_stands_above_the_bar(void **state)
{
    (void)state;
    start(1, 0, 100, 80);
    step(50);
    hr_app_progress_note(p, "validation loss %.2f", 2.25);
    step(51); /* drawn at once though no time has passed */
    finish();
    const char *note = strstr(text, "\r\x1b[Kvalidation loss 2.25\n");
    assert_non_null(note);
    assert_non_null(strstr(note, "step 51/100"));
    free(text);
}

static void no_share_is_shown_where_none_was_measured(void **state)
{
    (void)state;
    start(0, 0, 10, 0);
    progress_tick t = {10, 2.5, 100, -1, 0};
    hr_app_progress_step(p, &t);
    finish();
    assert_null(strstr(text, "hidden"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_comes_each_tenth_of_the_steps),
        cmocka_unit_test(a_line_comes_every_five_seconds),
        cmocka_unit_test(time_left_follows_from_the_pace_of_this_run),
        cmocka_unit_test(the_bar_is_redrawn_in_place_and_fits_the_terminal),
        cmocka_unit_test(a_note_stands_above_the_bar),
        cmocka_unit_test(no_share_is_shown_where_none_was_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
