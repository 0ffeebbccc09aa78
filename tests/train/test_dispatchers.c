/* Both dispatchers train the same model, bit by bit, as long as there is room for all rows; where there
 * is not, the run ends with words that say what would be enough. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/moe.h"
#include "support/train_case.h"
#include "support/whole_state.h"
#include <stdlib.h>
#include <string.h>

static void small_run(train_options *o, int ep, hr_moe_kind kind)
{
    train_case_init(o, ep, 3, 2);
    o->dispatcher = (int)kind;
}

/* The checkpoint at the end. Removes the folder. */
static char *finish(const train_options *o, size_t *n)
{
    if (hr_app_train_steps(o) < 0)
        fail_msg("ep %d dispatcher %d overlap %d delay %d: %s", o->ep, o->dispatcher,
                 o->overlap, o->delay_wgrad, hr_last_error());
    char *bytes = whole_state_bytes(o->out, n);
    train_case_fini(o);
    assert_non_null(bytes);
    return bytes;
}

static void expect_same(const train_options *o, const char *expected, size_t n)
{
    size_t k;
    char *bytes = finish(o, &k);
    assert_int_equal(k, n);
    if (memcmp(bytes, expected, n) != 0)
        fail_msg("ep %d overlap %d delay %d: other bits than all-to-all", o->ep,
                 o->overlap, o->delay_wgrad);
    free(bytes);
}

static void same_bits_for(int ep)
{
    train_options o;
    size_t n;
    small_run(&o, ep, HR_MOE_ALLTOALL);
    char *expected = finish(&o, &n);
    for (int mode = 0; mode < 4; mode++) {
        small_run(&o, ep, HR_MOE_SYMMETRIC);
        o.overlap = mode & 1;
        o.delay_wgrad = mode >> 1;
        expect_same(&o, expected, n);
    }
    free(expected);
}

static void symmetric_changes_no_bit_on_1_rank(void **state)
{
    same_bits_for(1);
}

static void symmetric_changes_no_bit_on_2_ranks(void **state)
{
    same_bits_for(2);
}

static void symmetric_changes_no_bit_on_4_ranks(void **state)
{
    same_bits_for(4);
}

/* Multi-token prediction has a layer of its own at the same buffers; validation goes through them, too. */
static void symmetric_changes_no_bit_with_mtp_link_and_validation(void **state)
{
    train_options o;
    char *first = NULL;
    size_t n = 0;
    for (int kind = HR_MOE_ALLTOALL; kind <= HR_MOE_SYMMETRIC; kind++) {
        small_run(&o, 2, (hr_moe_kind)kind);
        o.model.mtp = 1;
        o.link_us = 50;
        o.eval_every = 1;
        if (first)
            expect_same(&o, first, n);
        else
            first = finish(&o, &n);
    }
    free(first);
}

/* Twice the even share is enough for this data, and less than the most that could come. */
static void less_room_than_the_worst_case_changes_no_bit(void **state)
{
    train_options o;
    size_t n;
    small_run(&o, 4, HR_MOE_ALLTOALL);
    char *expected = finish(&o, &n);
    small_run(&o, 4, HR_MOE_SYMMETRIC);
    o.capacity_factor = 2;
    expect_same(&o, expected, n);
    free(expected);
}

/* With half of the even share some rank overflows whatever the data is. */
static void overflow_ends_the_run_and_says_what_is_needed(void **state)
{
    static const char *const words[] = {"layer ",
                                        "rank ",
                                        "experts (from expert ",
                                        "its capacity of 16;",
                                        "capacity factor of",
                                        "--capacity-factor"};
    train_options o;
    size_t n;
    small_run(&o, 2, HR_MOE_SYMMETRIC);
    o.capacity_factor = 0.5;
    assert_int_equal(hr_app_train_steps(&o), HR_ERR_STATE);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(hr_last_error(), words[i]))
            fail_msg("no '%s' in: %s", words[i], hr_last_error());
    assert_null(strstr(hr_last_error(), "layer -1")); /* it is known which */
    assert_null(whole_state_bytes(o.out, &n));
    train_case_fini(&o);
}

static void every_access_of_a_symmetric_run_is_ordered_by_events(void **state)
{
    train_options o;
    size_t n;
    assert_int_equal(setenv("HEADRACE_CHECK", "streams", 1), 0);
    for (int overlap = 0; overlap < 2; overlap++) {
        small_run(&o, 2, HR_MOE_SYMMETRIC);
        o.overlap = overlap;
        free(finish(&o, &n));
    }
    unsetenv("HEADRACE_CHECK");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symmetric_changes_no_bit_on_1_rank),
        cmocka_unit_test(symmetric_changes_no_bit_on_2_ranks),
        cmocka_unit_test(symmetric_changes_no_bit_on_4_ranks),
        cmocka_unit_test(symmetric_changes_no_bit_with_mtp_link_and_validation),
        cmocka_unit_test(less_room_than_the_worst_case_changes_no_bit),
        cmocka_unit_test(overflow_ends_the_run_and_says_what_is_needed),
        cmocka_unit_test(every_access_of_a_symmetric_run_is_ordered_by_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
