/* Checkpoints of several files: whatever range is wanted comes from whichever pieces have it, and files
 * that do not belong together are refused with a sentence that says which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint_index.h"
#include "scratch.h"
#include "support/checkpoint_case.h"

enum { ROWS = 6, WIDTH = 5, ALL = ROWS * WIDTH };
static float values[ALL];
static const int64_t shape[] = {ROWS, WIDTH};

/* Rows 0-1, 2-4 and 5 of "e" in three files, "m" cut without regard to rows, "w" in one. */
static const st_tensor first[] = {{"e[0:10]", ST_F32, 2, {2, WIDTH}},
                                  {"m[13:30]", ST_F32, 1, {17}}};
static const st_tensor second[] = {{"w", ST_F32, 2, {ROWS, WIDTH}},
                                   {"e[10:25]", ST_F32, 2, {3, WIDTH}}};
static const st_tensor third[] = {{"e[25:30]", ST_F32, 2, {1, WIDTH}},
                                  {"m[0:1]", ST_F32, 1, {1}},
                                  {"m[1:13]", ST_F32, 1, {12}}};
static const float *const first_data[] = {values, values + 13};
static const float *const second_data[] = {values, values + 10};
static const float *const whole_data[] = {values};
static const float *const third_data[] = {values + 25, values, values + 1};
static const case_file good[] = {
    {first, first_data, 2}, {second, second_data, 2}, {third, third_data, 3}};

static checkpoint_info some_info(int64_t step)
{
    train_options o;
    hr_app_options_train_defaults(&o);
    return (checkpoint_info){.model = o.model, .step = step, .seed = 5, .updates = 3};
}

static hr_status write_files(const char *out, int64_t step, const case_file *files,
                             int n)
{
    checkpoint_info info = some_info(step);
    for (int i = 0; i < ALL; i++)
        values[i] = (float)(1000 * step + i);
    return checkpoint_case_write(out, &info, 10, files, n);
}

/* "OUT/checkpoint/step-0000000S/model-0000N-of-00003.safetensors" */
static const char *file_of(const char *name, int step, int number)
{
    char path[256];
    snprintf(path, sizeof path,
             "%s/checkpoint/step-%08d/model-%05d-of-00003.safetensors", name, step,
             number);
    return hr_scratch_path(path);
}

static hr_status read_range(const char *path, const char *name, int64_t from, int64_t n)
{
    checkpoint_info info;
    checkpoint *c;
    float got[ALL];
    hr_status st = hr_app_checkpoint_open(path, &info, &c);
    if (st < 0)
        return st;
    st = hr_app_checkpoint_read(c, name, 2, shape, from, n, got);
    if (st == HR_OK)
        assert_memory_equal(got, values + from, (size_t)n * sizeof *got);
    hr_app_checkpoint_close(c);
    return st;
}

static void refused(const char *path, const char *tensor, hr_status want,
                    const char *named)
{
    hr_error_clear();
    assert_int_equal(read_range(path, tensor, 0, ALL), want);
    if (!strstr(hr_last_error(), named))
        fail_msg("\"%s\", without '%s'", hr_last_error(), named);
}

static void every_range_of_every_tensor_comes_back(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("ranges");
    assert_int_equal(write_files(out, 1, good, 3), HR_OK);
    static const char *const names[] = {"e", "m", "w"};
    for (int t = 0; t < 3; t++)
        for (int64_t from = 0; from < ALL; from++)
            for (int64_t n = 0; from + n <= ALL; n += 3)
                assert_int_equal(read_range(out, names[t], from, n), HR_OK);
}

static void what_is_said_of_the_run_comes_back(void **state)
{
    (void)state;
    checkpoint_info info;
    checkpoint *c;
    const char *out = hr_scratch_path("said");
    assert_int_equal(write_files(out, 1, good, 3), HR_OK);
    assert_int_equal(hr_app_checkpoint_open(out, &info, &c), HR_OK);
    assert_int_equal(info.updates, 3);
    assert_string_equal(hr_app_checkpoint_meta(c, "format"), "pt");
    assert_null(hr_app_checkpoint_meta(c, CHECKPOINT_SCHEDULE));
    hr_app_checkpoint_close(c);
}

/* Only who wants something of a file needs it. */
static void a_missing_file_is_named_where_it_is_wanted(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("missing"), *path = file_of("missing", 1, 1);
    assert_int_equal(write_files(out, 1, good, 3), HR_OK);
    assert_int_equal(unlink(path), 0);
    refused(out, "e", HR_ERR_IO, path);
    refused(out, "m", HR_ERR_IO, "No such file");
    assert_int_equal(read_range(out, "w", 0, ALL), HR_OK);
    assert_int_equal(read_range(out, "e", 10, ALL - 10), HR_OK);
}

static void copy(const char *from, const char *to)
{
    size_t n;
    char *bytes = hr_scratch_read(from, &n);
    FILE *f = fopen(to, "wb");
    assert_non_null(bytes);
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    free(bytes);
}

static void a_file_of_another_step_is_named_with_both(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("steps");
    assert_int_equal(write_files(out, 1, good, 3), HR_OK);
    assert_int_equal(write_files(out, 2, good, 3), HR_OK);
    copy(file_of("steps", 1, 2), file_of("steps", 2, 2));
    refused(out, "w", HR_ERR_PARSE, "of step 1, and its index of step 2");
    refused(out, "w", HR_ERR_PARSE, file_of("steps", 2, 2));
}

static void files_that_were_swapped_or_are_of_another_run_are_named(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("swapped");
    assert_int_equal(write_files(out, 1, good, 3), HR_OK);
    copy(file_of("swapped", 1, 2), file_of("swapped", 1, 3));
    refused(out, "m", HR_ERR_PARSE, file_of("swapped", 1, 3));
    refused(out, "m", HR_ERR_PARSE, "not the file that the index beside it lists");
    const char *other = hr_scratch_path("other");
    assert_int_equal(write_files(other, 1, good, 3), HR_OK);
    values[0]++;
    checkpoint_info info = some_info(1);
    assert_int_equal(checkpoint_case_write(out, &info, 10, good, 3), HR_OK);
    copy(file_of("other", 1, 1), file_of("swapped", 1, 1)); /* same names, same sizes */
    refused(out, "e", HR_ERR_PARSE, "not the file that the index beside it lists");
}

static void a_file_that_is_cut_or_changed_is_named(void **state)
{
    (void)state;
    size_t n;
    const char *out = hr_scratch_path("cut"), *path = file_of("cut", 1, 1);
    assert_int_equal(write_files(out, 1, good, 3), HR_OK);
    char *bytes = hr_scratch_read(path, &n);
    hr_scratch_write("cut/checkpoint/step-00000001/model-00001-of-00003.safetensors",
                     bytes, n - 1);
    refused(out, "m", HR_ERR_PARSE, "truncated");
    bytes[n - 1] ^= 1;
    hr_scratch_write("cut/checkpoint/step-00000001/model-00001-of-00003.safetensors",
                     bytes, n);
    refused(out, "m", HR_ERR_PARSE, "'m[13:30]'");
    refused(out, "m", HR_ERR_PARSE, "checksum");
    assert_int_equal(read_range(out, "e", 0, ALL), HR_OK); /* it is not damaged */
    free(bytes);
}

/* Files of ranks that do not agree on who writes what: refused before there is a checkpoint. */
static void what_is_not_a_whole_is_not_committed(void **state)
{
    (void)state;
    static const st_tensor late[] = {{"e[2:30]", ST_F32, 1, {28}}};
    static const st_tensor again[] = {{"e[25:30]", ST_F32, 1, {5}}};
    static const st_tensor wide[] = {{"e[20:30]", ST_F32, 1, {10}}};
    static const st_tensor both[] = {{"e", ST_F32, 2, {ROWS, WIDTH}}};
    static const st_tensor odd[] = {{"e[9:3]", ST_F32, 1, {6}}};
    static const struct {
        const st_tensor *list;
        int before; /* of the good ones */
        const char *named;
    } cases[] = {
        {late, 0, "elements 0 to 1 of tensor 'e' are in no file"},
        {third, 1, "elements 10 to 24 of tensor 'e' are in no file"},
        {again, 3, "is not UTF-8 or in two files"},
        {wide, 3, "'e[20:30]' of 'model-00004-of-00004.safetensors'"},
        {both, 3, "hold the same elements"},
        {odd, 3, "'e[9:3]' is no name of a tensor, nor of a piece"},
    };
    const char *out = hr_scratch_path("whole");
    assert_int_equal(write_files(out, 1, good, 3), HR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        case_file files[4] = {good[0], good[1], good[2]};
        files[cases[i].before] = (case_file){cases[i].list, whole_data, 1};
        assert_true(write_files(out, 2, files, cases[i].before + 1) < 0);
        if (!strstr(hr_last_error(), cases[i].named))
            fail_msg("\"%s\", without '%s'", hr_last_error(), cases[i].named);
        write_files(hr_scratch_path("values"), 1, good, 3);
        assert_int_equal(read_range(out, "e", 0, ALL), HR_OK);
    }
}

static void a_tensor_that_ends_early_or_has_another_shape_is_named(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("short");
    case_file files[] = {{first, first_data, 1}, good[1]}; /* without "m" */
    assert_int_equal(write_files(out, 1, files, 2), HR_OK);
    refused(out, "e", HR_ERR_PARSE, "elements 25 to 29 of tensor 'e' are in no file");
    refused(out, "x", HR_ERR_MISMATCH, "no tensor 'x'");
    checkpoint_info info;
    checkpoint *c;
    float got[ALL];
    static const int64_t other[] = {WIDTH, ROWS}, less[] = {5, WIDTH};
    assert_int_equal(hr_app_checkpoint_open(out, &info, &c), HR_OK);
    assert_int_equal(hr_app_checkpoint_read(c, "w", 2, other, 0, 1, got),
                     HR_ERR_MISMATCH);
    assert_non_null(strstr(hr_last_error(), "F32 [6, 5], but F32 [5, 6]"));
    assert_int_equal(hr_app_checkpoint_read(c, "w", 2, less, 0, 1, got),
                     HR_ERR_MISMATCH);
    hr_app_checkpoint_close(c);
}

static const char *whose(void *ctx, int number)
{
    return number == 2 ? ctx : "?";
}

/* As if its host had a folder of that name of its own. */
static void a_file_that_cannot_be_seen_is_named_with_its_writer(void **state)
{
    (void)state;
    const char *out = hr_scratch_path("unseen");
    char rank[] = "rank 7 on host 'b'";
    checkpoint_info info = some_info(2);
    checkpoint_draft d;
    assert_int_equal(write_files(out, 1, good, 3), HR_OK);
    assert_int_equal(hr_app_draft_begin(out, 2, &d), HR_OK);
    checkpoint_part part = {.number = 1, .of = 2};
    assert_int_equal(hr_app_checkpoint_write_part(d.temp, &info, &part), HR_OK);
    assert_int_equal(hr_app_checkpoint_seal(&d, &info, 1, 2, whose, rank), HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), rank));
    assert_non_null(strstr(hr_last_error(), "model-00002-of-00002.safetensors"));
    assert_int_equal(read_range(out, "e", 0, ALL), HR_OK);
}

static void every_changed_byte_of_the_index_is_refused(void **state)
{
    (void)state;
    size_t n;
    const char *out = hr_scratch_path("index");
    assert_int_equal(write_files(out, 1, good, 3), HR_OK);
    char *text = hr_scratch_read(
        hr_scratch_path("index/checkpoint/step-00000001/" INDEX_NAME), &n);
    assert_non_null(text);
    for (size_t i = 0; i < 2 * n; i++) {
        checkpoint_index *x;
        size_t keep = i < n ? n : i - n; /* then cut it */
        text[i % n] ^= i < n;
        if (hr_app_index_parse("x", text, keep, &x) == HR_OK && keep < n - 1)
            fail_msg("byte %zu of %zu", i, n);
        hr_app_index_free(x); /* that of a text without its last newline */
        text[i % n] ^= i < n;
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_range_of_every_tensor_comes_back),
        cmocka_unit_test(what_is_said_of_the_run_comes_back),
        cmocka_unit_test(a_missing_file_is_named_where_it_is_wanted),
        cmocka_unit_test(a_file_of_another_step_is_named_with_both),
        cmocka_unit_test(files_that_were_swapped_or_are_of_another_run_are_named),
        cmocka_unit_test(a_file_that_is_cut_or_changed_is_named),
        cmocka_unit_test(what_is_not_a_whole_is_not_committed),
        cmocka_unit_test(a_tensor_that_ends_early_or_has_another_shape_is_named),
        cmocka_unit_test(a_file_that_cannot_be_seen_is_named_with_its_writer),
        cmocka_unit_test(every_changed_byte_of_the_index_is_refused),
    };
    return cmocka_run_group_tests(tests, hr_scratch_setup, hr_scratch_teardown);
}
