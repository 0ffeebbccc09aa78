/* Ranges, the probe and interned names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "trace/probe.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct seen {
    int n;
    hr_probe_record records[8];
};

static void see(void *ctx, const hr_probe_record *r)
{
    struct seen *s = ctx;
    if (s->n < 8)
        s->records[s->n] = *r;
    s->n++;
}

static int restore(void **state)
{
    hr_probe_set(NULL, NULL); /* first: it points into the test that ended */
    hr_range_enable(true);
    while (hr_range_depth() > 0)
        hr_range_pop();
    return 0;
}

static void ranges_nest_and_the_probe_sees_them(void **state)
{
    struct seen s = {0};
    hr_probe_set(see, &s);
    hr_range_push("outer");
    hr_range_push("inner");
    assert_int_equal(hr_range_depth(), 2);
    hr_range_pop();
    assert_int_equal(hr_range_depth(), 1);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.records[0].kind, HR_PROBE_PUSH);
    assert_string_equal(s.records[1].text, "inner");
    assert_int_equal(s.records[2].kind, HR_PROBE_POP);
}

static void a_pop_too_many_does_nothing(void **state)
{
    struct seen s = {0};
    hr_probe_set(see, &s);
    hr_range_pop();
    assert_int_equal(hr_range_depth(), 0);
    assert_int_equal(s.n, 0);
}

static void ranges_that_are_off_leave_no_trace(void **state)
{
    struct seen s = {0};
    hr_probe_set(see, &s);
    hr_range_enable(false);
    hr_range_push("unseen");
    hr_range_pop();
    assert_int_equal(s.n, 0);
    hr_range_enable(true);
    hr_range_push("seen");
    assert_int_equal(s.n, 1);
}

static void the_probe_can_be_taken_away(void **state)
{
    struct seen s = {0};
    hr_probe_set(see, &s);
    HR_PROBE(.kind = HR_PROBE_FREE, .a = &s, .value = 5);
    hr_probe_set(NULL, NULL);
    HR_PROBE(.kind = HR_PROBE_FREE);
    assert_int_equal(s.n, 1);
    assert_ptr_equal(s.records[0].a, &s);
    assert_int_equal(s.records[0].value, 5);
}

static void *push_elsewhere(void *depth)
{
    hr_range_push("there");
    *(int *)depth = hr_range_depth();
    return NULL;
}

static void ranges_and_probe_belong_to_the_thread(void **state)
{
    struct seen s = {0};
    int depth = 0;
    pthread_t thread;
    hr_probe_set(see, &s);
    hr_range_push("here");
    assert_int_equal(pthread_create(&thread, NULL, push_elsewhere, &depth), 0);
    pthread_join(thread, NULL);
    assert_int_equal(depth, 1);
    assert_int_equal(s.n, 1);
    assert_int_equal(hr_range_depth(), 1);
}

static void the_same_text_is_kept_once(void **state)
{
    char text[16] = "layer0.mlp";
    const char *kept = hr_intern(text);
    assert_ptr_not_equal(kept, text);
    assert_ptr_equal(hr_intern("layer0.mlp"), kept);
    text[5] = '1';
    assert_string_equal(kept, "layer0.mlp");
    assert_ptr_not_equal(hr_intern(text), kept);
    assert_string_equal(hr_intern(NULL), "");
}

enum { NAMES = 1000 };

static void *intern_all(void *out)
{
    const char **names = out;
    for (int i = 0; i < NAMES; i++) {
        char text[32];
        snprintf(text, sizeof text, "name %d", i);
        names[i] = hr_intern(text);
    }
    return NULL;
}

static void threads_intern_the_same_addresses(void **state)
{
    static const char *names[3][NAMES];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, intern_all, names[i]), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < NAMES; i++) {
        assert_ptr_equal(names[0][i], names[1][i]);
        assert_ptr_equal(names[0][i], names[2][i]);
    }
    assert_string_equal(names[0][999], "name 999");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(ranges_nest_and_the_probe_sees_them, restore),
        cmocka_unit_test_teardown(a_pop_too_many_does_nothing, restore),
        cmocka_unit_test_teardown(ranges_that_are_off_leave_no_trace, restore),
        cmocka_unit_test_teardown(the_probe_can_be_taken_away, restore),
        cmocka_unit_test_teardown(ranges_and_probe_belong_to_the_thread, restore),
        cmocka_unit_test(the_same_text_is_kept_once),
        cmocka_unit_test(threads_intern_the_same_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
