/* The program from the outside: exit statuses, and that the last line on standard error says what is
 * wrong. HR_PROGRAM is its path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint.h"
#include "scratch.h"

static char *out, *err; /* of the last run */

/* Starts `headrace` with `line`, split at blanks; its standard error goes to `err_fd`, or to a file. */
static pid_t start(const char *line, int err_fd)
{
    char text[4096];
    snprintf(text, sizeof text, "%s", line);
    char *argv[48] = {(char[]){HR_PROGRAM}}, *rest = NULL;
    int argc = 1;
    for (char *word = strtok_r(text, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (!freopen(hr_scratch_path("out"), "w", stdout) ||
            (err_fd < 0 && !freopen(hr_scratch_path("err"), "w", stderr)) ||
            (err_fd >= 0 && dup2(err_fd, STDERR_FILENO) < 0))
            _exit(99);
        execv(HR_PROGRAM, argv);
        _exit(99);
    }
    return pid;
}

static int wait_for(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The exit status; what was printed is in `out` and `err`. */
static int run(const char *line)
{
    size_t n;
    int status = wait_for(start(line, -1));
    free(out);
    free(err);
    out = hr_scratch_read(hr_scratch_path("out"), &n);
    err = hr_scratch_read(hr_scratch_path("err"), &n);
    return status;
}

static const char *last_line(void)
{
    size_t n = strlen(err);
    while (n > 0 && err[n - 1] == '\n')
        err[--n] = '\0';
    char *line = strrchr(err, '\n');
    return line ? line + 1 : err;
}

static void ends(const char *line, int status, const char *named)
{
    int got = run(line);
    const char *last = last_line();
    if (got != status || !strstr(last, named))
        fail_msg("'headrace %s' ends with %d and \"%s\"; wanted %d and '%s'", line, got,
                 last, status, named);
}

static void help_is_everywhere(void **state)
{
    (void)state;
    ends("--help", 0, "");
    assert_non_null(strstr(out, "train"));
    ends("train --help", 0, "");
    assert_non_null(strstr(out, "--loss-scale-mode sum|mean_microbatch|mean_token"));
    ends("sample --help", 0, "");
    assert_non_null(strstr(out, "--temperature"));
    ends("info --help", 0, "");
    assert_non_null(strstr(out, "--json"));
    ends("--version", 0, "");
    assert_int_equal(strncmp(out, "headrace ", 9), 0);
}

static void wrong_usage_is_2(void **state)
{
    (void)state;
    ends("", 2, "a command is wanted");
    ends("trian", 2, "the nearest is 'train'");
    ends("train --stpes 3", 2, "the nearest is --steps");
    ends("train --steps 0", 2, "nearest valid value is 1");
    ends("sample --lenght 3", 2, "the nearest is --length");
    ends("sample --top-k 300", 2, "nearest valid value is 256");
    ends("info --jsn", 2, "the nearest is --json");
    ends("train --config /nonexistent.json", 2, "/nonexistent.json");
}

static void data_that_cannot_be_used_is_named(void **state)
{
    (void)state;
    char line[2048];
    char text[100];
    memset(text, 'x', sizeof text);
    snprintf(line, sizeof line, "train --out %s --data", hr_scratch_path("run"));
    const struct bad {
        const char *path, *named;
    } bad[] = {
        {"/nonexistent", "'/nonexistent'"},
        {hr_scratch_write("empty", "", 0), "is empty"},
        {hr_scratch_write("binary", "a\0b", 3), "binary"},
        {hr_scratch_write("short", text, sizeof text), "--seq 64 wants 65 bytes"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char whole[4096];
        snprintf(whole, sizeof whole, "%s %s", line, bad[i].path);
        ends(whole, 1, bad[i].named);
        assert_non_null(strstr(err, bad[i].path));
    }
}

static void an_output_folder_that_cannot_be_made_is_named(void **state)
{
    (void)state;
    char line[4096], text[2000];
    memset(text, 'x', sizeof text);
    const char *data = hr_scratch_write("data", text, sizeof text);
    const char *in_the_way = hr_scratch_write("in_the_way", "x", 1);
    snprintf(line, sizeof line, "train --steps 1 --data %s --out %s", data, in_the_way);
    ends(line, 1, in_the_way);
}

static void a_damaged_checkpoint_is_named(void **state)
{
    (void)state;
    char line[4096];
    ends("sample --checkpoint /nonexistent", 1, "'/nonexistent'");
    const char *path = hr_scratch_write("damaged", "\x40\0\0\0\0\0\0\0{\"a\":", 13);
    snprintf(line, sizeof line, "sample --checkpoint %s", path);
    ends(line, 1, path);
    assert_non_null(strstr(err, "truncated"));
}

static void check_says_what_would_run_and_writes_nothing(void **state)
{
    (void)state;
    char line[4096], text[2000];
    memset(text, 'x', sizeof text);
    const char *data = hr_scratch_write("checked", text, sizeof text);
    const char *folder = hr_scratch_path("unwritten");
    snprintf(line, sizeof line, "train --dry-run --data %s --out %s", data, folder);
    ends(line, 0, "");
    assert_non_null(strstr(out, "1800 bytes of 1 file\n"));
    assert_non_null(strstr(out, "8 experts, top-2"));
    assert_int_not_equal(access(folder, F_OK), 0);
    snprintf(line, sizeof line, "train --dry-run --seq 500 --data %s --out %s", data,
             folder);
    ends(line, 1, "--seq 500 wants 501 bytes");
    snprintf(line, sizeof line, "train --dry-run --resume --data %s --out %s", data,
             folder);
    ends(line, 1, "unwritten");
}

static void check_says_that_nothing_is_left_to_resume(void **state)
{
    (void)state;
    char line[4096], text[2000];
    memset(text, 'x', sizeof text);
    int n = snprintf(
        line, sizeof line,
        "train --steps 1 --layers 1 --dense-layers 0 --width 4 --heads 1 "
        "--experts 2 --top-k 1 --expert-width 4 --seq 4 --data %s --out %s",
        hr_scratch_write("done_text", text, sizeof text), hr_scratch_path("done"));
    ends(line, 0, "");
    snprintf(line + n, sizeof line - (size_t)n, " --resume --dry-run");
    ends(line, 1, "has done 1 steps already");
    snprintf(line + n, sizeof line - (size_t)n, " --resume --dry-run --steps 2");
    ends(line, 0, "");
}

static void sixty_five_ranks_train(void **state)
{
    (void)state;
    char line[4096], text[2000];
    memset(text, 'x', sizeof text);
    snprintf(
        line, sizeof line,
        "train --ep 65 --experts 65 --steps 1 --layers 1 --dense-layers 0 --width 2 "
        "--heads 1 --top-k 1 --expert-width 1 --seq 4 --microbatches 1 "
        "--micro-batch-size 1 --eval-batches 1 --link-gbps 0 --link-us 0 --data %s "
        "--out %s",
        hr_scratch_write("many", text, sizeof text), hr_scratch_path("ranks"));
    ends(line, 0, "");
}

/* The child is stopped when it has told of its first step, in whatever it does then. */
static void a_signal_leaves_the_last_checkpoint_whole(void **state)
{
    (void)state;
    char small[2048], line[4096], text[2000], last[512] = "", told[512] = "";
    memset(text, 'x', sizeof text);
    snprintf(
        small, sizeof small,
        "train --layers 2 --dense-layers 1 --width 16 --heads 2 --experts 2 --top-k 1 "
        "--expert-width 16 --dense-width 16 --seq 16 --microbatches 2 "
        "--checkpoint-every 1 --data %s --out %s",
        hr_scratch_write("xs", text, sizeof text), hr_scratch_path("stopped"));
    snprintf(line, sizeof line, "%s --steps 1", small);
    ends(line, 0, "");
    snprintf(line, sizeof line, "%s --steps 1000000", small);
    int ends_of_pipe[2];
    assert_int_equal(pipe(ends_of_pipe), 0);
    pid_t pid = start(line, ends_of_pipe[1]);
    close(ends_of_pipe[1]);
    FILE *from = fdopen(ends_of_pipe[0], "r");
    assert_non_null(from);
    while (!strstr(told, "step 1/"))
        assert_non_null(fgets(told, sizeof told, from));
    assert_int_equal(kill(pid, SIGINT), 0);
    while (fgets(told, sizeof told, from))
        memcpy(last, told, sizeof last);
    fclose(from);
    assert_int_equal(wait_for(pid), 130);
    assert_non_null(strstr(last, "interrupted"));
    checkpoint_info info;
    checkpoint *f;
    assert_int_equal(hr_app_checkpoint_open(hr_scratch_path("stopped"), &info, &f),
                     HR_OK);
    assert_true(info.step >= 1);
    hr_app_checkpoint_close(f);
}

static void info_says_why_something_is_off(void **state)
{
    (void)state;
    ends("info --json", 0, "");
    json_t *all = json_loads(out, 0, NULL);
    assert_non_null(all);
    size_t i;
    const json_t *o, *backends = json_object_get(all, "backends");
    bool host = false, cuda = false;
    json_array_foreach(backends, i, o)
    {
        const char *name = json_string_value(json_object_get(o, "name"));
        bool on = json_is_true(json_object_get(o, "on"));
        host = host || (strcmp(name, "host") == 0 && on);
        cuda = cuda || (strcmp(name, "cuda") == 0 &&
                        (on || json_string_length(json_object_get(o, "why_off")) > 0));
    }
    assert_true(host);
    assert_true(cuda);
    assert_true(json_integer_value(json_object_get(json_object_get(all, "processor"),
                                                   "usable_threads")) >= 1);
    json_decref(all);
    ends("info", 0, "");
    assert_non_null(strstr(out, "off: "));
}

static int teardown(void **state)
{
    free(out);
    free(err);
    return hr_scratch_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_is_everywhere),
        cmocka_unit_test(wrong_usage_is_2),
        cmocka_unit_test(data_that_cannot_be_used_is_named),
        cmocka_unit_test(an_output_folder_that_cannot_be_made_is_named),
        cmocka_unit_test(a_damaged_checkpoint_is_named),
        cmocka_unit_test(check_says_what_would_run_and_writes_nothing),
        cmocka_unit_test(check_says_that_nothing_is_left_to_resume),
        cmocka_unit_test(sixty_five_ranks_train),
        cmocka_unit_test(a_signal_leaves_the_last_checkpoint_whole),
        cmocka_unit_test(info_says_why_something_is_off),
    };
    return cmocka_run_group_tests(tests, hr_scratch_setup, teardown);
}
