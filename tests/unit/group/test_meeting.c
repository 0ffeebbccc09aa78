/* Bells and meetings of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "group/local/local_wait.h"
#include <pthread.h>

enum { MEMBERS = 8, ROUNDS = 200 };
static const int64_t far_ns = INT64_C(60000000000);

struct member {
    hr__meet *meet;
    int me, *shared; /* one plain counter: the last of each phase adds to it */
    int wrong;
    pthread_t thread;
};

struct phase {
    hr__meet *meet;
    uint64_t phase;
};

static hr_status opened(void *arg)
{
    struct phase *p = arg;
    return hr__meet_opened(p->meet, p->phase) ? HR_OK : HR_PENDING;
}

static void *meet_often(void *arg)
{
    struct member *m = arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct phase p = {.meet = m->meet};
        if (hr__meet_arrive(m->meet, m->me, &p.phase)) {
            ++*m->shared;
            hr__meet_open(m->meet, p.phase);
        } else {
            hr_status st =
                hr__bell_wait(&m->meet->bell, opened, &p, hr_now_ns() + far_ns);
            m->wrong += st != HR_OK;
        }
        m->wrong += p.phase != (uint64_t)i || *m->shared <= i;
    }
    return NULL;
}

static void the_last_to_arrive_opens_each_phase(void **state)
{
    hr__meet meet = {0};
    struct member m[MEMBERS];
    int shared = 0;
    assert_int_equal(hr__meet_init(&meet, MEMBERS), HR_OK);
    for (int i = 0; i < MEMBERS; i++) {
        m[i] = (struct member){.meet = &meet, .me = i, .shared = &shared};
        assert_int_equal(pthread_create(&m[i].thread, NULL, meet_often, &m[i]), 0);
    }
    for (int i = 0; i < MEMBERS; i++) {
        pthread_join(m[i].thread, NULL);
        assert_int_equal(m[i].wrong, 0);
    }
    assert_int_equal(shared, ROUNDS);
    hr__meet_fini(&meet);
}

static void an_arrival_can_be_taken_back_until_all_are_there(void **state)
{
    hr__meet meet = {0};
    uint64_t phase;
    assert_int_equal(hr__meet_init(&meet, 2), HR_OK);
    assert_false(hr__meet_arrive(&meet, 0, &phase));
    assert_true(hr__meet_has(&meet, 0, phase));
    assert_true(hr__meet_withdraw(&meet, phase));
    assert_true(hr__meet_has(&meet, 0, phase)); /* it was there, say messages */
    hr__meet_forget(&meet, 0, phase);
    assert_false(hr__meet_has(&meet, 0, phase));
    assert_false(hr__meet_arrive(&meet, 1, &phase));
    assert_true(hr__meet_arrive(&meet, 0, &phase));
    assert_false(hr__meet_withdraw(&meet, phase)); /* the last is there */
    hr__meet_open(&meet, phase);
    assert_false(hr__meet_withdraw(&meet, phase)); /* the phase is over */
    hr__meet_fini(&meet);
}

static void a_meeting_that_the_last_refuses_stays_shut_and_lets_all_go(void **state)
{
    hr__meet meet = {0};
    uint64_t phase;
    assert_int_equal(hr__meet_init(&meet, 2), HR_OK);
    assert_false(hr__meet_arrive(&meet, 0, &phase));
    assert_true(hr__meet_arrive(&meet, 1, &phase));
    hr__meet_refuse(&meet, phase);
    hr__meet_settle(&meet, phase); /* comes back */
    assert_false(hr__meet_opened(&meet, phase));
    assert_false(hr__meet_withdraw(&meet, phase));
    hr__meet_clear(&meet);
    assert_false(hr__meet_arrive(&meet, 1, &phase));
    hr__meet_fini(&meet);
}

static void clear_forgets_a_half_full_phase(void **state)
{
    hr__meet meet = {0};
    uint64_t phase;
    assert_int_equal(hr__meet_init(&meet, 2), HR_OK);
    assert_false(hr__meet_arrive(&meet, 0, &phase));
    hr__meet_clear(&meet);
    assert_false(hr__meet_has(&meet, 0, phase));
    assert_false(hr__meet_arrive(&meet, 0, &phase));
    assert_true(hr__meet_arrive(&meet, 1, &phase));
    hr__meet_fini(&meet);
}

static hr_status never(void *arg)
{
    return HR_PENDING;
}

static hr_status lost(void *arg)
{
    return ++*(int *)arg > 3 ? HR_ERR_ABORTED : HR_PENDING;
}

static void a_wait_ends_at_its_deadline_or_with_an_error(void **state)
{
    hr__bell bell = {0};
    int looks = 0;
    assert_int_equal(hr__bell_wait(&bell, never, NULL, hr_now_ns() + 1000000),
                     HR_PENDING);
    assert_int_equal(hr__bell_wait(&bell, lost, &looks, hr_now_ns() + far_ns),
                     HR_ERR_ABORTED);
    assert_int_equal(atomic_load(&bell.sleepers), 0);
}

static void sleep_lasts_to_its_deadline_unless_something_is_lost(void **state)
{
    int looks = 0;
    int64_t until = hr_now_ns() + 5000000;
    assert_int_equal(hr__sleep_until(until, never, NULL), HR_OK);
    assert_true(hr_now_ns() >= until);
    assert_int_equal(hr__sleep_until(hr_now_ns() + far_ns, lost, &looks),
                     HR_ERR_ABORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_to_arrive_opens_each_phase),
        cmocka_unit_test(an_arrival_can_be_taken_back_until_all_are_there),
        cmocka_unit_test(a_meeting_that_the_last_refuses_stays_shut_and_lets_all_go),
        cmocka_unit_test(clear_forgets_a_half_full_phase),
        cmocka_unit_test(a_wait_ends_at_its_deadline_or_with_an_error),
        cmocka_unit_test(sleep_lasts_to_its_deadline_unless_something_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
