/* Schedules as pictures. What can be seen is looked at by people; here: that the times drawn are those of
 * the simulator, and that a whole file of the right kind appears. HEADRACE_KEEP_PICTURES=dir leaves
 * some there to be looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "picture_canvas.h"
#include "picture_schedule.h"
#include "plan_lanes.h"
#include "scratch.h"

static hr_schedule *s;
static hr_figures *f;
static slot_times t;

static void simulate(void)
{
    hr_simulate_opts opts = {HR_INIT(hr_simulate_opts), .times = true, .path = true};
    assert_int_equal(hr_schedule_simulate(s, &opts, &f), HR_OK);
    assert_int_equal(hr_app_slot_times_make(s, f, &t), HR_OK);
}

static void make(const char *name, int ranks, int microbatches, int64_t comm,
                 int discount)
{
    hr_stage_cost cost = {.f = HR_TICKS, .i = 3 * HR_TICKS, .w = 2 * HR_TICKS};
    hr_generate_opts o = {HR_INIT(hr_generate_opts), .ranks = ranks,
                          .microbatches = microbatches, .cost = &cost, .comm = comm};
    assert_int_equal(hr_schedule_generate(name, &o, &s), HR_OK);
    cost.recompute = true;
    assert_int_equal(hr_schedule_set_cost(s, 0, &cost), HR_OK);
    assert_int_equal(hr_schedule_set_comm(s, comm, discount), HR_OK);
    simulate();
}

static void drop(void)
{
    hr_app_slot_times_fini(&t);
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
}

static void draw(const char *path)
{
    picture_schedule p = {s, &t, f, 1, "a schedule", "its sizes"};
    assert_int_equal(hr_app_picture_schedule(&p, path), HR_OK);
}

static void slots_run_when_the_simulator_runs_them(void **state)
{
    (void)state;
    const char *name;
    for (int i = 0; (name = hr_schedule_name(i)); i++) {
        make(name, 4, 8, HR_TICKS / 4, 30);
        assert_int_equal(t.makespan, f->makespan);
        for (int k = 0; k < t.ranks; k++) {
            const timed_slot *slot = &t.slot[t.first[k]];
            int64_t busy = 0;
            for (size_t n = 0; n < t.n[k]; n++) {
                busy += slot[n].end - slot[n].begin;
                assert_true(n == 0 || slot[n].begin >= slot[n - 1].end);
            }
            assert_int_equal(busy, f->rank[k].busy);
            assert_int_equal(slot[0].begin, f->rank[k].first);
            assert_int_equal(slot[t.n[k] - 1].end, f->rank[k].last);
        }
        drop();
    }
}

static void every_schedule_becomes_a_picture(void **state)
{
    (void)state;
    const char *name, *keep = getenv("HEADRACE_KEEP_PICTURES");
    for (int i = 0; (name = hr_schedule_name(i)); i++) {
        size_t n;
        char path[1024];
        make(name, 4, 8, 0, 0);
        draw(hr_scratch_path("s.svg"));
        char *svg = hr_scratch_read(hr_scratch_path("s.svg"), &n);
        assert_non_null(strstr(svg, "</svg>"));
        free(svg);
        snprintf(path, sizeof path, "%s/%s.png", keep ? keep : "", name);
        if (keep)
            draw(path);
        drop();
    }
}

static void a_schedule_of_several_bands_becomes_a_png(void **state)
{
    (void)state;
    size_t n;
    make("dualpipe", 8, 32, 0, 0);
    draw(hr_scratch_path("s.png"));
    drop();
    char *png = hr_scratch_read(hr_scratch_path("s.png"), &n);
    assert_memory_equal(png, "\x89PNG\r\n\x1a\n", 8);
    assert_memory_equal(png + n - 8, "IEND", 4);
    free(png);
}

static void another_order_changes_the_picture(void **state)
{
    (void)state;
    size_t n, m;
    make("gpipe", 2, 4, 0, 0);
    draw(hr_scratch_path("one.png"));
    drop();
    make("1f1b", 2, 4, 0, 0);
    draw(hr_scratch_path("two.png"));
    drop();
    char *a = hr_scratch_read(hr_scratch_path("one.png"), &n);
    char *b = hr_scratch_read(hr_scratch_path("two.png"), &m);
    assert_true(n != m || memcmp(a, b, n) != 0);
    free(a);
    free(b);
}

static void many_ranks_and_no_time_at_all_are_drawn(void **state)
{
    (void)state;
    make("1f1b", 512, 2, 0, 0);
    draw(hr_scratch_path("many.png"));
    drop();
    make("1f1b", 2, 2, 0, 0);
    hr_app_slot_times_fini(&t);
    hr_figures_destroy(f);
    assert_int_equal(hr_schedule_set_cost(s, -1, &(hr_stage_cost){.f = 0}), HR_OK);
    simulate();
    assert_int_equal(t.shortest, 0);
    draw(hr_scratch_path("none.svg"));
    assert_int_equal(hr_app_plan_lanes(&t, 80, stdout), HR_OK);
    drop();
}

static void slots_of_the_critical_path_are_marked_and_no_others(void **state)
{
    (void)state;
    const char *name;
    for (int i = 0; (name = hr_schedule_name(i)); i++) {
        make(name, 4, 8, HR_TICKS / 4, 30);
        size_t marked = 0;
        for (int k = 0; k < t.ranks; k++)
            for (size_t n = 0; n < t.n[k]; n++)
                marked += t.slot[t.first[k] + n].critical;
        assert_int_equal(marked, f->path_steps);
        drop();
    }
}

static void what_communicates_is_no_slot(void **state)
{
    (void)state;
    hr_schedule *lowered = NULL;
    make("1f1b", 2, 4, HR_TICKS / 4, 0);
    size_t slots = t.n[0] + t.n[1];
    assert_int_equal(hr_schedule_lower(s, NULL, &lowered), HR_OK);
    drop();
    s = lowered;
    simulate();
    assert_int_equal(t.n[0] + t.n[1], slots);
    draw(hr_scratch_path("lowered.svg"));
    drop();
}

static void a_picture_that_cannot_be_written_is_an_error(void **state)
{
    (void)state;
    make("1f1b", 2, 2, 0, 0);
    picture_schedule p = {s, &t, f, 1, "a schedule", "its sizes"};
    assert_int_equal(hr_app_picture_schedule(&p, hr_scratch_path("no/folder/x.png")),
                     HR_ERR_IO);
    drop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_run_when_the_simulator_runs_them),
        cmocka_unit_test(every_schedule_becomes_a_picture),
        cmocka_unit_test(a_schedule_of_several_bands_becomes_a_png),
        cmocka_unit_test(another_order_changes_the_picture),
        cmocka_unit_test(many_ranks_and_no_time_at_all_are_drawn),
        cmocka_unit_test(slots_of_the_critical_path_are_marked_and_no_others),
        cmocka_unit_test(what_communicates_is_no_slot),
        cmocka_unit_test(a_picture_that_cannot_be_written_is_an_error),
    };
    int failed = cmocka_run_group_tests(tests, hr_scratch_setup, hr_scratch_teardown);
    hr_app_canvas_fini();
    return failed;
}
