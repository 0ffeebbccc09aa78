/* Waiting for MPI, which has no way to sleep until something comes: look, look again, then sleep between
 * looks. The steps grow to a fifth of a millisecond, and to one when nothing has come for long:
 * a rank that waits for seconds hardly uses its core. */
#include "group/mpi/mpi_job.h"
#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

static const int64_t first_lively_ns = 60000, first_step_ns = 20000,
                     short_step_ns = 200000, long_step_ns = 1000000,
                     long_after_ns = 100000000;

static _Thread_local int64_t lively_until;
static _Thread_local int64_t step_ns;

void hr__mpi_stir(int64_t lively_ns)
{
    int64_t until = hr_now_ns() + lively_ns;
    if (until > lively_until)
        lively_until = until;
    step_ns = first_step_ns;
}

static void sleep_for(int64_t ns)
{
    static _Thread_local bool precise;
    struct timespec t = {.tv_nsec = ns};
    if (!precise) { /* the default slack of 50 us would be added to each step */
        prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
        precise = true;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
        ;
}

/* A rank has more threads than this one, and hosts have often more ranks than CPUs: yield. */
static void rest(int64_t now, int64_t began)
{
    if (now < lively_until) {
        sched_yield();
        return;
    }
    sleep_for(step_ns);
    int64_t most = now - began < long_after_ns ? short_step_ns : long_step_ns;
    step_ns = 2 * step_ns < most ? 2 * step_ns : most;
}

hr_status hr__mpi_wait(hr__mpi_job *job, const hr__mpi_waiting *w)
{
    enum { LOOKS = 8 }; /* a look at the notes */
    int64_t began = hr_now_ns();
    lively_until = 0;
    hr__mpi_stir(first_lively_ns);
    for (unsigned i = 0;; i++) {
        hr_status st = w->look(w->arg);
        if (st != HR_PENDING)
            return st;
        int64_t now = hr_now_ns();
        if (i % LOOKS == 0 || now >= lively_until)
            hr__mpi_poll(job);
        if (!w->deaf && hr__mpi_failed(job))
            return hr__mpi_status(job);
        if (now >= w->deadline_ns)
            return HR_PENDING;
        rest(now, began);
    }
}
