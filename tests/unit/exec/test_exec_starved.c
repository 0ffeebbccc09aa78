/* One rank has no memory left while all create an executor and load a schedule: whichever piece it does not get, all
 * ranks come back with that, none after its time limit, and after a reset there is an executor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "headrace/exec.h"
#include "support/holds.h"

enum { RANKS = 3, STARVED = 1 };

/* ---- memory ---------------------------------------------------------------------------------- */
/* The linker leads here (--wrap). Of this thread: the how manieth from now on is not there; 0: all are. */
static _Thread_local int missing;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

static bool is_missing(void)
{
    return missing > 0 && --missing == 0;
}

void *__wrap_malloc(size_t bytes)
{
    return is_missing() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return is_missing() ? NULL : __real_calloc(n, bytes);
}

/* ---- ranks ----------------------------------------------------------------------------------- */
static hr_status forward(void *ctx, const hr_exec_at *at, hr_tensor *in,
                         hr_tensor **out)
{
    return HR_OK;
}

static hr_status backward(void *ctx, const hr_exec_at *at, hr_tensor *dy,
                          hr_tensor **dx)
{
    return HR_OK;
}

static hr_status create_and_load(hr_group *world, const hr_schedule *s)
{
    const hr_exec_stage stage = {HR_INIT(hr_exec_stage), .stage = hr_group_rank(world),
                                 .forward = forward, .backward = backward};
    const hr_exec_opts o = {HR_INIT(hr_exec_opts), .pp = world, .stages = &stage,
                            .n_stages = 1};
    hr_exec *e;
    hr_program *p = NULL;
    hr_status st = hr_exec_create(&o, &e);
    if (st >= 0)
        st = hr_exec_load(e, s, &p);
    HOLDS(st >= 0 ? p != NULL : p == NULL);
    hr_program_destroy(p);
    hr_exec_destroy(e);
    return st;
}

/* `whole` is the first round in which the starved rank gets all; it says so before the reset, where all meet. */
static hr_status sweep(hr_group *world, const hr_schedule *s, atomic_int *whole)
{
    bool starved = hr_group_rank(world) == STARVED;
    for (int n = 1; atomic_load(whole) != n - 1; n++) {
        missing = starved ? n : 0;
        hr_status st = create_and_load(world, s);
        if (missing > 0)
            atomic_store(whole, n);
        missing = 0;
        HOLDS(st == HR_OK || st == HR_ERR_NOMEM);
        HOLDS(st == HR_OK || strstr(hr_last_error(), "rank 1: "));
        HR_TRY(hr_job_reset(world));
        HOLDS(st == HR_OK || atomic_load(whole) != n);
    }
    return HR_OK;
}

static hr_status run(hr_group *world, void *whole)
{
    hr_schedule *s;
    HR_TRY(hr_schedule_generate("1f1b",
                                &(hr_generate_opts){HR_INIT(hr_generate_opts),
                                                    .ranks = RANKS, .microbatches = 4},
                                &s));
    hr_status st = sweep(world, s, whole);
    hr_schedule_destroy(s);
    return st;
}

static void whatever_one_rank_does_not_get_no_other_waits_for_it(void **state)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .timeout_s = 20};
    atomic_int whole = -1;
    if (hr_local_run(RANKS, &o, run, &whole) < 0)
        fail_msg("%s", hr_last_error());
    assert_true(atomic_load(&whole) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_one_rank_does_not_get_no_other_waits_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
