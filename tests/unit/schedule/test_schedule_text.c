/* The text forms of a schedule: reading, writing, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/schedule.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const char full[] = "headrace schedule 1\n"
                           "ranks 2\n"
                           "stages 4\n"
                           "microbatches 2\n"
                           "placement map 0 1 1 0\n"
                           "comm 0.1\n"
                           "latency 0.05\n"
                           "pair-discount 12\n"
                           "cost 0 1 1.2 0.8\n"
                           "cost 1 1 1.2 0.8\n"
                           "cost 2 1 1.2 0.000001\n"
                           "cost 3 1000000 1.2 0.8\n"
                           "bytes all 30 20 10\n"
                           "recompute 1 3\n"
                           "rank 0 0F0 0F1 3F0 (3F1;3B0) 3I1 3W1 0B0 0B1\n"
                           "rank 1 1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1\n";

static void text_is_read_and_written_without_change(void **state)
{
    hr_schedule *s = NULL;
    char *again = NULL;
    assert_int_equal(hr_schedule_parse(full, strlen(full), &s), HR_OK);
    assert_int_equal(hr_schedule_print(s, &again), HR_OK);
    assert_string_equal(again, full);
    free(again);
    hr_schedule_destroy(s);
}

static void each_placement_and_kind_survives(void **state)
{
    static const char *const texts[] = {
        "ranks 2\nstages 4\nmicrobatches 2\nplacement loop\nforward-only\n",
        "ranks 2\nstages 2\nmicrobatches 4\nplacement loop\npieces 2\n",
        "ranks 2\nstages 4\nmicrobatches 2\nplacement v\n",
        "ranks 2\nstages 2\nmicrobatches 2\nplacement bidirectional\n",
        "ranks 2\nstages 2\nmicrobatches 2\nplacement map 1 -\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[400];
        char *again = NULL;
        hr_schedule *s = NULL;
        snprintf(text, sizeof text, "headrace schedule 1\n%s%s", texts[i],
                 "comm 0\npair-discount 0\ncost all 1 1 1\nbytes all 1 1 0\n"
                 "rank 0 0F0\nrank 1\n");
        assert_int_equal(hr_schedule_parse(text, strlen(text), &s), HR_OK);
        assert_int_equal(hr_schedule_print(s, &again), HR_OK);
        assert_string_equal(again, text);
        free(again);
        hr_schedule_destroy(s);
    }
}

/* Replaces `from` in the full text and reads it. */
static hr_status read_changed(const char *from, const char *to)
{
    char text[1024];
    const char *at = strstr(full, from);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - full), full, to,
             at + strlen(from));
    hr_schedule *s = (hr_schedule *)&text;
    hr_status st = hr_schedule_parse(text, strlen(text), &s);
    if (st < 0)
        assert_null(s);
    hr_schedule_destroy(s);
    return st;
}

static void a_wrong_field_is_named_with_its_line(void **state)
{
    assert_int_equal(read_changed("3B0", "3X0"), HR_ERR_PARSE);
    assert_string_equal(hr_last_error(),
                        "line 15, field 6 '(3F1;3X0)': no such action");
    assert_int_equal(read_changed("3B0", "4B0"), HR_ERR_PARSE);
    assert_int_equal(read_changed("3B0", "3B2"), HR_ERR_PARSE);
    assert_int_equal(read_changed("3B0)", "3B0)x"), HR_ERR_PARSE);
    assert_int_equal(read_changed("3B0)", "3B0"), HR_ERR_PARSE);
    assert_int_equal(read_changed("rank 1", "rank 0"), HR_ERR_PARSE);
    assert_int_equal(read_changed("0.000001", "0.0000001"), HR_ERR_PARSE);
    assert_int_equal(read_changed("1000000", "1000001"), HR_ERR_PARSE);
    assert_int_equal(read_changed("30 20 10", "30 31 10"), HR_ERR_INVALID);
    assert_int_equal(read_changed("map 0 1 1 0", "map 0 1 1"), HR_ERR_PARSE);
    assert_int_equal(read_changed("map 0 1 1 0", "map 0 1 2 0"), HR_ERR_INVALID);
    assert_int_equal(read_changed("comm", "cone"), HR_ERR_PARSE);
    assert_int_equal(read_changed("comm", "pieces 0\ncomm"), HR_ERR_PARSE);
    assert_int_equal(read_changed("comm", "pieces 3\ncomm"), HR_ERR_PARSE);
    assert_int_equal(read_changed("microbatches 2", "microbatches 1000000000"),
                     HR_ERR_INVALID);
}

static void a_text_that_stops_anywhere_is_refused(void **state)
{
    for (size_t n = 0; n < sizeof full - sizeof " 2F1 2B0 1B0 2B1 1B1\n"; n++) {
        hr_schedule *s = NULL;
        hr_status st = hr_schedule_parse(full, n, &s);
        if (st >= 0) /* the last rank may be shorter */
            assert_non_null(memmem(full, n, "rank 1", 6));
        hr_schedule_destroy(s);
    }
}

static hr_schedule *csv(const char *text)
{
    hr_schedule *s = NULL;
    if (hr_schedule_parse_csv(text, strlen(text), &s) < 0)
        assert_null(s);
    return s;
}

static void csv_tells_sizes_and_placement(void **state)
{
    hr_schedule_shape shape;
    hr_schedule *s = csv("0F0, ,3F0,(3B0;0F1)OVERLAP_F_B,0B0\r\n,1F0,2F0,2B0,1B0\n");
    assert_non_null(s);
    hr_schedule_get_shape(s, &shape);
    assert_int_equal(shape.ranks, 2);
    assert_int_equal(shape.stages, 4);
    assert_int_equal(shape.microbatches, 2);
    assert_int_equal(shape.placement, HR_PLACEMENT_V);
    char *text = NULL;
    assert_int_equal(hr_schedule_print_csv(s, &text), HR_OK);
    assert_string_equal(text,
                        "0F0,3F0,(3B0;0F1)OVERLAP_F_B,0B0\r\n1F0,2F0,2B0,1B0\r\n");
    free(text);
    hr_schedule_destroy(s);
}

static void csv_ignores_nothing(void **state)
{
    static const char *const bad[] = {"0F0x",
                                      "0F",
                                      "0BW1",
                                      "F0",
                                      "0F0,0UNSHARD1",
                                      "0F0 0F1",
                                      "(0F0;0B1)",
                                      "()OVERLAP_F_B",
                                      "\"0F0\"",
                                      "0F0\t",
                                      "",
                                      ",,",
                                      "65535F0",
                                      "0F0\n0B0",
                                      "(0F0;0SEND_F0)OVERLAP_F_B"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        hr_error_clear();
        hr_schedule *s = csv(bad[i]);
        if (s != NULL)
            fail_msg("'%s' was read", bad[i]);
        assert_true(strlen(hr_last_error()) > 0);
    }
}

static void csv_refuses_bidirectional_schedules(void **state)
{
    hr_schedule *s = NULL;
    char *text = NULL;
    assert_int_equal(hr_schedule_create(
                         &(hr_schedule_shape){HR_INIT(hr_schedule_shape), .ranks = 2,
                                              .stages = 2, .microbatches = 4,
                                              .placement = HR_PLACEMENT_BIDIRECTIONAL},
                         &s),
                     HR_OK);
    assert_int_equal(hr_schedule_rank_of(s, 0, 1), 0);
    assert_int_equal(hr_schedule_rank_of(s, 0, 2), 1);
    assert_int_equal(hr_schedule_print_csv(s, &text), HR_ERR_UNSUPPORTED);
    assert_string_equal(hr_last_reason(), "csv_bidirectional");
    hr_schedule_destroy(s);
}

static void append_refuses_what_cannot_be(void **state)
{
    hr_schedule *s = csv("0F0,0F1\n1F0,1F1\n");
    hr_action a = {.stage = 1, .microbatch = 1, .kind = HR_ACTION_F};
    assert_int_equal(hr_schedule_append(s, 1, &a, 1), HR_OK);
    assert_int_equal(hr_schedule_append(s, 2, &a, 1), HR_ERR_INVALID);
    a.microbatch = 2;
    assert_int_equal(hr_schedule_append(s, 1, &a, 1), HR_ERR_INVALID);
    a = (hr_action){.stage = 2, .kind = HR_ACTION_F};
    assert_int_equal(hr_schedule_append(s, 1, &a, 1), HR_ERR_INVALID);
    a = (hr_action){.stage = 1, .kind = 99};
    assert_int_equal(hr_schedule_append(s, 1, &a, 1), HR_ERR_INVALID);
    hr_schedule_destroy(s);
}

/* 100 MB of nothing: the pages are never touched, as the text is refused unread. */
static void a_text_of_100_mb_is_refused_unread(void **state)
{
    size_t bytes = 100000000;
    hr_schedule *s = (hr_schedule *)&bytes;
    char *text = calloc(bytes, 1);
    assert_non_null(text);
    assert_int_equal(hr_schedule_parse(text, bytes, &s), HR_ERR_PARSE);
    assert_null(s);
    assert_string_equal(hr_last_reason(), "text_size");
    assert_int_equal(hr_schedule_parse_csv(text, bytes, &s), HR_ERR_PARSE);
    assert_null(s);
    assert_string_equal(hr_last_error(),
                        "100000000 bytes of schedule: at most 67108864 are read");
    free(text);
}

static void counts_of_a_billion_are_refused_with_a_sentence(void **state)
{
    static const char *const heads[] = {
        "ranks 1000000000\nstages 4\nmicrobatches 2\nplacement loop\n",
        "ranks 2\nstages 1000000000\nmicrobatches 2\nplacement loop\n",
        "ranks 2\nstages 1000000000\nmicrobatches 2\nplacement map 0 1\n",
        "ranks 2\nstages 4\nmicrobatches 1000000000\nplacement loop\n",
        "ranks 65535\nstages 65535\nmicrobatches 65535\nplacement loop\n",
        "ranks 1000000000000000000000\nstages 4\nmicrobatches 2\nplacement loop\n"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        char text[200];
        hr_schedule *s = NULL;
        hr_error_clear();
        snprintf(text, sizeof text, "headrace schedule 1\n%srank 0 0F0\n", heads[i]);
        assert_true(hr_schedule_parse(text, strlen(text), &s) < 0);
        assert_true(strlen(hr_last_error()) > 20);
    }
    static const char *const fields[] = {"0F1000000000", "1000000000F0", "65535F0",
                                         "65534F65534",
                                         "99999999999999999999F99999999999999999999"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        hr_error_clear();
        assert_null(csv(fields[i]));
        assert_true(strlen(hr_last_error()) > 20);
    }
}

/* The most cells, and one action: what is missing is said, and a run of it needs no more memory
 * than what stands in it. */
static void one_action_of_many_is_checked_and_run(void **state)
{
    struct rusage before;
    struct rusage after;
    hr_figures *figures = NULL;
    getrusage(RUSAGE_SELF, &before);
    hr_schedule *s = csv("0F67108863\n");
    assert_non_null(s);
    assert_int_equal(hr_schedule_check(s, NULL, NULL), HR_ERR_INVALID);
    assert_string_equal(hr_last_error(), "0F0 is missing on rank 0");
    assert_int_equal(hr_schedule_simulate(s, NULL, &figures), HR_OK);
    assert_true(figures->makespan == HR_TICKS);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 256 << 10);
    hr_figures_destroy(figures);
    hr_schedule_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_read_and_written_without_change),
        cmocka_unit_test(each_placement_and_kind_survives),
        cmocka_unit_test(a_wrong_field_is_named_with_its_line),
        cmocka_unit_test(a_text_that_stops_anywhere_is_refused),
        cmocka_unit_test(csv_tells_sizes_and_placement),
        cmocka_unit_test(csv_ignores_nothing),
        cmocka_unit_test(csv_refuses_bidirectional_schedules),
        cmocka_unit_test(append_refuses_what_cannot_be),
        cmocka_unit_test(a_text_of_100_mb_is_refused_unread),
        cmocka_unit_test(counts_of_a_billion_are_refused_with_a_sentence),
        cmocka_unit_test(one_action_of_many_is_checked_and_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
