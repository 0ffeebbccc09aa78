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
    {"w", ST_F32, 2, {2, 3}, weights},   {"none", ST_F32, 2, {0, 5}, NULL},
    {"flags", ST_U8, 1, {3}, flags},     {"steps", ST_I64, 1, {2}, steps},
    {"scalar", ST_F32, 0, {0}, weights},
};
enum { TENSORS = sizeof tensors / sizeof tensors[0] };
static const st_meta meta[] = {{"step", "12"}, {"note", "a \"quoted\" text"}};

/* The bytes of a whole, valid file. */
static char *good_file(size_t *n)
{
    const char *path = hr_scratch_path("good");
    assert_int_equal(hr_app_safetensors_write(path, tensors, TENSORS, meta, 2), HR_OK);
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
    assert_int_equal(hr_app_safetensors_write(path, tensors, TENSORS, meta, 2), HR_OK);
    assert_int_equal(hr_app_safetensors_open(path, &f), HR_OK);
    assert_int_equal(hr_app_safetensors_count(f), TENSORS);
    assert_string_equal(hr_app_safetensors_meta(f, "step"), "12");
    assert_string_equal(hr_app_safetensors_meta(f, "note"), meta[1].value);
    assert_null(hr_app_safetensors_meta(f, "nothing"));
    float w[6], scalar;
    int64_t s[2];
    uint8_t u[3];
    assert_int_equal(
        hr_app_safetensors_get(f, "w", ST_F32, 2, (const int64_t[]){2, 3}, w), HR_OK);
    assert_int_equal(
        hr_app_safetensors_get(f, "steps", ST_I64, 1, (const int64_t[]){2}, s), HR_OK);
    assert_int_equal(
        hr_app_safetensors_get(f, "flags", ST_U8, 1, (const int64_t[]){3}, u), HR_OK);
    assert_int_equal(
        hr_app_safetensors_get(f, "scalar", ST_F32, 0, (const int64_t[]){0}, &scalar),
        HR_OK);
    assert_int_equal(
        hr_app_safetensors_get(f, "none", ST_F32, 2, (const int64_t[]){0, 5}, NULL),
        HR_OK);
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
    assert_int_equal(hr_app_safetensors_write(path, tensors, TENSORS, NULL, 0), HR_OK);
    assert_int_equal(hr_app_safetensors_open(path, &f), HR_OK);
    assert_int_equal(
        hr_app_safetensors_get(f, "w", ST_F32, 2, (const int64_t[]){3, 2}, w),
        HR_ERR_MISMATCH);
    assert_non_null(strstr(hr_last_error(), "F32 [2, 3], but F32 [3, 2]"));
    assert_int_equal(
        hr_app_safetensors_get(f, "w", ST_U8, 2, (const int64_t[]){2, 3}, w),
        HR_ERR_MISMATCH);
    assert_int_equal(hr_app_safetensors_get(f, "v", ST_F32, 1, (const int64_t[]){6}, w),
                     HR_ERR_MISMATCH);
    assert_non_null(strstr(hr_last_error(), "no tensor 'v'"));
    hr_app_safetensors_close(f);
}

static void a_name_twice_is_not_written(void **state)
{
    (void)state;
    st_tensor twice[2] = {tensors[0], tensors[0]};
    const char *path = hr_scratch_path("twice");
    size_t n;
    assert_int_equal(hr_app_safetensors_write(path, twice, 2, NULL, 0), HR_ERR_INVALID);
    assert_null(hr_scratch_read(path, &n));
    twice[0].shape[0] = -1;
    assert_int_equal(hr_app_safetensors_write(path, twice, 1, NULL, 0), HR_ERR_INVALID);
    twice[0].shape[0] = INT64_MAX;
    assert_int_equal(hr_app_safetensors_write(path, twice, 1, NULL, 0), HR_ERR_INVALID);
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
    for (size_t i = 0; i < n; i++) {
        safetensors *f = NULL;
        bytes[i] ^= 1;
        hr_status st = hr_app_safetensors_parse("changed", bytes, n, &f);
        if (st ==
            HR_OK) /* the key of the checksum itself: then there is none to hold to */
            assert_null(hr_app_safetensors_meta(f, "headrace.checksum"));
        hr_app_safetensors_close(f);
        bytes[i] ^= 1;
    }
    free(bytes);
}

static void a_changed_weight_names_the_checksum(void **state)
{
    (void)state;
    size_t n;
    safetensors *f;
    char *bytes = good_file(&n);
    bytes[n - 1] ^= 0x40;
    assert_int_equal(hr_app_safetensors_parse("tampered", bytes, n, &f), HR_ERR_PARSE);
    assert_non_null(strstr(hr_last_error(), "'tampered'"));
    assert_non_null(strstr(hr_last_error(), "checksum"));
    free(bytes);
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
        cmocka_unit_test(bytes_behind_the_end_are_refused),
        cmocka_unit_test(a_header_that_lies_is_refused),
        cmocka_unit_test(overlaps_and_holes_are_refused),
        cmocka_unit_test(what_is_no_such_file_is_refused),
    };
    return cmocka_run_group_tests(tests, hr_scratch_setup, hr_scratch_teardown);
}
