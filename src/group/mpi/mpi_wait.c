/* Waiting for MPI, which has no way to sleep until something comes: look, look again, then sleep between
 * looks. The steps grow to a fifth of a millisecond, and to one when nothing has come for long:
 * a rank that waits for seconds hardly uses its core. While bytes are under way the steps stay
 * short, for most libraries move them only when they are called. */
#include "group/mpi/mpi_job.h"
#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int64_t eager_ns = 3000, first_lively_ns = 60000, stir_lively_ns = 20000,
                     first_step_ns = 20000, short_step_ns = 200000,
                     long_step_ns = 1000000, long_after_ns = 100000000,
                     notes_every_ns = 10000, slice_ns = 100000;
/* Of a transfer: how long it may take on the fastest ways, and on the slowest whose end is looked for often.
 * Slower ones are left to the kernel's buffers: looks would take the time of who computes on the same core. */
static const int64_t lively_bytes_per_ns = 10, flow_ns_per_byte = 10;

/* Of the calling thread's wait: until when it looks without a rest, then yields between looks, then sleeps
 * for short steps. */
static _Thread_local int64_t eager_until, lively_until, flow_until;
static _Thread_local int64_t step_ns;

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void look_often(int64_t now, int64_t lively_ns, int64_t bytes)
{
    eager_until = now + eager_ns;
    lively_until = later(lively_until, now + lively_ns);
    flow_until = later(flow_until, now + long_after_ns + bytes * flow_ns_per_byte);
    step_ns = first_step_ns;
}

void hr__mpi_stir(int64_t bytes)
{
    look_often(hr_now_ns(), stir_lively_ns + bytes / lively_bytes_per_ns, bytes);
}

/* struct sched_attr of Linux, for which the C library has no header. */
typedef struct sched_wish {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
} sched_wish;

/* A thread that only looks wants the core at once and for no time. Since Linux 6.12 one that asks for short
 * slices comes before one that computes; without, it gets the core when the other's slice is over, up to three
 * milliseconds later. A wish: where it is not granted all works, later. And the default slack of 50 us
 * would be added to each sleep. */
static void ask_for_promptness(void)
{
    sched_wish wish = {.size = sizeof wish};
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    if (syscall(SYS_sched_getattr, 0, &wish, sizeof wish, 0) != 0 ||
        wish.policy != SCHED_OTHER)
        return;
    wish.runtime_ns = (uint64_t)slice_ns;
    (void)syscall(SYS_sched_setattr, 0, &wish, 0);
}

static void sleep_for(int64_t ns)
{
    static _Thread_local bool prompt;
    struct timespec t = {.tv_nsec = ns};
    if (!prompt) {
        ask_for_promptness();
        prompt = true;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
        ;
}

/* A rank has more threads than this one, and hosts have often more ranks than CPUs: yield. */
static void rest(int64_t now)
{
    if (now < eager_until)
        return;
    if (now < lively_until) {
        sched_yield();
        return;
    }
    sleep_for(step_ns);
    int64_t most = now < flow_until ? short_step_ns : long_step_ns;
    step_ns = 2 * step_ns < most ? 2 * step_ns : most;
}

/* Now and then, whoever it is that waits. */
static void read_notes(hr__mpi_job *job, int64_t now)
{
    if (now - atomic_load_explicit(&job->read_ns, memory_order_relaxed) <
        notes_every_ns)
        return;
    atomic_store_explicit(&job->read_ns, now, memory_order_relaxed);
    hr__mpi_poll(job);
}

hr_status hr__mpi_wait(hr__mpi_job *job, const hr__mpi_waiting *w)
{
    int64_t now = hr_now_ns();
    lively_until = flow_until = 0;
    look_often(now, first_lively_ns, w->bytes);
    for (;; now = hr_now_ns()) {
        read_notes(job, now);
        hr_status st = w->look(w->arg);
        if (st != HR_PENDING)
            return st;
        if (!w->deaf && hr__mpi_failed(job))
            return hr__mpi_status(job);
        if (now >=
            w->deadline_ns) /* and the look came after: who stood still looks again */
            return HR_PENDING;
        rest(now);
    }
}
