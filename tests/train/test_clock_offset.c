/* How far apart the clocks of two hosts are, from questions and answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train_lanes.h"

static void of_trips_that_take_as_long_both_ways_it_is_exact(void **state)
{
    const clock_trip ahead[] = {{100, 5110, 120}}, behind[] = {{9000, 15, 9030}};
    assert_int_equal(hr_app_clock_offset(ahead, 1), -5000);
    assert_int_equal(hr_app_clock_offset(behind, 1), 9000);
}

/* The others were held up on one of their ways. */
static void the_quickest_trip_counts(void **state)
{
    const clock_trip trips[] = {{0, 900, 1000}, {2000, 2020, 2040}, {3000, 3001, 3500}};
    assert_int_equal(hr_app_clock_offset(trips, 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_trips_that_take_as_long_both_ways_it_is_exact),
        cmocka_unit_test(the_quickest_trip_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
