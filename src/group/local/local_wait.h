/* How threads of one process wait for each other: bells, and meetings of n members.
 *
 * A bell is an eventcount: whoever changes something rings, whoever waits looks again. Waiting
 * spins shortly, then sleeps on a futex; there are often more threads than cores, so nobody spins
 * for long, and nobody yields (see device/host/host_counter.c). */
#ifndef HR_LOCAL_WAIT_H
#define HR_LOCAL_WAIT_H
#include "headrace/base.h"
#include <stdatomic.h>

typedef struct hr__bell {
    atomic_uint word; /* the futex; counts rings */
    atomic_int sleepers;
} hr__bell;

/* OK: what was waited for is there. PENDING: not yet. Negative: it will not come. May make
 * progress of its own; called again after each ring. */
typedef hr_status (*hr__look_fn)(void *arg);

void hr__bell_ring(hr__bell *b);
/* What `look` says in the end; PENDING once `deadline_ns` has passed. */
hr_status hr__bell_wait(hr__bell *b, hr__look_fn look, void *arg, int64_t deadline_ns);

/* Sleep to `deadline_ns`, to the precision of the clock, without using a core; wakes now and
 * then to `look`, and returns early with what is negative. */
hr_status hr__sleep_until(int64_t deadline_ns, hr__look_fn look, void *arg);

/* A meeting: all n members arrive, the last one does what is to be done for all and opens it.
 * Everything before an arrival happens before everything after the opening. Then the next
 * phase begins; nobody can arrive there twice before all others have. */
typedef struct hr__meet {
    atomic_ullong state; /* phase << 16 | arrived */
    hr__bell bell;
    int n;
    atomic_ullong
        *entered; /* [n] how many phases each member has arrived in, for messages */
} hr__meet;

enum { HR__MEET_MAX = 0xffff };

hr_status hr__meet_init(hr__meet *m, int n);
void hr__meet_fini(hr__meet *m);
/* True: the caller came last and must open. */
bool hr__meet_arrive(hr__meet *m, int me, uint64_t *phase);
void hr__meet_open(hr__meet *m, uint64_t phase);
bool hr__meet_opened(const hr__meet *m, uint64_t phase);
bool hr__meet_has(const hr__meet *m, int member, uint64_t phase);
void hr__meet_refuse(hr__meet *m, uint64_t phase); /* instead: it stays shut */
/* Take an arrival back. False: too late, the last member is there. */
bool hr__meet_withdraw(hr__meet *m, uint64_t phase);
/* For who may not go: until the last member has opened or refused. */
void hr__meet_settle(const hr__meet *m, uint64_t phase);
void hr__meet_forget(hr__meet *m, int me, uint64_t phase); /* for messages, too */
/* Forget half-full phases. Only while no member is inside. */
void hr__meet_clear(hr__meet *m);

#endif
