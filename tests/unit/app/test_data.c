/* Text for training: what is loaded, what is refused, and that batches follow from counters. */
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
#include <unistd.h>

#include "data.h"
#include "scratch.h"

static data_set *d;

static void refused(const char *path, hr_status status, const char *reason,
                    const char *named)
{
    hr_error_clear();
    assert_int_equal(hr_app_data_open(path, DATA_CAP, &d), status);
    assert_null(d);
    assert_string_equal(hr_last_reason(), reason);
    if (!strstr(hr_last_error(), path) || !strstr(hr_last_error(), named))
        fail_msg("\"%s\" is without '%s' or '%s'", hr_last_error(), path, named);
}

/* A folder of `n` files; file i holds 100 + i times the letter of its number. */
static const char *make_tree(const char *name, int n)
{
    char file[64], bytes[512];
    assert_int_equal(mkdir(hr_scratch_path(name), 0777), 0);
    snprintf(file, sizeof file, "%s/sub", name);
    assert_int_equal(mkdir(hr_scratch_path(file), 0777), 0);
    for (int i = 0; i < n; i++) {
        memset(bytes, 'a' + i % 26, sizeof bytes);
        snprintf(file, sizeof file, "%s/%s%03d", name, i % 2 ? "sub/" : "", i);
        hr_scratch_write(file, bytes, 100 + (size_t)i);
    }
    return hr_scratch_path(name);
}

static void missing_data_is_named(void **state)
{
    (void)state;
    refused("/nonexistent", HR_ERR_IO, "data_missing", "No such file");
}

static void empty_data_is_named(void **state)
{
    (void)state;
    refused(hr_scratch_write("empty.txt", "", 0), HR_ERR_INVALID, "data_empty",
            "empty");
    assert_int_equal(mkdir(hr_scratch_path("emptydir"), 0777), 0);
    refused(hr_scratch_path("emptydir"), HR_ERR_INVALID, "data_empty", "empty");
}

static void unreadable_data_is_named(void **state)
{
    (void)state;
    refused("/proc/self/mem", HR_ERR_INVALID, "data_empty", "empty");
    const char *path = hr_scratch_write("secret.txt", "text", 4);
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(mkdir(hr_scratch_path("secretdir"), 0), 0);
    if (!hr_scratch_as_nobody(true))
        skip();
    hr_status st = hr_app_data_open(path, DATA_CAP, &d);
    hr_status folder = hr_app_data_open(hr_scratch_path("secretdir"), DATA_CAP, &d);
    assert_true(hr_scratch_as_nobody(false));
    assert_int_equal(folder, HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), "secretdir': Permission denied"));
    assert_int_equal(st, HR_ERR_IO);
}

static void binary_data_is_named(void **state)
{
    (void)state;
    refused(hr_scratch_write("binary", "a\0b", 3), HR_ERR_INVALID, "data_binary",
            "binary");
    assert_int_equal(mkdir(hr_scratch_path("binarydir"), 0777), 0);
    hr_scratch_write("binarydir/x", "a\0b", 3);
    hr_scratch_write("binarydir/y", "\0", 1);
    refused(hr_scratch_path("binarydir"), HR_ERR_INVALID, "data_binary", "binarydir/x");
}

static void what_is_neither_file_nor_folder_is_refused(void **state)
{
    (void)state;
    refused("/dev/zero", HR_ERR_INVALID, "data_kind", "neither");
}

static void a_sequence_longer_than_the_data_is_refused(void **state)
{
    (void)state;
    char bytes[100];
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(
        hr_app_data_open(hr_scratch_write("short.txt", bytes, 100), DATA_CAP, &d),
        HR_OK);
    assert_int_equal(hr_app_data_check(d, 9), HR_OK); /* a tenth is for validation */
    assert_int_equal(hr_app_data_check(d, 10), HR_ERR_INVALID);
    assert_string_equal(hr_last_reason(), "data_short");
    assert_non_null(strstr(hr_last_error(), "--seq 10 wants 11 bytes"));
    assert_non_null(strstr(hr_last_error(), "has 10"));
    assert_int_equal(hr_app_data_check(d, 200), HR_ERR_INVALID);
    assert_non_null(strstr(hr_last_error(), "training"));
    hr_app_data_close(d);
}

static void a_single_file_gives_its_last_tenth_to_validation(void **state)
{
    (void)state;
    size_t train, validation;
    const char *path = hr_scratch_write("digits", "0123456789abcdefghij", 20);
    assert_int_equal(hr_app_data_open(path, DATA_CAP, &d), HR_OK);
    assert_memory_equal(hr_app_data_text(d, DATA_TRAIN, &train), "0123456789abcdefgh",
                        18);
    assert_memory_equal(hr_app_data_text(d, DATA_VALIDATION, &validation), "ij", 2);
    assert_int_equal(train, 18);
    assert_int_equal(validation, 2);
    hr_app_data_close(d);
}

static void a_tree_is_split_by_file_and_whole(void **state)
{
    (void)state;
    size_t train, validation, all = 0;
    const char *path = make_tree("tree", 100);
    assert_int_equal(hr_app_data_open(path, DATA_CAP, &d), HR_OK);
    const uint8_t *t = hr_app_data_text(d, DATA_TRAIN, &train);
    hr_app_data_text(d, DATA_VALIDATION, &validation);
    for (size_t i = 0; i < 100; i++)
        all += 100 + i;
    assert_int_equal(train + validation, all);
    int files = hr_app_data_files(d, DATA_VALIDATION);
    assert_in_range(files, 1, 15);
    assert_int_equal(hr_app_data_files(d, DATA_TRAIN), 100 - files);
    assert_true(t[0] == 'a' || t[0] == 'c'); /* sorted: 000, 002, ... before sub/001 */
    hr_app_data_close(d);
}

static void two_files_give_one_to_each_part(void **state)
{
    (void)state;
    assert_int_equal(hr_app_data_open(make_tree("two", 2), DATA_CAP, &d), HR_OK);
    assert_int_equal(hr_app_data_files(d, DATA_TRAIN), 1);
    assert_int_equal(hr_app_data_files(d, DATA_VALIDATION), 1);
    hr_app_data_close(d);
}

static void a_tree_of_one_file_is_split_like_a_file(void **state)
{
    (void)state;
    size_t train, validation;
    assert_int_equal(hr_app_data_open(make_tree("one", 1), DATA_CAP, &d), HR_OK);
    hr_app_data_text(d, DATA_TRAIN, &train);
    hr_app_data_text(d, DATA_VALIDATION, &validation);
    assert_int_equal(train, 90);
    assert_int_equal(validation, 10);
    hr_app_data_close(d);
}

static void the_same_tree_elsewhere_gives_the_same_bytes(void **state)
{
    (void)state;
    data_set *other;
    size_t n, m;
    assert_int_equal(hr_app_data_open(make_tree("here", 40), DATA_CAP, &d), HR_OK);
    assert_int_equal(hr_app_data_open(make_tree("there", 40), DATA_CAP, &other), HR_OK);
    for (data_part part = DATA_TRAIN; part < DATA_PARTS; part++) {
        const uint8_t *a = hr_app_data_text(d, part, &n);
        const uint8_t *b = hr_app_data_text(other, part, &m);
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
    }
    hr_app_data_close(d);
    hr_app_data_close(other);
}

static void links_and_binary_files_of_a_tree_are_left_out(void **state)
{
    (void)state;
    size_t train, validation;
    const char *path = make_tree("mixed", 2);
    hr_log_set_level(HR_LOG_ERROR); /* it warns of what is left out */
    hr_scratch_write("mixed/binary", "a\0b", 3);
    assert_int_equal(symlink(".", hr_scratch_path("mixed/loop")), 0);
    assert_int_equal(symlink("000", hr_scratch_path("mixed/again")), 0);
    assert_int_equal(mkfifo(hr_scratch_path("mixed/pipe"), 0666), 0);
    assert_int_equal(hr_app_data_open(path, DATA_CAP, &d), HR_OK);
    hr_log_set_level(HR_LOG_WARN);
    hr_app_data_text(d, DATA_TRAIN, &train);
    hr_app_data_text(d, DATA_VALIDATION, &validation);
    assert_int_equal(train + validation, 201);
    hr_app_data_close(d);
}

static void no_more_than_the_cap_is_loaded(void **state)
{
    (void)state;
    size_t train, validation;
    assert_int_equal(hr_app_data_open(make_tree("capped", 50), 1000, &d), HR_OK);
    hr_app_data_text(d, DATA_TRAIN, &train);
    hr_app_data_text(d, DATA_VALIDATION, &validation);
    assert_int_equal(train + validation, 1000);
    hr_app_data_close(d);
    char bytes[512];
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(hr_app_data_open(hr_scratch_write("cut", bytes, 512), 100, &d),
                     HR_OK);
    hr_app_data_text(d, DATA_TRAIN, &train);
    assert_int_equal(train, 90);
    hr_app_data_close(d);
}

static void batches_follow_from_counters_alone(void **state)
{
    (void)state;
    enum { SEQ = 8 };
    int32_t x[SEQ], y[SEQ], x2[SEQ], y2[SEQ];
    uint8_t bytes[1000];
    for (int i = 0; i < 1000; i++)
        bytes[i] = (uint8_t)(1 + i % 251);
    assert_int_equal(
        hr_app_data_open(hr_scratch_write("count", bytes, 1000), DATA_CAP, &d), HR_OK);
    int differ = 0;
    for (int step = 0; step < 20; step++) {
        hr_app_data_batch(d, 1, step, 3, SEQ, x, y);
        hr_app_data_batch(d, 1, step, 3, SEQ, x2, y2);
        assert_memory_equal(x, x2, sizeof x);
        assert_memory_equal(y, y2, sizeof y);
        for (int i = 0; i < SEQ; i++) {
            assert_int_equal(y[i], 1 + x[i] % 251); /* the byte after */
            assert_true(i == 0 || x[i] == y[i - 1]);
        }
        hr_app_data_batch(d, 1, step, 4, SEQ, x2, y2);
        differ += memcmp(x, x2, sizeof x) != 0;
        hr_app_data_batch(d, 2, step, 3, SEQ, x2, y2);
        differ += memcmp(x, x2, sizeof x) != 0;
        hr_app_data_batch(d, 1, step + 1, 3, SEQ, x2, y2);
        differ += memcmp(x, x2, sizeof x) != 0;
    }
    assert_true(differ > 50);
    hr_app_data_close(d);
}

static void every_start_can_come_and_none_passes_the_end(void **state)
{
    (void)state;
    enum { SEQ = 4 };
    int32_t x[SEQ], y[SEQ];
    bool seen[6] = {false};
    /* 10 bytes, 9 for training: starts 0..4 */
    assert_int_equal(
        hr_app_data_open(hr_scratch_write("ten", "0123456789", 10), DATA_CAP, &d),
        HR_OK);
    for (int i = 0; i < 200; i++) {
        hr_app_data_batch(d, 7, i, 0, SEQ, x, y);
        assert_in_range(x[0] - '0', 0, 4);
        seen[x[0] - '0'] = true;
        assert_true(y[SEQ - 1] <= '8');
    }
    for (int i = 0; i <= 4; i++)
        assert_true(seen[i]);
    hr_app_data_close(d);
}

static void windows_span_the_validation_text(void **state)
{
    (void)state;
    enum { SEQ = 4 };
    int32_t x[SEQ], y[SEQ];
    char bytes[200];
    for (int i = 0; i < 200; i++)
        bytes[i] = (char)(i + 1 > 127 ? i - 126 : i + 1);
    assert_int_equal(
        hr_app_data_open(hr_scratch_write("val", bytes, 200), DATA_CAP, &d), HR_OK);
    hr_app_data_window(d, 0, 5, SEQ, x, y);
    assert_int_equal(x[0], bytes[180]);
    hr_app_data_window(d, 4, 5, SEQ, x, y);
    assert_int_equal(y[SEQ - 1], bytes[199]);
    hr_app_data_window(d, 0, 1, SEQ, x, y);
    assert_int_equal(x[0], bytes[180]);
    hr_app_data_close(d);
}

static void the_baseline_is_the_entropy_of_bytes(void **state)
{
    (void)state;
    size_t n = 100000;
    char *bytes = malloc(n);
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = "abcd"[i % 4];
    assert_int_equal(hr_app_data_open(hr_scratch_write("abcd", bytes, n), DATA_CAP, &d),
                     HR_OK);
    assert_float_equal(hr_app_data_baseline(d), log(4), 0.01);
    hr_app_data_close(d);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_data_is_named),
        cmocka_unit_test(empty_data_is_named),
        cmocka_unit_test(unreadable_data_is_named),
        cmocka_unit_test(binary_data_is_named),
        cmocka_unit_test(what_is_neither_file_nor_folder_is_refused),
        cmocka_unit_test(a_sequence_longer_than_the_data_is_refused),
        cmocka_unit_test(a_single_file_gives_its_last_tenth_to_validation),
        cmocka_unit_test(a_tree_is_split_by_file_and_whole),
        cmocka_unit_test(two_files_give_one_to_each_part),
        cmocka_unit_test(a_tree_of_one_file_is_split_like_a_file),
        cmocka_unit_test(the_same_tree_elsewhere_gives_the_same_bytes),
        cmocka_unit_test(links_and_binary_files_of_a_tree_are_left_out),
        cmocka_unit_test(no_more_than_the_cap_is_loaded),
        cmocka_unit_test(batches_follow_from_counters_alone),
        cmocka_unit_test(every_start_can_come_and_none_passes_the_end),
        cmocka_unit_test(windows_span_the_validation_text),
        cmocka_unit_test(the_baseline_is_the_entropy_of_bytes),
    };
    return cmocka_run_group_tests(tests, hr_scratch_setup, hr_scratch_teardown);
}
