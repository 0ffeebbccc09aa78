/* Status words and the last error of a thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/base.h"

#include <pthread.h>
#include <string.h>

static void version_is_the_three_numbers(void **state)
{
    char want[32];
    snprintf(want, sizeof want, "%d.%d.%d", HR_VERSION_MAJOR, HR_VERSION_MINOR,
             HR_VERSION_PATCH);
    assert_string_equal(hr_version(), want);
}

static void every_status_has_its_name_and_text(void **state)
{
#define X(name, value, text)                                                           \
    assert_int_equal(HR_##name, value);                                                \
    assert_string_equal(hr_status_name(HR_##name), #name);                             \
    assert_string_equal(hr_status_text(HR_##name), text);
    HR_STATUS_MAP(X)
#undef X
}

static void unknown_status_has_a_name_too(void **state)
{
    assert_string_equal(hr_status_name((hr_status)-99), "?");
    assert_true(strlen(hr_status_text((hr_status)-99)) > 0);
}

static void fail_sets_sentence_and_tag_and_returns_the_status(void **state)
{
    assert_int_equal(hr_fail(HR_ERR_STATE, "spent", "node '%s': %d of %d", "mlp", 1, 2),
                     HR_ERR_STATE);
    assert_string_equal(hr_last_error(), "node 'mlp': 1 of 2");
    assert_string_equal(hr_last_reason(), "spent");
    hr_error_clear();
    assert_string_equal(hr_last_error(), "");
    assert_string_equal(hr_last_reason(), "");
}

static void fail_without_a_tag_forgets_the_tag_before(void **state)
{
    (void)hr_fail(HR_ERR_IO, "first", "one");
    (void)hr_fail(HR_ERR_IO, NULL, "two");
    assert_string_equal(hr_last_reason(), "");
}

static void an_error_can_quote_the_error_before_it(void **state)
{
    (void)hr_fail(HR_ERR_IO, NULL, "disk full");
    (void)hr_fail(HR_ERR_IO, NULL, "checkpoint: %s", hr_last_error());
    assert_string_equal(hr_last_error(), "checkpoint: disk full");
}

static void a_sentence_too_long_ends_in_dots(void **state)
{
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)hr_fail(HR_ERR_IO, NULL, "%s", text);
    size_t n = strlen(hr_last_error());
    assert_in_range(n, 100, 1000);
    assert_string_equal(hr_last_error() + n - 3, "...");
}

static void *fail_elsewhere(void *seen)
{
    strcpy(seen, hr_last_error());
    (void)hr_fail(HR_ERR_IO, "there", "there");
    return NULL;
}

static void each_thread_has_its_own_last_error(void **state)
{
    char seen[64] = "nothing ran";
    pthread_t thread;
    (void)hr_fail(HR_ERR_INVALID, "here", "here");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, seen), 0);
    pthread_join(thread, NULL);
    assert_string_equal(seen, "");
    assert_string_equal(hr_last_error(), "here");
    assert_string_equal(hr_last_reason(), "here");
}

static void the_clock_does_not_go_back(void **state)
{
    int64_t before = hr_now_ns();
    for (int i = 0; i < 1000; i++) {
        int64_t now = hr_now_ns();
        assert_true(now >= before);
        before = now;
    }
    assert_true(before > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_is_the_three_numbers),
        cmocka_unit_test(every_status_has_its_name_and_text),
        cmocka_unit_test(unknown_status_has_a_name_too),
        cmocka_unit_test(fail_sets_sentence_and_tag_and_returns_the_status),
        cmocka_unit_test(fail_without_a_tag_forgets_the_tag_before),
        cmocka_unit_test(an_error_can_quote_the_error_before_it),
        cmocka_unit_test(a_sentence_too_long_ends_in_dots),
        cmocka_unit_test(each_thread_has_its_own_last_error),
        cmocka_unit_test(the_clock_does_not_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
