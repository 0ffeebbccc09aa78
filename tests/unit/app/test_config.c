/* Options from a JSON file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "config_json.h"
#include "options.h"
#include "scratch.h"

static train_options o;

static hr_status read_text(const char *text)
{
    option_set given = 0;
    hr_error_clear();
    hr_app_option_defaults(&hr_app_train_table, &o);
    return hr_app_config_parse(&hr_app_train_table, "c.json", text, strlen(text), &o,
                               &given);
}

static void refused(const char *text, hr_status status, const char *named)
{
    assert_int_equal(read_text(text), status);
    if (!strstr(hr_last_error(), "c.json") || !strstr(hr_last_error(), named))
        fail_msg("%s gives \"%s\", without '%s'", text, hr_last_error(), named);
}

static void keys_are_options(void **state)
{
    (void)state;
    assert_int_equal(
        read_text("{\"steps\": 12, \"lr\": 1, \"link-gbps\": 0.5, \"overlap\": "
                  "\"off\", \"delay-wgrad\": false, \"check\": true, "
                  "\"data\": \"x y\"}"),
        HR_OK);
    assert_int_equal(o.steps, 12);
    assert_float_equal(o.lr, 1, 0);
    assert_float_equal(o.link_gbps, 0.5, 0);
    assert_int_equal(o.overlap, 0);
    assert_int_equal(o.delay_wgrad, 0);
    assert_int_equal(o.check, 1);
    assert_string_equal(o.data, "x y");
    assert_int_equal(read_text("{}"), HR_OK);
}

static void the_command_line_wins(void **state)
{
    (void)state;
    static const char text[] = "{\"steps\": 12, \"layers\": 3}";
    const char *path = hr_scratch_write("wins.json", text, sizeof text - 1);
    char *argv[] = {(char[]){"--config"}, (char *)(uintptr_t)path,
                    (char[]){"--steps=5"}};
    assert_int_equal(hr_app_options_train(3, argv, &o), HR_OK);
    assert_int_equal(o.steps, 5);
    assert_int_equal(o.model.layers, 3);
}

static void a_key_of_the_file_counts_as_given(void **state)
{
    (void)state;
    static const char text[] = "{\"microbatches\": 4, \"global-batch-size\": 32}";
    const char *path = hr_scratch_write("given.json", text, sizeof text - 1);
    char *argv[] = {(char[]){"--config"}, (char *)(uintptr_t)path};
    assert_int_equal(hr_app_options_train(2, argv, &o), HR_ERR_INVALID);
    assert_non_null(strstr(hr_last_error(), "--microbatches 4"));
}

static void an_unknown_key_names_the_nearest(void **state)
{
    (void)state;
    refused("{\"stpes\": 3}", HR_ERR_INVALID, "'steps'");
    refused("{\"top_k\": 3}", HR_ERR_INVALID, "'top-k'");
    refused("{\"config\": \"other.json\"}", HR_ERR_INVALID, "'config'");
    refused("{\"help\": true}", HR_ERR_INVALID, "'help'");
}

static void a_value_that_does_not_suit_is_refused(void **state)
{
    (void)state;
    refused("{\"steps\": 0}", HR_ERR_INVALID, "steps 0: outside 1");
    refused("{\"steps\": \"3\"}", HR_ERR_INVALID, "steps cannot be a text");
    refused("{\"steps\": 2.5}", HR_ERR_INVALID, "whole number");
    refused("{\"steps\": null}", HR_ERR_INVALID, "cannot be null");
    refused("{\"steps\": [1]}", HR_ERR_INVALID, "cannot be a list");
    refused("{\"overlap\": \"of\"}", HR_ERR_INVALID, "'off'");
    refused("{\"data\": 3}", HR_ERR_INVALID, "data cannot be a number");
    refused("{\"data\": true}", HR_ERR_INVALID, "data cannot be true");
}

static void what_is_not_json_is_refused_with_its_place(void **state)
{
    (void)state;
    refused("", HR_ERR_PARSE, "line 1");
    refused("{\"steps\": 3,}", HR_ERR_PARSE, "line 1");
    refused("{\n\"steps\" 3}", HR_ERR_PARSE, "line 2");
    refused("{\"steps\": 3} x", HR_ERR_PARSE, "line 1");
    refused("{\"steps\": 3, \"steps\": 4}", HR_ERR_PARSE, "duplicate");
    refused("[1]", HR_ERR_PARSE, "a list where an object");
    refused("{\"data\": \"\xff\"}", HR_ERR_PARSE, "line 1");
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    char *argv[] = {(char[]){"--config"}, (char[]){"/nonexistent.json"}};
    assert_int_equal(hr_app_options_train(2, argv, &o), HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), "'/nonexistent.json'"));
    argv[1] = (char[]){"/"};
    assert_int_equal(hr_app_options_train(2, argv, &o), HR_ERR_IO);
    assert_non_null(strstr(hr_last_error(), "directory"));
}

static void a_file_without_end_is_refused(void **state)
{
    (void)state;
    char *argv[] = {(char[]){"--config"}, (char[]){"/dev/zero"}};
    assert_int_equal(hr_app_options_train(2, argv, &o), HR_ERR_INVALID);
    assert_non_null(strstr(hr_last_error(), "too long"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_options),
        cmocka_unit_test(the_command_line_wins),
        cmocka_unit_test(a_key_of_the_file_counts_as_given),
        cmocka_unit_test(an_unknown_key_names_the_nearest),
        cmocka_unit_test(a_value_that_does_not_suit_is_refused),
        cmocka_unit_test(what_is_not_json_is_refused_with_its_place),
        cmocka_unit_test(a_file_that_cannot_be_read_is_named),
        cmocka_unit_test(a_file_without_end_is_refused),
    };
    return cmocka_run_group_tests(tests, hr_scratch_setup, hr_scratch_teardown);
}
