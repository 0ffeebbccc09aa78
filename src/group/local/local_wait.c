/* Bells and meetings; see local_wait.h. */
#include "group/local/local_wait.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAUSES = 100 };
static const int64_t look_every_ns = 20000000;

static void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static struct timespec to_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

void hr__bell_ring(hr__bell *b)
{
    atomic_fetch_add(&b->word, 1);
    if (atomic_load(&b->sleepers) > 0)
        syscall(SYS_futex, &b->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* One sleep. The order closes the gap to ring(): we count as sleeper before the word is read,
 * and look after it; who rings changes the word before it counts sleepers. */
static hr_status sleep_once(hr__bell *b, hr__look_fn look, void *arg,
                            int64_t deadline_ns)
{
    struct timespec until = to_timespec(deadline_ns);
    atomic_fetch_add(&b->sleepers, 1);
    unsigned seen = atomic_load(&b->word);
    hr_status st = look(arg);
    if (st == HR_PENDING)
        syscall(SYS_futex, &b->word, FUTEX_WAIT_BITSET_PRIVATE, seen, &until, NULL,
                FUTEX_BITSET_MATCH_ANY);
    atomic_fetch_sub(&b->sleepers, 1);
    return st;
}

hr_status hr__bell_wait(hr__bell *b, hr__look_fn look, void *arg, int64_t deadline_ns)
{
    for (int i = 0; i < PAUSES; i++) {
        hr_status st = look(arg);
        if (st != HR_PENDING)
            return st;
        cpu_pause();
    }
    for (;;) {
        hr_status st = sleep_once(b, look, arg, deadline_ns);
        if (st != HR_PENDING)
            return st;
        if (hr_now_ns() >= deadline_ns)
            return look(arg);
    }
}

hr_status hr__sleep_until(int64_t deadline_ns, hr__look_fn look, void *arg)
{
    static _Thread_local bool precise;
    if (!precise) { /* the default slack of 50 us would be added to each transfer */
        prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
        precise = true;
    }
    for (int64_t now = hr_now_ns(); now < deadline_ns; now = hr_now_ns()) {
        hr_status st = look(arg);
        if (st < 0)
            return st;
        int64_t next = now + look_every_ns;
        struct timespec until = to_timespec(next < deadline_ns ? next : deadline_ns);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            ;
    }
    return HR_OK;
}

/* ---- meetings ---- */
static uint64_t phase_of(uint64_t state)
{
    return state >> 16;
}

hr_status hr__meet_init(hr__meet *m, int n)
{
    m->n = n;
    m->entered = calloc((size_t)n, sizeof *m->entered);
    return m->entered ? HR_OK : hr_fail(HR_ERR_NOMEM, NULL, "a meeting of %d ranks", n);
}

void hr__meet_fini(hr__meet *m)
{
    free(m->entered);
}

bool hr__meet_arrive(hr__meet *m, int me, uint64_t *phase)
{
    *phase = phase_of(atomic_load(&m->state)); /* cannot advance without us */
    atomic_store(&m->entered[me], *phase + 1);
    uint64_t before = atomic_fetch_add(&m->state, 1);
    return (int)(before & HR__MEET_MAX) + 1 == m->n;
}

void hr__meet_open(hr__meet *m, uint64_t phase)
{
    atomic_store(&m->state, (phase + 1) << 16);
    hr__bell_ring(&m->bell);
}

void hr__meet_refuse(hr__meet *m, uint64_t phase)
{
    atomic_store(&m->state, phase << 16);
}

bool hr__meet_opened(const hr__meet *m, uint64_t phase)
{
    return phase_of(atomic_load(&m->state)) > phase;
}

bool hr__meet_has(const hr__meet *m, int member, uint64_t phase)
{
    return atomic_load(&m->entered[member]) > phase;
}

bool hr__meet_withdraw(hr__meet *m, uint64_t phase)
{
    unsigned long long seen = atomic_load(&m->state);
    do {
        int arrived = (int)(seen & HR__MEET_MAX);
        if (phase_of(seen) != phase || arrived == m->n || arrived == 0)
            return false;
    } while (!atomic_compare_exchange_weak(&m->state, &seen, seen - 1));
    return true;
}

void hr__meet_settle(const hr__meet *m, uint64_t phase)
{
    while (atomic_load(&m->state) == (phase << 16 | (uint64_t)m->n))
        sched_yield();
}

void hr__meet_forget(hr__meet *m, int me, uint64_t phase)
{
    atomic_store(&m->entered[me], phase);
}

void hr__meet_clear(hr__meet *m)
{
    uint64_t phase = phase_of(atomic_load(&m->state));
    for (int i = 0; i < m->n; i++)
        atomic_store(&m->entered[i], phase);
    atomic_store(&m->state, phase << 16);
}
