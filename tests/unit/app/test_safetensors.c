/* Files of tensors: what was written comes back, and whatever is not exactly so is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "safetensors.h"
#include "scratch.h"

static const float weights[6] = {1, 2, 3, 4, 5, 6};
static const int64_t steps[2] = {-7, INT64_MAX};
static const uint8_t flags[3] = {0, 127, 255};

static const st_tensor tensors[] = {
    {"w", ST_F32, 2, {2, 3}},  {"none", ST_F32, 2, {0, 5}}, {"flags", ST_U8, 1, {3}},
    {"steps", ST_I64, 1, {2}}, {"scalar", ST_F32, 0, {0}},
};
static const void *const contents[] = {weights, NULL, flags, steps, weights};
enum { TENSORS = sizeof tensors / sizeof tensors[0] };
static const st_meta meta[] = {{"step", "12"}, {"note", "a \"quoted\" text"}};

static hr_status write_all(const char *path, const st_tensor *list, int n, int n_meta)
{
    st_writer *w;
    hr_status st = hr_app_safetensors_begin(path, list, n, meta, n_meta, &w);
    for (int i = 0; i < n && st == HR_OK; i++)
        hr_app_safetensors_put(w, contents[i]);
    return st == HR_OK ? hr_app_safetensors_commit(w) : st;
}

/* Tensor `name`, which must have this dtype and shape, whole. */
static hr_status get(const safetensors *f, st_tensor want, void *dst)
{
    const st_tensor *t = hr_app_safetensors_find(f, want.name);
    assert_non_null(t);
    hr_status st = hr_app_safetensors_check(f, t, &want);
    return st < 0 ? st
                  : hr_app_safetensors_read(f, t, 0, hr_app_safetensors_bytes(t), dst);
}

/* The first failure of opening it, and of reading all that is in it. */
static hr_status read_all(const char *name, const char *bytes, size_t n)
{
    safetensors *f;
    char room[64];
    hr_status st = hr_app_safetensors_parse(name, bytes, n, &f);
    for (int i = 0; st == HR_OK && i < hr_app_safetensors_count(f); i++) {
        const st_tensor *t = hr_app_safetensors_at(f, i);
        assert_true(hr_app_safetensors_bytes(t) <= sizeof room);
        st = hr_app_safetensors_read(f, t, 0, hr_app_safetensors_bytes(t), room);
    }
    hr_app_safetensors_close(f);
    return st;
}

/* The bytes of a whole, valid file. */
static char *good_file(size_t *n)
{
    const char *path = hr_scratch_path("good");
    assert_int_equal(write_all(path, tensors, TENSORS, 2), HR_OK);
    char *bytes = hr_scratch_read(path, n);
    assert_non_null(bytes);
    return bytes;
}

/* A file with this header and `data` bytes of zeroes. */
static hr_status parse(const char *header, size_t data, safetensors **out)
{
    size_t length = strlen(header);
    uint8_t *bytes = calloc(1, 8 + length + data);
    assert_non_null(bytes);
    bytes[0] = (uint8_t)length;
    bytes[1] = (uint8_t)(length >> 8);
    memcpy(bytes + 8, header, length);
    hr_status st = hr_app_safetensors_parse("t.bin", bytes, 8 + length + data, out);
    free(bytes);
    return st;
}

static void refused(const char *header, size_t data, const char *named)
{
    safetensors *f = NULL;
    hr_error_clear();
    assert_int_equal(parse(header, data, &f), HR_ERR_PARSE);
    assert_null(f);
    if (!strstr(hr_last_error(), "'t.bin', byte ") || !strstr(hr_last_error(), named))
        fail_msg("%s gives \"%s\", without '%s'", header, hr_last_error(), named);
}

static void what_is_written_comes_back(void **state)
{
    (void)state;
    safetensors *f;
    const char *path = hr_scratch_path("round");
    assert_int_equal(write_all(path, tensors, TENSORS, 2), HR_OK);
    assert_int_equal(hr_app_safetensors_open(path, &f), HR_OK);
    assert_int_equal(hr_app_safetensors_count(f), TENSORS);
    assert_string_equal(hr_app_safetensors_meta(f, "step"), "12");
    assert_string_equal(hr_app_safetensors_meta(f, "note"), meta[1].value);
    assert_null(hr_app_safetensors_meta(f, "nothing"));
    float w[6], scalar;
    int64_t s[2];
    uint8_t u[3];
    assert_int_equal(get(f, tensors[0], w), HR_OK);
    assert_int_equal(get(f, tensors[3], s), HR_OK);
    assert_int_equal(get(f, tensors[2], u), HR_OK);
    assert_int_equal(get(f, tensors[4], &scalar), HR_OK);
    assert_int_equal(get(f, tensors[1], NULL), HR_OK);
    assert_memory_equal(w, weights, sizeof w);
    assert_memory_equal(s, steps, sizeof s);
    assert_memory_equal(u, flags, sizeof u);
    assert_float_equal(scalar, 1, 0);
    hr_app_safetensors_close(f);
}

static void data_begins_at_a_multiple_of_eight(void **state)
{
    (void)state;
    size_t n;
    char *bytes = good_file(&n);
    assert_int_equal((uint8_t)bytes[0] % 8, 0);
    free(bytes);
}

static void another_shape_or_dtype_is_refused_with_both(void **state)
{
    (void)state;
    safetensors *f;
    float w[6];
    const char *path = hr_scratch_path("shape");
    assert_int_equal(write_all(path, tensors, TENSORS, 0), HR_OK);
    assert_int_equal(hr_app_safetensors_open(path, &f), HR_OK);
    st_tensor other = {"w", ST_F32, 2, {3, 2}};
    assert_int_equal(get(f, other, w), HR_ERR_MISMATCH);
    assert_non_null(strstr(hr_last_error(), "F32 [2, 3], but F32 [3, 2]"));
    other = tensors[0];
    other.dtype = ST_U8;
    assert_int_equal(get(f, other, w), HR_ERR_MISMATCH);
    assert_null(hr_app_safetensors_find(f, "v"));
    hr_app_safetensors_close(f);
}

static void a_name_twice_is_not_written(void **state)
{
    (void)state;
    st_tensor twice[2] = {tensors[0], tensors[0]};
    const char *path = hr_scratch_path("twice");
    size_t n;
    assert_int_equal(write_all(path, twice, 2, 0), HR_ERR_INVALID);
    assert_null(hr_scratch_read(path, &n));
    twice[0].shape[0] = -1;
    assert_int_equal(write_all(path, twice, 1, 0), HR_ERR_INVALID);
    twice[0].shape[0] = INT64_MAX;
    assert_int_equal(write_all(path, twice, 1, 0), HR_ERR_INVALID);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    size_t n;
    char *bytes = good_file(&n);
    for (size_t cut = 0; cut < n; cut++) {
        safetensors *f = NULL;
        assert_int_equal(hr_app_safetensors_parse("cut", bytes, cut, &f), HR_ERR_PARSE);
        assert_null(f);
    }
    free(bytes);
}

static void every_changed_byte_is_refused(void **state)
{
    (void)state;
    size_t n;
    char *bytes = good_file(&n);
    size_t key = (size_t)(strstr(bytes + 8, "headrace.header") - bytes);
    for (size_t i = 0; i < n; i++) {
        if (i == key) /* of the checksum: then there is none to hold to */
            i += strlen("headrace.header");
        bytes[i] ^= 1;
        if (read_all("changed", bytes, n) != HR_ERR_PARSE)
            fail_msg("byte %zu", i);
        bytes[i] ^= 1;
    }
    free(bytes);
}

static void a_changed_weight_names_the_checksum(void **state)
{
    (void)state;
    size_t n;
    char *bytes = good_file(&n);
    bytes[n - 1] ^= 0x40;
    assert_int_equal(read_all("tampered", bytes, n), HR_ERR_PARSE);
    assert_non_null(strstr(hr_last_error(), "'tampered'"));
    assert_non_null(strstr(hr_last_error(), "'scalar'"));
    assert_non_null(strstr(hr_last_error(), "checksum"));
    free(bytes);
}

/* Two signs, of numbers side by side: each change alone is found, and so are both. */
static void two_changed_signs_do_not_undo_each_other(void **state)
{
    (void)state;
    size_t n;
    char *bytes = good_file(&n);
    char *w = bytes + 8 + *(const uint16_t *)(const void *)bytes;
    for (int i = 0; i < 4; i++)
        for (int k = i + 1; k < 5; k++) {
            w[4 * i + 3] ^= (char)0x80;
            w[4 * k + 3] ^= (char)0x80;
            assert_int_equal(read_all("signs", bytes, n), HR_ERR_PARSE);
            w[4 * i + 3] ^= (char)0x80;
            w[4 * k + 3] ^= (char)0x80;
        }
    assert_int_equal(read_all("signs", bytes, n), HR_OK);
    free(bytes);
}

/* What a writer is not given is not made up. */
static void a_file_without_all_its_bytes_is_not_written(void **state)
{
    (void)state;
    const char *path = hr_scratch_path("short");
    st_writer *w;
    size_t n;
    assert_int_equal(hr_app_safetensors_begin(path, tensors, 2, NULL, 0, &w), HR_OK);
    hr_app_safetensors_put(w, weights);
    assert_int_equal(hr_app_safetensors_commit(w), HR_ERR_STATE);
    assert_null(hr_scratch_read(path, &n));
}

/* A megabyte is read at once, so this crosses from one to the next. */
static void a_part_of_a_large_tensor_is_what_was_written_there(void **state)
{
    (void)state;
    enum { N = 600001 };
    const char *path = hr_scratch_path("large");
    st_tensor t = {"large", ST_F32, 1, {N}};
    float *all = malloc(N * sizeof *all), part[1000];
    st_writer *w;
    safetensors *f;
    assert_non_null(all);
    for (int i = 0; i < N; i++)
        all[i] = (float)i;
    assert_int_equal(hr_app_safetensors_begin(path, &t, 1, NULL, 0, &w), HR_OK);
    hr_app_safetensors_put(w, all);
    assert_int_equal(hr_app_safetensors_commit(w), HR_OK);
    assert_int_equal(hr_app_safetensors_open(path, &f), HR_OK);
    const st_tensor *at = hr_app_safetensors_at(f, 0);
    for (size_t first = 0; first < N; first += 131000) {
        assert_int_equal(hr_app_safetensors_read(f, at, first * 4, sizeof part, part),
                         HR_OK);
        assert_memory_equal(part, all + first, sizeof part);
    }
    assert_int_equal(hr_app_safetensors_read(f, at, N * 4, 4, part), HR_ERR_INVALID);
    hr_app_safetensors_close(f);
    free(all);
}

static void bytes_behind_the_end_are_refused(void **state)
{
    (void)state;
    size_t n;
    safetensors *f;
    char *bytes = good_file(&n);
    bytes = realloc(bytes, n + 1);
    assert_non_null(bytes);
    bytes[n] = 0;
    assert_int_equal(hr_app_safetensors_parse("longer", bytes, n + 1, &f),
                     HR_ERR_PARSE);
    assert_non_null(strstr(hr_last_error(), "belong to no tensor"));
    free(bytes);
}

static void a_header_that_lies_is_refused(void **state)
{
    (void)state;
    refused("[]", 0, "no JSON object");
    refused("{\"a\": }", 0, "not JSON");
    refused("{\"a\": 3}", 0, "tensor 'a'");
    refused("{\"a\": {\"dtype\":\"F32\",\"shape\":[1]}}", 4, "tensor 'a'");
    refused("{\"a\": {\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2,
            "F32, I64");
    refused("{\"a\": {\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
            "shape");
    refused("{\"a\": {\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4,
            "shape");
    refused("{\"a\": "
            "{\"dtype\":\"F32\",\"shape\":[9223372036854775807,9223372036854775807],"
            "\"data_offsets\":[0,4]}}",
            4, "shape");
    refused("{\"a\": "
            "{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}",
            4, "shape");
    refused("{\"a\": {\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4,
            "offsets");
    refused("{\"a\": {\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,\"4\"]}}", 4,
            "offsets");
    refused("{\"a\": {\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 8,
            "data_offsets alone");
    refused("{\"a\": {\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
            "disagree");
    refused("{\"a\": {\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4,
            "truncated");
    refused("{\"__metadata__\": {\"a\": 3}}", 0, "not a text");
    refused("{\"__metadata__\": []}", 0, "not an object");
}

static void overlaps_and_holes_are_refused(void **state)
{
    (void)state;
#define ENTRY(name, from, to)                                                          \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" from "," to "]}"
    safetensors *f;
    assert_int_equal(
        parse("{" ENTRY("b", "4", "8") "," ENTRY("a", "0", "4") "}", 8, &f), HR_OK);
    assert_string_equal(hr_app_safetensors_at(f, 0)->name, "a");
    assert_null(hr_app_safetensors_at(f, 2));
    hr_app_safetensors_close(f);
    refused("{" ENTRY("a", "0", "4") "," ENTRY("b", "2", "6") "}", 6, "overlap");
    refused("{" ENTRY("a", "0", "4") "," ENTRY("b", "0", "4") "}", 4, "overlap");
    refused("{" ENTRY("a", "0", "4") "," ENTRY("b", "5", "9") "}", 9,
            "hole before tensor 'b'");
    refused("{" ENTRY("a", "1", "5") "}", 5, "hole before tensor 'a'");
    refused("{" ENTRY("a", "0", "4") "," ENTRY("a", "0", "4") "}", 4,
            "not JSON: duplicate");
#undef ENTRY
}

static void what_is_no_such_file_is_refused(void **state)
{
    (void)state;
    safetensors *f;
    assert_int_equal(hr_app_safetensors_open("/nonexistent", &f), HR_ERR_IO);
    assert_int_equal(hr_app_safetensors_open("/", &f), HR_ERR_IO);
    const char *path = hr_scratch_write("text", "#include <stdio.h>\n", 19);
    assert_int_equal(hr_app_safetensors_open(path, &f), HR_ERR_PARSE);
    assert_non_null(strstr(hr_last_error(), path));
    assert_non_null(strstr(hr_last_error(), "no safetensors file"));
    assert_int_equal(hr_app_safetensors_parse("empty", "", 0, &f), HR_ERR_PARSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_comes_back),
        cmocka_unit_test(data_begins_at_a_multiple_of_eight),
        cmocka_unit_test(another_shape_or_dtype_is_refused_with_both),
        cmocka_unit_test(a_name_twice_is_not_written),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_changed_byte_is_refused),
        cmocka_unit_test(a_changed_weight_names_the_checksum),
        cmocka_unit_test(two_changed_signs_do_not_undo_each_other),
        cmocka_unit_test(a_file_without_all_its_bytes_is_not_written),
        cmocka_unit_test(a_part_of_a_large_tensor_is_what_was_written_there),
        cmocka_unit_test(bytes_behind_the_end_are_refused),
        cmocka_unit_test(a_header_that_lies_is_refused),
        cmocka_unit_test(overlaps_and_holes_are_refused),
        cmocka_unit_test(what_is_no_such_file_is_refused),
    };
    return cmocka_run_group_tests(tests, hr_scratch_setup, hr_scratch_teardown);
}
