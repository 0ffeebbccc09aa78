/* A writer that is killed at a system call, before it or after it: there is then a whole checkpoint,
 * the one before or the one after, and the next save removes what the killed one has left.
 *
 *     test_unit_checkpoint_kills      at some system calls
 *     test_unit_checkpoint_kills 1    at each of them in turn; minutes, of `make soak`
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scratch.h"
#include "support/checkpoint_case.h"

enum { N = 600, FILES = 2 };
static int stride = 11; /* a prime: the points of one case are not those of the next */

/* Values of the checkpoint: which writing it was; pieces in two files. */
static float values[N];
static const int64_t shape[] = {N};
static const st_tensor first[] = {{"w[0:400]", ST_F32, 1, {400}}};
static const st_tensor second[] = {{"w[400:600]", ST_F32, 1, {200}}};
static const float *const first_data[] = {values};
static const float *const second_data[] = {values + 400};
static const case_file files[FILES] = {{first, first_data, 1},
                                       {second, second_data, 1}};

typedef struct save {
    int64_t step;
    int keep;
    int mark; /* in its values */
} save;

static hr_status write_one(const char *out, save s)
{
    train_options o;
    hr_app_options_train_defaults(&o);
    checkpoint_info info = {.model = o.model, .step = s.step};
    for (int i = 0; i < N; i++)
        values[i] = (float)(s.mark * N + i);
    return checkpoint_case_write(out, &info, s.keep, files, FILES);
}

/* The mark of the whole checkpoint that a reader finds; -1: none. */
static int mark_at(const char *out)
{
    checkpoint_info info;
    checkpoint *c;
    float got[N];
    if (hr_app_checkpoint_open(out, &info, &c) < 0)
        return -1;
    hr_status st = hr_app_checkpoint_read(c, "w", 1, shape, 0, N, got);
    hr_app_checkpoint_close(c);
    if (st < 0)
        return -2;
    for (int i = 1; i < N; i++)
        if (got[i] != got[0] + (float)i)
            return -3;
    return (int)got[0] / N;
}

/* The process stops itself before it writes, so that counting begins there. */
static pid_t start(const char *out, save s)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        raise(SIGSTOP);
        _exit(write_one(out, s) == HR_OK ? 0 : 1);
    }
    return pid;
}

/* Writes, and is killed at the n-th stop, of which each system call has two. Returns whether it lived
 * to the end; -1: nobody may be traced here. */
static int killed_at(const char *out, save s, int n)
{
    int status;
    pid_t pid = start(out, s);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status))
        return -1;
    assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, NULL,
                            (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)),
                     0);
    for (int stops = 0; WIFSTOPPED(status); stops++) {
        if (stops == n)
            kill(pid, SIGKILL);
        else
            ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) == 0 : 0;
}

static int entries(const char *out)
{
    char path[4096];
    int n = 0;
    snprintf(path, sizeof path, "%s/checkpoint", out);
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        n += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

/* `before` (of `n`) are there when `last` is written and killed, in a fresh folder each time. */
static void kill_everywhere(const char *name, const save *before, int n, save last)
{
    int lived = 0, kills = 0, changed = 0;
    int mark = n > 0 ? before[n - 1].mark : -1;
    for (int at = 1 + n % stride; !lived; at += stride) {
        char folder[64];
        snprintf(folder, sizeof folder, "%s-%d", name, at);
        const char *out = hr_scratch_path(folder);
        for (int i = 0; i < n; i++)
            assert_int_equal(write_one(out, before[i]), HR_OK);
        lived = killed_at(out, last, at);
        if (lived < 0)
            skip();
        int found = mark_at(out);
        if (found != mark && found != last.mark)
            fail_msg("%s, killed at stop %d: %d, and not %d or %d", name, at, found,
                     mark, last.mark);
        kills += !lived;
        changed += !lived && found == last.mark;
        assert_int_equal(write_one(out, (save){last.step + 1, 1, 9}), HR_OK);
        assert_int_equal(mark_at(out), 9);
        assert_int_equal(entries(out), 1);
    }
    print_message("%s: %d kills, after %d of them the new one was there\n", name, kills,
                  changed);
    assert_true(changed > 0 && changed < kills);
}

static void the_first_save(void **state)
{
    kill_everywhere("first", NULL, 0, (save){1, 1, 1});
}

static void a_save_that_replaces_the_only_one(void **state)
{
    kill_everywhere("next", (save[]){{1, 1, 1}}, 1, (save){2, 1, 2});
}

static void a_save_that_prunes_one_of_several(void **state)
{
    kill_everywhere("several", (save[]){{1, 2, 1}, {2, 2, 2}}, 2, (save){3, 2, 3});
}

static void a_save_of_the_same_step(void **state)
{
    kill_everywhere("same", (save[]){{5, 2, 1}}, 1, (save){5, 2, 2});
}

/* The reader goes on with the highest step: the earlier run's, until it has gone. */
static void a_save_that_follows_a_longer_earlier_run(void **state)
{
    kill_everywhere("earlier", (save[]){{8, 2, 1}}, 1, (save){2, 2, 2});
}

int main(int argc, char **argv)
{
    if (argc > 1 && atoi(argv[1]) > 0)
        stride = atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_save),
        cmocka_unit_test(a_save_that_replaces_the_only_one),
        cmocka_unit_test(a_save_that_prunes_one_of_several),
        cmocka_unit_test(a_save_of_the_same_step),
        cmocka_unit_test(a_save_that_follows_a_longer_earlier_run),
    };
    return cmocka_run_group_tests(tests, hr_scratch_setup, hr_scratch_teardown);
}
