/* Profiles: what is written reads as the same, and what is wrong is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "scratch.h"
#include "stage_list.h"

static profile *made(void)
{
    profile *p = NULL;
    assert_int_equal(hr_app_profile_create(2, 1, &p), HR_OK);
    p->width = 64;
    p->ep = 2;
    p->transfer_us = 12.5;
    p->latency_us = 20;
    for (int i = 0; i < hr_app_profile_rows(p); i++)
        p->row[i] = (profile_row){.forward_us = 100.125 + i,
                                  .input_grad_us = 90 + i,
                                  .weight_grad_us = 80,
                                  .activation_bytes = 5000000000 + i,
                                  .stash_bytes = 4000,
                                  .boundary_bytes = 300 + i,
                                  .param_bytes = 9007199254740992};
    return p;
}

static char *written(size_t *n)
{
    profile *p = made();
    assert_int_equal(hr_app_profile_write(p, hr_scratch_path("p.json")), HR_OK);
    hr_app_profile_destroy(p);
    return hr_scratch_read(hr_scratch_path("p.json"), n);
}

static void what_is_written_reads_as_the_same(void **state)
{
    (void)state;
    profile *p = made(), *again = NULL;
    assert_int_equal(hr_app_profile_write(p, hr_scratch_path("p.json")), HR_OK);
    assert_int_equal(hr_app_profile_read(hr_scratch_path("p.json"), &again), HR_OK);
    assert_int_equal(again->layers, 2);
    assert_int_equal(again->mtp, 1);
    assert_int_equal(again->width, 64);
    assert_int_equal(again->ep, 2);
    assert_float_equal(again->transfer_us, 12.5, 0);
    assert_float_equal(again->latency_us, 20, 0);
    assert_int_equal(hr_app_profile_rows(again), 5);
    assert_memory_equal(again->row, p->row, 5 * sizeof *p->row);
    hr_app_profile_destroy(p);
    hr_app_profile_destroy(again);
}

/* Reads what is written with `from` replaced; it has to be refused in words that have `named`. */
static void refused(const char *from, const char *to, const char *named)
{
    size_t n;
    char changed[4096], *text = written(&n);
    const char *at = strstr(text, from);
    profile *p = NULL;
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to,
             at + strlen(from));
    free(text);
    hr_error_clear();
    assert_int_equal(hr_app_profile_parse("p.json", changed, strlen(changed), &p),
                     HR_ERR_PARSE);
    assert_null(p);
    if (!strstr(hr_last_error(), named) || !strstr(hr_last_error(), "p.json"))
        fail_msg("\"%s\" does not name '%s'", hr_last_error(), named);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    refused("\"version\": 1", "\"version\": 2", "version");
    refused("\"version\": 1,", "", "version");
    refused("\"latency_us\"", "\"latency\"", "'latency'");
    refused("\"layers\": 2", "\"layers\": 3", "list of 6");
    refused("\"layers\": 2", "\"layers\": 0", "outside 1 to 4096");
    refused("\"layers\": 2", "\"layers\": 1000000000000", "outside");
    refused("\"width\": 64", "\"width\": 6.5", "whole number");
    refused("\"width\": 64, ", "", "'width'");
    refused("\"mtp 0\"", "\"mtp 1\"", "'mtp 0' is expected");
    refused("\"forward_us\": 100.125", "\"forward_us\": -1", "embedding");
    refused("\"forward_us\": 100.125", "\"forward_us\": null", "forward_us");
    refused("\"stash_bytes\": 4000", "\"stash_bytes\": 5000000001", "above");
    refused("\"latency_us\": 20.000", "\"latency_us\": 1, \"latency_us\": 2", "JSON");
    refused("]", "", "JSON");
}

static void a_text_that_stops_anywhere_is_refused(void **state)
{
    (void)state;
    size_t n;
    char *text = written(&n);
    profile *p = NULL;
    for (size_t k = 0; k + 2 < n; k++) { /* all but its last line feed */
        assert_true(hr_app_profile_parse("p.json", text, k, &p) < 0);
        assert_null(p);
    }
    free(text);
}

static void a_profile_of_100_mb_is_refused_unread(void **state)
{
    (void)state;
    char byte = '{';
    profile *p = NULL;
    assert_int_equal(hr_app_profile_parse("p.json", &byte, 100000000, &p),
                     HR_ERR_PARSE);
    assert_string_equal(hr_last_reason(), "profile_size");
}

static void a_profile_that_cannot_be_written_leaves_nothing(void **state)
{
    (void)state;
    profile *p = made();
    assert_int_equal(hr_app_profile_write(p, hr_scratch_path("no/folder/p.json")),
                     HR_ERR_IO);
    hr_app_profile_destroy(p);
}

static void lists_of_stages_are_read(void **state)
{
    (void)state;
    static const char *const wrong[] = {"x", "1-", "3-2", "1,,2", "1,", "-1", "65535"};
    assert_true(hr_app_stage_list_ok("none") && hr_app_stage_list_ok("all"));
    assert_true(hr_app_stage_list_ok("0,4-7,65534"));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(hr_app_stage_list_ok(wrong[i]));
    assert_true(hr_app_stage_list_has("all", 9));
    assert_false(hr_app_stage_list_has("none", 0));
    for (int i = 0; i < 10; i++)
        assert_int_equal(hr_app_stage_list_has("0,4-7", i), i == 0 || (i > 3 && i < 8));
    assert_int_equal(hr_app_stage_list_last("4-7,2"), 7);
    assert_int_equal(hr_app_stage_list_last("all"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_as_the_same),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_text_that_stops_anywhere_is_refused),
        cmocka_unit_test(a_profile_of_100_mb_is_refused_unread),
        cmocka_unit_test(a_profile_that_cannot_be_written_leaves_nothing),
        cmocka_unit_test(lists_of_stages_are_read),
    };
    return cmocka_run_group_tests(tests, hr_scratch_setup, hr_scratch_teardown);
}
