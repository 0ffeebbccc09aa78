/* Signals: the first is noted, the second ends the process. Each in a child, as it cannot be undone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "interrupt.h"

enum { SURVIVED = 7, NOT_NOTED = 8 };

/* Exit status of a child that raises `signal` so many times. */
static int child(int signal, int times)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (hr_app_interrupt_install() < 0 || hr_app_interrupted())
            _exit(NOT_NOTED);
        for (int i = 0; i < times; i++)
            raise(signal);
        _exit(hr_app_interrupted() && hr_app_interrupt_signal() == signal ? SURVIVED
                                                                          : NOT_NOTED);
    }
    int status = 0;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void the_first_is_noted(void **state)
{
    (void)state;
    assert_int_equal(child(SIGINT, 1), SURVIVED);
    assert_int_equal(child(SIGTERM, 1), SURVIVED);
    assert_false(hr_app_interrupted()); /* here none came */
}

static void the_second_ends_the_process(void **state)
{
    (void)state;
    assert_int_equal(child(SIGINT, 2), EXIT_INTERRUPTED);
    assert_int_equal(child(SIGTERM, 2), EXIT_INTERRUPTED);
}

static void note_run(void *times)
{
    ++*(int *)times;
}

/* How often what watches has run in a child that raises SIGTERM, or does not; and who may say so. */
static int watched(bool raised)
{
    pid_t pid = fork();
    if (pid == 0) {
        int times = 0;
        if (hr_app_interrupt_install() < 0 ||
            hr_app_interrupt_watch(note_run, &times) < 0)
            _exit(NOT_NOTED);
        if (raised)
            raise(SIGTERM);
        hr_app_interrupt_unwatch();
        _exit(hr_app_interrupt_tell() && !hr_app_interrupt_tell() ? times : NOT_NOTED);
    }
    int status = 0;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void who_watches_runs_once_where_there_was_a_signal(void **state)
{
    assert_int_equal(watched(true), 1);
    assert_int_equal(watched(false), 0);
}

/* What a child says that is told to end and does not, once it is ended. */
static void what_had_failed_before_is_said_with_the_signal(void **state)
{
    int ends[2];
    char said[128] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (dup2(ends[1], STDERR_FILENO) < 0 || hr_app_interrupt_install() < 0)
            _exit(NOT_NOTED);
        hr_app_interrupt_after("failed: no room\n");
        raise(SIGTERM);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], said + n, sizeof said - 1 - n)) > 0;)
        n += (size_t)got;
    close(ends[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_string_equal(said, "failed: no room\nheadrace: interrupted by signal 15\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_noted),
        cmocka_unit_test(the_second_ends_the_process),
        cmocka_unit_test(who_watches_runs_once_where_there_was_a_signal),
        cmocka_unit_test(what_had_failed_before_is_said_with_the_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
