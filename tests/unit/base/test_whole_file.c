/* Files that appear whole or not at all, also when the disk is full or the folder is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/base.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct place {
    char dir[64], path[96];
};

static int enter(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    if (!p)
        return -1;
    strcpy(p->dir, "/tmp/headrace_file_XXXXXX");
    if (!mkdtemp(p->dir))
        return -1;
    snprintf(p->path, sizeof p->path, "%s/out.txt", p->dir);
    *state = p;
    return 0;
}

static int leave(void **state)
{
    struct place *p = *state;
    unlink(p->path);
    rmdir(p->dir);
    free(p);
    return 0;
}

static int files_in(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static void put(const char *path, const char *text)
{
    hr_file *f;
    assert_int_equal(hr_file_begin(path, &f), HR_OK);
    fputs(text, hr_file_stream(f));
    assert_int_equal(hr_file_commit(f), HR_OK);
}

static void expect(const char *path, const char *want)
{
    char got[256] = "";
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    got[fread(got, 1, sizeof got - 1, f)] = '\0';
    fclose(f);
    assert_string_equal(got, want);
}

static void the_file_appears_at_commit(void **state)
{
    struct place *p = *state;
    hr_file *f;
    assert_int_equal(hr_file_begin(p->path, &f), HR_OK);
    fputs("hello", hr_file_stream(f));
    fflush(hr_file_stream(f));
    assert_int_not_equal(access(p->path, F_OK), 0);
    assert_int_equal(hr_file_commit(f), HR_OK);
    expect(p->path, "hello");
    assert_int_equal(files_in(p->dir), 1);
}

static void the_file_before_stays_until_commit(void **state)
{
    struct place *p = *state;
    hr_file *f;
    put(p->path, "old");
    assert_int_equal(hr_file_begin(p->path, &f), HR_OK);
    fputs("new", hr_file_stream(f));
    fflush(hr_file_stream(f));
    expect(p->path, "old");
    assert_int_equal(hr_file_commit(f), HR_OK);
    expect(p->path, "new");
}

static void discard_leaves_nothing(void **state)
{
    struct place *p = *state;
    hr_file *f;
    assert_int_equal(hr_file_begin(p->path, &f), HR_OK);
    fputs("never", hr_file_stream(f));
    hr_file_discard(f);
    hr_file_discard(NULL);
    assert_int_equal(files_in(p->dir), 0);
}

static void the_stream_can_seek(void **state)
{
    struct place *p = *state;
    hr_file *f;
    assert_int_equal(hr_file_begin(p->path, &f), HR_OK);
    fputs("....5678", hr_file_stream(f));
    assert_int_equal(fseek(hr_file_stream(f), 0, SEEK_SET), 0);
    fputs("1234", hr_file_stream(f));
    assert_int_equal(fseek(hr_file_stream(f), 0, SEEK_END), 0);
    assert_int_equal(ftell(hr_file_stream(f)), 8);
    fputs("9", hr_file_stream(f));
    assert_int_equal(hr_file_commit(f), HR_OK);
    expect(p->path, "123456789");
}

static void permissions_follow_the_umask(void **state)
{
    struct place *p = *state;
    struct stat info;
    mode_t before = umask(027);
    put(p->path, "x");
    umask(before);
    assert_int_equal(stat(p->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

/* A limit on the size of files stands in for a full disk: writes fail in the same place. */
struct full {
    struct rlimit before;
    void (*handler)(int);
};

static struct full disk_full_after(rlim_t bytes)
{
    struct full full = {.handler = signal(SIGXFSZ, SIG_IGN)};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &full.before), 0);
    struct rlimit small = {.rlim_cur = bytes, .rlim_max = full.before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    return full;
}

static void disk_free_again(struct full full)
{
    setrlimit(RLIMIT_FSIZE, &full.before);
    signal(SIGXFSZ, full.handler);
}

static void write_much(hr_file *f)
{
    for (int i = 0; i < 100000; i++)
        fputc('x', hr_file_stream(f));
}

static void a_full_disk_is_named_and_the_file_before_survives(void **state)
{
    struct place *p = *state;
    hr_file *f;
    put(p->path, "old");
    assert_int_equal(hr_file_begin(p->path, &f), HR_OK);
    struct full full = disk_full_after(10000);
    write_much(f);
    hr_status st = hr_file_commit(f);
    disk_free_again(full);
    assert_int_equal(st, HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), p->path));
    assert_non_null(strstr(hr_last_error(), "File too large"));
    expect(p->path, "old");
    assert_int_equal(files_in(p->dir), 1);
}

/* The last bytes are still in stdio's buffer when commit is called. */
static void a_disk_full_at_the_last_byte_is_found_by_commit(void **state)
{
    struct place *p = *state;
    hr_file *f;
    assert_int_equal(hr_file_begin(p->path, &f), HR_OK);
    fputs("more than two", hr_file_stream(f));
    struct full full = disk_full_after(2);
    hr_status st = hr_file_commit(f);
    disk_free_again(full);
    assert_int_equal(st, HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), "File too large"));
    assert_int_equal(files_in(p->dir), 0);
}

/* There is a hole in such a file, whatever was written after. */
static void a_disk_that_was_full_for_a_while_is_not_forgotten(void **state)
{
    struct place *p = *state;
    hr_file *f;
    assert_int_equal(hr_file_begin(p->path, &f), HR_OK);
    struct full full = disk_full_after(10000);
    write_much(f);
    disk_free_again(full);
    write_much(f);
    assert_int_equal(hr_file_commit(f), HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), "File too large"));
    assert_int_equal(files_in(p->dir), 0);
}

static void a_folder_that_is_missing_is_named(void **state)
{
    struct place *p = *state;
    char path[128];
    hr_file *f = (hr_file *)p;
    snprintf(path, sizeof path, "%s/none/out.txt", p->dir);
    assert_int_equal(hr_file_begin(path, &f), HR_ERR_IO);
    assert_null(f);
    assert_non_null(strstr(hr_last_error(), path));
    assert_non_null(strstr(hr_last_error(), "No such file"));
}

static void what_is_no_plain_file_is_not_replaced(void **state)
{
    struct place *p = *state;
    hr_file *f;
    assert_int_equal(hr_file_begin(p->dir, &f), HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), "a folder"));
    assert_int_equal(hr_file_begin("/dev/null", &f), HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), "/dev/null"));
    assert_int_equal(hr_file_begin("", &f), HR_ERR_INVALID);
    assert_int_equal(hr_file_begin(NULL, &f), HR_ERR_INVALID);
    assert_int_equal(hr_file_begin("out.txt", NULL), HR_ERR_INVALID);
}

static void a_name_without_a_folder_is_fine(void **state)
{
    struct place *p = *state;
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(p->dir), 0);
    hr_file *f;
    hr_status st = hr_file_begin("out.txt", &f);
    if (st == HR_OK)
        st = hr_file_commit(f);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(st, HR_OK);
    expect(p->path, "");
}

static void *write_same(void *path)
{
    hr_status st = HR_OK;
    for (int i = 0; i < 20 && st == HR_OK; i++) {
        hr_file *f;
        st = hr_file_begin(path, &f);
        if (st < 0)
            break;
        fputs("whole", hr_file_stream(f));
        st = hr_file_commit(f);
    }
    return (void *)(intptr_t)st;
}

static void threads_that_write_the_same_path_do_not_mix(void **state)
{
    struct place *p = *state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_same, p->path), 0);
    for (int i = 0; i < 4; i++) {
        void *st;
        pthread_join(threads[i], &st);
        assert_int_equal((intptr_t)st, HR_OK);
    }
    expect(p->path, "whole");
    assert_int_equal(files_in(p->dir), 1);
}

/* Another process that ends in the middle of a file. */
static void die_writing(const char *path)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        hr_file *f;
        if (hr_file_begin(path, &f) == HR_OK) {
            fputs("half", hr_file_stream(f));
            fflush(hr_file_stream(f));
        }
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void what_a_killed_writer_left_goes_with_the_next_write(void **state)
{
    struct place *p = *state;
    char other[112], name[112];
    snprintf(other, sizeof other, "%s.svg", p->path); /* begins alike */
    snprintf(name, sizeof name, "%s.tmp-1-2.old", p->path);
    put(name, "somebody's");
    put(p->path, "before");
    die_writing(p->path);
    die_writing(p->path);
    die_writing(other);
    assert_int_equal(files_in(p->dir),
                     4); /* the second of them found what the first left */
    expect(p->path, "before");
    put(p->path, "after");
    expect(p->path, "after");
    assert_int_equal(files_in(p->dir), 3); /* not what was of another file */
    put(other, "");
    expect(name, "somebody's");
    assert_int_equal(files_in(p->dir), 3);
    unlink(other);
    unlink(name);
}

static void what_another_is_writing_is_let_be(void **state)
{
    struct place *p = *state;
    hr_file *first, *second;
    assert_int_equal(hr_file_begin(p->path, &first), HR_OK);
    assert_int_equal(hr_file_begin(p->path, &second), HR_OK);
    assert_int_equal(files_in(p->dir), 2);
    fputs("first", hr_file_stream(first));
    assert_int_equal(hr_file_commit(first), HR_OK);
    fputs("second", hr_file_stream(second));
    assert_int_equal(hr_file_commit(second), HR_OK);
    expect(p->path, "second");
    assert_int_equal(files_in(p->dir), 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_file_appears_at_commit),
        TEST(the_file_before_stays_until_commit),
        TEST(discard_leaves_nothing),
        TEST(the_stream_can_seek),
        TEST(permissions_follow_the_umask),
        TEST(a_full_disk_is_named_and_the_file_before_survives),
        TEST(a_disk_full_at_the_last_byte_is_found_by_commit),
        TEST(a_disk_that_was_full_for_a_while_is_not_forgotten),
        TEST(a_folder_that_is_missing_is_named),
        TEST(what_is_no_plain_file_is_not_replaced),
        TEST(a_name_without_a_folder_is_fine),
        TEST(threads_that_write_the_same_path_do_not_mix),
        TEST(what_a_killed_writer_left_goes_with_the_next_write),
        TEST(what_another_is_writing_is_let_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
