/* What a rank has lent to an operation stays lent until no other reads it, also where the operation fails meanwhile.
 * The buffer lies in a page that nobody may read: who begins to copy it is held in the handler of the signal, as if
 * it were slow, until the lender has returned, which it must not, or a while has passed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/try.h"
#include "headrace/group.h"
#include "support/holds.h"
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

enum { PAGE = 65536, LENDER = 0, READER = 1, RANKS = 3 }; /* whole pages anywhere */
static const double limit_s = 0.3;
static const int64_t a_while_ns = 150000000;

static unsigned char *lent; /* a page, and another for what comes in */
static atomic_bool ready, reached, returned, too_early;
static int64_t slow_ns; /* how long the copy takes */

/* ---- a slow copy ----------------------------------------------------------------------------- */
static void hold(int number, siginfo_t *info, void *context)
{
    const unsigned char *at = info->si_addr;
    if (at < lent || at >= lent + PAGE) {
        signal(SIGSEGV, SIG_DFL); /* not ours: it comes again */
        return;
    }
    atomic_store(&reached, true);
    int64_t end = hr_now_ns() + slow_ns;
    while (!atomic_load(&returned) && hr_now_ns() < end)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_store(&too_early, atomic_load(&returned));
    mprotect(lent, PAGE, PROT_READ | PROT_WRITE);
}

static int set_up(void **state)
{
    lent = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                0);
    return lent == MAP_FAILED || mprotect(lent, PAGE, PROT_NONE) != 0;
}

static int tear_down(void **state)
{
    atomic_store(&ready, false);
    atomic_store(&reached, false);
    atomic_store(&returned, false);
    atomic_store(&too_early, false);
    return munmap(lent, 2 * PAGE);
}

/* The threads of streams take no signals. */
static hr_status take_faults(const void *args, hr_team *team)
{
    sigset_t faults;
    sigemptyset(&faults);
    sigaddset(&faults, SIGSEGV);
    HOLDS(pthread_sigmask(SIG_UNBLOCK, &faults, NULL) == 0);
    atomic_store(&ready, true);
    return HR_OK;
}

/* ---- ranks ----------------------------------------------------------------------------------- */
typedef hr_status (*issue)(hr_group *pair, unsigned char *buffer);

static hr_status message(hr_group *pair, unsigned char *buffer)
{
    int me = hr_group_rank(pair);
    hr_p2p op = {.send = me == LENDER, .peer = !me, .buf = buffer, .bytes = PAGE};
    return hr_group_batch(pair, &op, 1, hr_stream_current());
}

/* In place: the lender does not read its own part. */
static hr_status gather(hr_group *pair, unsigned char *buffer)
{
    return hr_all_gather(pair, buffer + hr_group_rank(pair) * PAGE, buffer, PAGE, HR_U8,
                         hr_stream_current());
}

static hr_status lend(hr_group *pair, issue op)
{
    while (!atomic_load(&ready) && hr_group_status(pair) == HR_OK)
        sched_yield();
    HR_TRY(op(pair, lent));
    hr_status st = hr_stream_synchronize(hr_stream_current());
    atomic_store(&returned, true);
    return st;
}

static hr_status read_slowly(hr_group *pair, issue op)
{
    static unsigned char into[2 * PAGE];
    HR_TRY(
        hr_launch(hr_stream_current(), "take faults", take_faults, NULL, 0, NULL, 0));
    HR_TRY(op(pair, into));
    return hr_stream_synchronize(hr_stream_current());
}

static hr_status work(hr_group *world, issue op)
{
    hr_group *pair;
    int me = hr_group_rank(world);
    HR_TRY(hr_group_create(world, (const int[]){LENDER, READER}, 2, &pair));
    if (!pair)
        return HR_OK;
    hr_status st = me == LENDER ? lend(pair, op) : read_slowly(pair, op);
    hr_group_release(pair);
    return st;
}

static hr_status message_alone(hr_group *world, void *arg)
{
    return work(world, message);
}

static hr_status gather_alone(hr_group *world, void *arg)
{
    return work(world, gather);
}

/* ---- and one that gives up while they are at it ---------------------------------------------- */
static hr_status give_up(hr_group *world, issue op)
{
    hr_status st = work(world, op);
    if (hr_group_rank(world) != RANKS - 1)
        return st;
    while (!atomic_load(&reached) && hr_group_status(world) == HR_OK)
        sched_yield();
    return hr_fail(HR_ERR_CALLBACK, "test", "enough");
}

static hr_status message_and_failure(hr_group *world, void *arg)
{
    return give_up(world, message);
}

static hr_status gather_and_failure(hr_group *world, void *arg)
{
    return give_up(world, gather);
}

static void stays_lent(hr_rank_fn fn, double limit, hr_status cause)
{
    hr_local_opts o = {HR_INIT(hr_local_opts), .engine = "local", .timeout_s = limit};
    struct sigaction a = {.sa_sigaction = hold, .sa_flags = SA_SIGINFO}, before;
    slow_ns = a_while_ns + (cause == HR_ERR_TIMEOUT ? (int64_t)(limit_s * 1e9) : 0);
    assert_int_equal(sigaction(SIGSEGV, &a, &before), 0);
    hr_status st = hr_local_run(RANKS, &o, fn, NULL);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    assert_int_equal(st, cause);
    assert_true(atomic_load(&reached));
    assert_false(atomic_load(&too_early));
}

static void a_message_stays_lent_where_another_rank_fails(void **state)
{
    stays_lent(message_and_failure, 60, HR_ERR_CALLBACK);
}

static void a_message_stays_lent_where_its_sender_waits_no_longer(void **state)
{
    stays_lent(message_alone, limit_s, HR_ERR_TIMEOUT);
}

static void a_collective_stays_lent_where_another_rank_fails(void **state)
{
    stays_lent(gather_and_failure, 60, HR_ERR_CALLBACK);
}

static void a_collective_stays_lent_where_its_member_waits_no_longer(void **state)
{
    stays_lent(gather_alone, limit_s, HR_ERR_TIMEOUT);
}

#define LENT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        LENT(a_message_stays_lent_where_another_rank_fails),
        LENT(a_message_stays_lent_where_its_sender_waits_no_longer),
        LENT(a_collective_stays_lent_where_another_rank_fails),
        LENT(a_collective_stays_lent_where_its_member_waits_no_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
