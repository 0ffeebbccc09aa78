/* Shares of CPUs follow the machine's tree. Machines are described in hwloc's words, so that they can be
 * larger than the one that runs this. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/cpu_order.h"

static void expect_share(const hr__cpu_order *o, const cpu_set_t *may, int first,
                         int count, const int *want, int n)
{
    cpu_set_t share;
    hr__cpu_share(o, may, first, count, &share);
    assert_int_equal(CPU_COUNT(&share), n);
    for (int i = 0; i < n; i++)
        assert_true(CPU_ISSET(want[i], &share));
}

static cpu_set_t all_below(int n)
{
    cpu_set_t s;
    CPU_ZERO(&s);
    for (int i = 0; i < n; i++)
        CPU_SET(i, &s);
    return s;
}

/* Two nodes of two cores of two threads; as many systems count them, first threads first. */
static const char split_threads[] = "numa:2 core:2 pu:2(indexes=0,4,1,5,2,6,3,7)";

static void threads_of_a_core_stay_together(void **state)
{
    hr__cpu_order o;
    cpu_set_t may = all_below(8);
    assert_true(hr__cpu_order_read(split_threads, &o));
    expect_share(&o, &may, 0, 2, (int[]){0, 4}, 2);
    expect_share(&o, &may, 2, 2, (int[]){1, 5}, 2);
    expect_share(&o, &may, 6, 2, (int[]){3, 7}, 2);
}

static void a_node_stays_together(void **state)
{
    hr__cpu_order o;
    cpu_set_t may = all_below(8);
    assert_true(hr__cpu_order_read(split_threads, &o));
    expect_share(&o, &may, 0, 4, (int[]){0, 4, 1, 5}, 4);
    expect_share(&o, &may, 4, 4, (int[]){2, 6, 3, 7}, 4);
    /* nodes whose numbers alternate */
    assert_true(hr__cpu_order_read("numa:2 core:4 pu:1(indexes=0,2,4,6,1,3,5,7)", &o));
    expect_share(&o, &may, 4, 4, (int[]){1, 3, 5, 7}, 4);
}

static void shares_keep_within_the_mask(void **state)
{
    hr__cpu_order o;
    cpu_set_t may = all_below(8);
    CPU_CLR(4, &may);
    CPU_CLR(1, &may);
    assert_true(hr__cpu_order_read(split_threads, &o));
    expect_share(&o, &may, 0, 2, (int[]){0, 5}, 2);
    expect_share(&o, &may, 2, 2, (int[]){2, 6}, 2);
    expect_share(&o, &may, 4, 4, (int[]){3, 7}, 2); /* no more than there are */
    expect_share(&o, &may, 6, 2, NULL, 0);
}

static void without_an_order_shares_go_by_number(void **state)
{
    cpu_set_t may = all_below(8);
    expect_share(NULL, &may, 2, 2, (int[]){2, 3}, 2);
}

/* A machine that says little, or nothing: every CPU is in the order, once. */
static void expect_all_once(const hr__cpu_order *o)
{
    cpu_set_t seen;
    CPU_ZERO(&seen);
    assert_int_equal(o->n, CPU_SETSIZE);
    for (int i = 0; i < o->n; i++) {
        assert_false(CPU_ISSET(o->cpu[i], &seen));
        CPU_SET(o->cpu[i], &seen);
    }
}

static void every_cpu_is_in_the_order_once(void **state)
{
    hr__cpu_order o;
    assert_true(hr__cpu_order_read("core:1 pu:2", &o));
    expect_all_once(&o);
    assert_false(hr__cpu_order_read("no machine", &o));
    expect_all_once(&o);
    for (int i = 0; i < CPU_SETSIZE; i++)
        assert_int_equal(o.cpu[i], i);
    expect_all_once(hr__cpu_order_get());
    assert_ptr_equal(hr__cpu_order_get(), hr__cpu_order_get());
}

static void reading_the_machine_binds_nobody(void **state)
{
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    (void)hr__cpu_order_get();
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_a_core_stay_together),
        cmocka_unit_test(a_node_stays_together),
        cmocka_unit_test(shares_keep_within_the_mask),
        cmocka_unit_test(without_an_order_shares_go_by_number),
        cmocka_unit_test(every_cpu_is_in_the_order_once),
        cmocka_unit_test(reading_the_machine_binds_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
