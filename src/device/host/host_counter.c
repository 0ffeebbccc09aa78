/* Waiting on a counter. Figures behind the numbers: a wake across cores costs about 30 us, a
 * round trip by looking 0.2 us; but with more threads than cores, a look that lasts keeps the
 * other side from running, so it is short, and then the thread sleeps. It never yields: who
 * yields comes back when the others' slices are over, milliseconds later; who sleeps is run as
 * soon as it is woken. */
#include "device/host/host_counter.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FIRST_PAUSE = 16, LAST_PAUSE = 64 };

static void relax(int times)
{
    for (int i = 0; i < times; i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

void hr__counter_init(hr__counter *c)
{
    atomic_init(&c->value, 0);
    atomic_init(&c->wanted, UINT64_MAX);
    atomic_init(&c->wakes, 0);
}

void hr__counter_wake(hr__counter *c)
{
    /* Sleepers for later values wake too and wish again: the wish is one for all. */
    atomic_store(&c->wanted, UINT64_MAX);
    atomic_fetch_add(&c->wakes, 1);
    syscall(SYS_futex, &c->wakes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* A wish that was fulfilled at the last look stays behind until the count moves, and may hide the
 * later wish of another sleeper: the wake makes all who sleep wish again. */
bool hr__counter_awaited(hr__counter *c)
{
    uint64_t wanted = atomic_load(&c->wanted);
    if (wanted <= hr__counter_get(c)) {
        hr__counter_wake(c);
        return false;
    }
    return wanted != UINT64_MAX;
}

static void wish(hr__counter *c, uint64_t target)
{
    uint64_t wanted = atomic_load(&c->wanted);
    while (target < wanted &&
           !atomic_compare_exchange_weak(&c->wanted, &wanted, target))
        ;
}

/* `wakes` is read before the wish and the last look: a wake in between changes it, and the
 * futex call returns at once. */
static uint64_t sleep_until(hr__counter *c, uint64_t target)
{
    for (;;) {
        uint32_t wakes = atomic_load(&c->wakes);
        wish(c, target);
        uint64_t value = atomic_load(&c->value);
        if (value >= target)
            return value;
        syscall(SYS_futex, &c->wakes, FUTEX_WAIT_PRIVATE, wakes, NULL, NULL, 0);
    }
}

/* Looking takes the cache line from the one who counts, so looks grow apart: a stream that
 * catches up with its issuer then finds several launches at once. */
uint64_t hr__counter_wait(hr__counter *c, uint64_t target)
{
    uint64_t value = hr__counter_get(c);
    for (int pause = FIRST_PAUSE; value < target && pause <= LAST_PAUSE; pause *= 2) {
        relax(pause);
        value = hr__counter_get(c);
    }
    return value < target ? sleep_until(c, target) : value;
}
