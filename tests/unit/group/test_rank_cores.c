/* Which CPUs the threads of a rank may use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "headrace/group.h"
#include <sched.h>

enum { RANKS = 2 };

/* CPUs of a rank's own thread and of a thread of its device. */
typedef struct seen {
    cpu_set_t host[RANKS], stream[RANKS];
} seen;

typedef struct look_args {
    cpu_set_t *to;
} look_args;

static hr_status look_from_stream(const void *args, hr_team *team)
{
    const look_args *a = args;
    return sched_getaffinity(0, sizeof *a->to, a->to) == 0 ? HR_OK : HR_ERR_DEVICE;
}

static hr_status look(hr_group *world, void *arg)
{
    seen *s = arg;
    int r = hr_group_rank(world);
    sched_getaffinity(0, sizeof s->host[r], &s->host[r]);
    look_args a = {&s->stream[r]};
    hr_status st =
        hr_launch(hr_stream_current(), "look", look_from_stream, &a, sizeof a, NULL, 0);
    return st < 0 ? st : hr_stream_synchronize(hr_stream_current());
}

static cpu_set_t usable(void)
{
    cpu_set_t all;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    return all;
}

static void ranks_that_have_all_cpus_keep_to_shares_of_them(void **state)
{
    cpu_set_t all = usable(), both;
    if (CPU_COUNT(&all) < RANKS) {
        print_message("skipped: %d CPU for %d ranks\n", CPU_COUNT(&all), RANKS);
        skip();
    }
    seen s;
    assert_int_equal(hr_local_run(RANKS, NULL, look, &s), HR_OK);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(CPU_COUNT(&s.host[r]), CPU_COUNT(&all) / RANKS);
        assert_true(CPU_EQUAL(&s.host[r], &s.stream[r]));
        CPU_AND(&both, &s.host[r], &all);
        assert_true(
            CPU_EQUAL(&both, &s.host[r])); /* within what the process was given */
    }
    CPU_AND(&both, &s.host[0], &s.host[1]);
    assert_int_equal(CPU_COUNT(&both), 0);
    cpu_set_t after = usable();
    assert_true(CPU_EQUAL(&after, &all)); /* the caller's own are untouched */
}

static void expect_unbound(int ranks, const hr_local_opts *o)
{
    cpu_set_t all = usable();
    seen s;
    assert_int_equal(hr_local_run(ranks, o, look, &s), HR_OK);
    for (int r = 0; r < ranks; r++)
        assert_true(CPU_EQUAL(&s.host[r], &all) && CPU_EQUAL(&s.stream[r], &all));
}

static void nobody_is_bound_where_it_was_not_wanted(void **state)
{
    expect_unbound(RANKS, &(hr_local_opts){HR_INIT(hr_local_opts), .bind = -1});
}

static void a_single_rank_is_not_bound(void **state)
{
    expect_unbound(1, NULL);
}

static void a_job_with_a_part_of_the_cpus_is_not_bound(void **state)
{
    cpu_set_t all = usable();
    if (CPU_COUNT(&all) < 2) {
        print_message("skipped: there is one CPU only\n");
        skip();
    }
    expect_unbound(RANKS, &(hr_local_opts){HR_INIT(hr_local_opts), .cores = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_have_all_cpus_keep_to_shares_of_them),
        cmocka_unit_test(nobody_is_bound_where_it_was_not_wanted),
        cmocka_unit_test(a_single_rank_is_not_bound),
        cmocka_unit_test(a_job_with_a_part_of_the_cpus_is_not_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
