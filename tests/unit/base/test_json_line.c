/* JSON lines, read back by a parser that is not ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/base.h"

#include <float.h>
#include <jansson.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void a_line_is_as_the_header_shows(void **state)
{
    hr_json j;
    char buf[256];
    hr_json_begin(&j, buf, sizeof buf);
    hr_json_int(&j, "step", 12);
    hr_json_real(&j, "loss", 2.25);
    hr_json_bool(&j, "overlap", true);
    hr_json_text(&j, "name", "mlp");
    hr_json_text(&j, "note", NULL);
    assert_int_equal(hr_json_end(&j), HR_OK);
    assert_string_equal(buf, "{\"step\": 12, \"loss\": 2.25, \"overlap\": true, "
                             "\"name\": \"mlp\", \"note\": null}");
}

static void an_empty_object_is_one(void **state)
{
    hr_json j;
    char buf[3];
    hr_json_begin(&j, buf, sizeof buf);
    assert_int_equal(hr_json_end(&j), HR_OK);
    assert_string_equal(buf, "{}");
}

static json_t *read_back(const char *text)
{
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);
    if (!root)
        fail_msg("%s in %s", error.text, text);
    return root;
}

static void reals_read_back_to_the_bit(void **state)
{
    static const double values[] = {0,
                                    -0.0,
                                    1,
                                    0.1,
                                    1.0 / 3,
                                    DBL_MAX,
                                    DBL_MIN,
                                    -DBL_MIN / 3,
                                    5e-324,
                                    1e22,
                                    1e23,
                                    123456789.5,
                                    2.2999999523162842};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        hr_json j;
        char buf[128];
        hr_json_begin(&j, buf, sizeof buf);
        hr_json_real(&j, "x", values[i]);
        assert_int_equal(hr_json_end(&j), HR_OK);
        json_t *root = read_back(buf);
        double got = json_number_value(json_object_get(root, "x"));
        assert_true(got == values[i]);
        json_decref(root);
    }
}

static void reals_are_short_where_that_is_exact(void **state)
{
    hr_json j;
    char buf[64];
    hr_json_begin(&j, buf, sizeof buf);
    hr_json_real(&j, "x", 0.1);
    hr_json_real(&j, "least", DBL_TRUE_MIN); /* has one digit, not fifteen */
    assert_int_equal(hr_json_end(&j), HR_OK);
    assert_string_equal(buf, "{\"x\": 0.1, \"least\": 5e-324}");
}

static void what_is_not_finite_becomes_null(void **state)
{
    hr_json j;
    char buf[64];
    hr_json_begin(&j, buf, sizeof buf);
    hr_json_real(&j, "a", NAN);
    hr_json_real(&j, "b", -INFINITY);
    assert_int_equal(hr_json_end(&j), HR_OK);
    assert_string_equal(buf, "{\"a\": null, \"b\": null}");
}

static void integers_keep_all_digits(void **state)
{
    hr_json j;
    char buf[128];
    hr_json_begin(&j, buf, sizeof buf);
    hr_json_int(&j, "least", LLONG_MIN);
    hr_json_int(&j, "most", LLONG_MAX);
    assert_int_equal(hr_json_end(&j), HR_OK);
    json_t *root = read_back(buf);
    assert_true(json_integer_value(json_object_get(root, "least")) == LLONG_MIN);
    assert_true(json_integer_value(json_object_get(root, "most")) == LLONG_MAX);
    json_decref(root);
}

static void any_character_survives(void **state)
{
    char all[128], buf[1024];
    for (int c = 1; c < 128; c++)
        all[c - 1] = (char)c;
    all[127] = '\0';
    hr_json j;
    hr_json_begin(&j, buf, sizeof buf);
    hr_json_text(&j, "ascii \"keys\" too\n", all);
    hr_json_text(&j, "wide", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\xb0");
    assert_int_equal(hr_json_end(&j), HR_OK);
    json_t *root = read_back(buf);
    assert_string_equal(
        json_string_value(json_object_get(root, "ascii \"keys\" too\n")), all);
    assert_string_equal(json_string_value(json_object_get(root, "wide")),
                        "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\xb0");
    json_decref(root);
}

static void bytes_that_are_no_text_are_replaced(void **state)
{
    /* a lone lead, an overlong slash, a surrogate, past the last character, a stray tail */
    static const char *const broken[] = {"a\xc3", "\xc0\xaf", "\xed\xa0\x80",
                                         "\xf4\x90\x80\x80", "\x80z"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        hr_json j;
        char buf[128];
        hr_json_begin(&j, buf, sizeof buf);
        hr_json_text(&j, "x", broken[i]);
        assert_int_equal(hr_json_end(&j), HR_OK);
        json_t *root = read_back(buf);
        assert_non_null(
            strstr(json_string_value(json_object_get(root, "x")), "\xef\xbf\xbd"));
        json_decref(root);
    }
}

/* Every capacity short of enough is refused, and nothing is written past it. */
static void a_line_that_does_not_fit_is_refused_and_empty(void **state)
{
    static const char whole[] = "{\"key\": \"text\", \"n\": 1.5}";
    for (size_t cap = 0; cap <= sizeof whole; cap++) {
        hr_json j;
        char *buf = malloc(cap ? cap : 1);
        assert_non_null(buf);
        hr_json_begin(&j, buf, cap);
        hr_json_text(&j, "key", "text");
        hr_json_real(&j, "n", 1.5);
        hr_status st = hr_json_end(&j);
        if (cap < sizeof whole) {
            assert_int_equal(st, HR_ERR_INVALID);
            assert_string_equal(hr_last_reason(), "json_overflow");
            assert_true(cap == 0 || buf[0] == '\0');
        } else {
            assert_int_equal(st, HR_OK);
            assert_string_equal(buf, whole);
        }
        free(buf);
    }
}

/* Needs a locale with another decimal sign; few machines have one, so several are tried. */
static void the_locale_does_not_matter(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8",
                                        "ps_AF.UTF-8", "de_DE"};
    const char *set = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !set; i++)
        set = setlocale(LC_NUMERIC, names[i]);
    if (!set)
        skip();
    hr_json j;
    char buf[64];
    hr_json_begin(&j, buf, sizeof buf);
    hr_json_real(&j, "x", 0.5);
    hr_status st = hr_json_end(&j);
    setlocale(LC_NUMERIC, "C");
    assert_int_equal(st, HR_OK);
    assert_string_equal(buf, "{\"x\": 0.5}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_as_the_header_shows),
        cmocka_unit_test(an_empty_object_is_one),
        cmocka_unit_test(reals_read_back_to_the_bit),
        cmocka_unit_test(reals_are_short_where_that_is_exact),
        cmocka_unit_test(what_is_not_finite_becomes_null),
        cmocka_unit_test(integers_keep_all_digits),
        cmocka_unit_test(any_character_survives),
        cmocka_unit_test(bytes_that_are_no_text_are_replaced),
        cmocka_unit_test(a_line_that_does_not_fit_is_refused_and_empty),
        cmocka_unit_test(the_locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
