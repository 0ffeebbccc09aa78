/* A count that only grows, and threads that wait until it has come so far. All waiting of the
 * host backend goes through it: streams for work, for events, the issuing thread for both.
 *
 * A waiter looks a few times, then sleeps. Who counts wakes nobody unless a sleeper waits for a
 * value that has been reached: one store and one load.
 */
#ifndef HR_HOST_COUNTER_H
#define HR_HOST_COUNTER_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct hr__counter {
    _Alignas(64) _Atomic uint64_t value;
    _Atomic uint64_t
        wanted; /* the least value that a sleeper waits for; UINT64_MAX: none */
    _Atomic uint32_t wakes; /* the word that sleepers sleep on */
} hr__counter;

void hr__counter_init(hr__counter *c);
/* Block until the count is at least `target`; returns it. What was written before it was
 * counted is visible after. */
uint64_t hr__counter_wait(hr__counter *c, uint64_t target);
void hr__counter_wake(hr__counter *c);

/* Somebody sleeps until the count is larger than it is now. */
bool hr__counter_awaited(hr__counter *c);

static inline uint64_t hr__counter_get(hr__counter *c)
{
    return atomic_load_explicit(&c->value, memory_order_acquire);
}

/* The one writer of the count sets it. The store and the load are sequentially consistent:
 * either this sees the sleeper's wish, or the sleeper's last look sees this value. */
static inline void hr__counter_set(hr__counter *c, uint64_t value)
{
    atomic_store(&c->value, value);
    if (atomic_load(&c->wanted) <= value)
        hr__counter_wake(c);
}

/* One of several writers adds to the count. */
static inline void hr__counter_add(hr__counter *c, uint64_t n)
{
    uint64_t value = atomic_fetch_add(&c->value, n) + n;
    if (atomic_load(&c->wanted) <= value)
        hr__counter_wake(c);
}

#endif
