/* The log: what reaches the sink, and with which rank. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/base.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct heard {
    int lines, inside, overlapped;
    hr_log_level level;
    int rank;
    char text[2048];
};

static void hear(void *ctx, hr_log_level level, int rank, const char *line)
{
    struct heard *h = ctx;
    h->overlapped += h->inside++ != 0;
    h->lines++;
    h->level = level;
    h->rank = rank;
    snprintf(h->text, sizeof h->text, "%s", line);
    h->inside--;
}

static int restore(void **state)
{
    hr_log_set_sink(NULL, NULL);
    hr_log_set_level(HR_LOG_WARN);
    hr_set_thread_rank(-1);
    return 0;
}

static void lines_above_the_level_are_dropped(void **state)
{
    struct heard h = {0};
    hr_log_set_sink(hear, &h);
    hr_log(HR_LOG_INFO, "not by default");
    assert_int_equal(h.lines, 0);
    hr_log(HR_LOG_WARN, "by default %d", 7);
    assert_int_equal(h.lines, 1);
    assert_string_equal(h.text, "by default 7");
    hr_log_set_level(HR_LOG_DEBUG);
    hr_log(HR_LOG_DEBUG, "now too");
    assert_int_equal(h.lines, 2);
    assert_int_equal(h.level, HR_LOG_DEBUG);
}

static void the_sink_learns_the_rank_of_the_thread(void **state)
{
    struct heard h = {0};
    hr_log_set_sink(hear, &h);
    hr_log(HR_LOG_ERROR, "x");
    assert_int_equal(h.rank, -1);
    hr_set_thread_rank(3);
    assert_int_equal(hr_thread_rank(), 3);
    hr_log(HR_LOG_ERROR, "x");
    assert_int_equal(h.rank, 3);
}

static void single_rank_logs_on_that_rank_only(void **state)
{
    struct heard h = {0};
    hr_log_set_sink(hear, &h);
    hr_set_thread_rank(1);
    hr_log_single_rank(HR_LOG_ERROR, 0, "for rank 0");
    assert_int_equal(h.lines, 0);
    hr_log_single_rank(HR_LOG_ERROR, 1, "for rank %d", 1);
    assert_string_equal(h.text, "for rank 1");
}

static void a_line_has_no_newline_and_is_cut_when_long(void **state)
{
    struct heard h = {0};
    char text[4000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    hr_log_set_sink(hear, &h);
    hr_log(HR_LOG_ERROR, "two\nlines");
    assert_string_equal(h.text, "two lines");
    hr_log(HR_LOG_ERROR, "%s", text);
    assert_string_equal(h.text + strlen(h.text) - 3, "...");
}

static void log_from_inside(void *ctx, hr_log_level level, int rank, const char *line)
{
    ++*(int *)ctx;
    hr_log(HR_LOG_ERROR, "again");
    hr_log_set_sink(NULL, NULL);
}

static void a_sink_that_logs_does_not_hang(void **state)
{
    int calls = 0;
    hr_log_set_sink(log_from_inside, &calls);
    hr_log(HR_LOG_ERROR, "once");
    assert_int_equal(calls, 1);
}

static void *log_a_lot(void *arg)
{
    for (int i = 0; i < 500; i++)
        hr_log(HR_LOG_ERROR, "line %d", i);
    return NULL;
}

static void threads_log_one_line_at_a_time(void **state)
{
    struct heard h = {0};
    pthread_t threads[4];
    hr_log_set_sink(hear, &h);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_a_lot, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(h.lines, 2000);
    assert_int_equal(h.overlapped, 0);
}

static void the_default_sink_is_standard_error(void **state)
{
    int ends[2], kept = dup(STDERR_FILENO);
    char got[256] = "";
    assert_int_equal(pipe(ends), 0);
    fflush(stderr);
    dup2(ends[1], STDERR_FILENO);
    hr_set_thread_rank(2);
    hr_log(HR_LOG_WARN, "slow link");
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(ends[1]);
    assert_true(read(ends[0], got, sizeof got - 1) > 0);
    close(ends[0]);
    assert_string_equal(got, "headrace[2] warning: slow link\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(lines_above_the_level_are_dropped, restore),
        cmocka_unit_test_teardown(the_sink_learns_the_rank_of_the_thread, restore),
        cmocka_unit_test_teardown(single_rank_logs_on_that_rank_only, restore),
        cmocka_unit_test_teardown(a_line_has_no_newline_and_is_cut_when_long, restore),
        cmocka_unit_test_teardown(a_sink_that_logs_does_not_hang, restore),
        cmocka_unit_test_teardown(threads_log_one_line_at_a_time, restore),
        cmocka_unit_test_teardown(the_default_sink_is_standard_error, restore),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
