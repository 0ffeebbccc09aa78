/* The threads that share the work of one launch: `cores` of a device, the launching stream's
 * thread among them. One launch has the team at a time; whoever finds it taken works alone,
 * which changes nothing but the time.
 *
 * A job is cut into parts. Number of the job and next free part are one word, so that a thread
 * that comes late never takes a part of one job for a part of another: taking is a
 * compare-and-swap, and fails once the word has moved on. It moves on before a job is described,
 * too: else who had read it would see the end of the last job with more parts than that had.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "device/host/host_device.h"

#define CLOSED UINT32_MAX /* as next free part: none, whatever the job */

struct hr_team {
    int rank, helpers;    /* set at create */
    pthread_mutex_t busy; /* held for a job; guards started, job, parts_before */
    pthread_t *threads;
    int started;
    uint64_t job;
    uint64_t parts_before; /* `done` when the job began */

    hr__counter jobs;           /* number of the last job; helpers wait for the next */
    hr__counter done;           /* parts worked off, of all jobs */
    _Atomic uint64_t next;      /* job << 32 | next free part */
    _Atomic(hr_team_part) part; /* these three: written while `next` says CLOSED */
    _Atomic(void *) arg;
    atomic_int n;
    atomic_bool stop;

    pthread_mutex_t fail_mu; /* guards the failure with the least part so far */
    int fail_part;           /* -1: none */
    hr_status fail;
    const char *fail_reason;
    char fail_text[384];
};

static void keep_failure(hr_team *t, int part, hr_status st)
{
    pthread_mutex_lock(&t->fail_mu);
    if (t->fail_part < 0 || part < t->fail_part) {
        t->fail_part = part;
        t->fail = st;
        t->fail_reason = hr_last_reason();
        snprintf(t->fail_text, sizeof t->fail_text, "%s", hr_last_error());
    }
    pthread_mutex_unlock(&t->fail_mu);
    hr_error_clear(); /* the next failure must not speak with this one's words */
}

/* Take and run parts until none is free. */
static void work_off(hr_team *t)
{
    for (;;) {
        uint64_t next = atomic_load(&t->next);
        uint32_t i = (uint32_t)next;
        hr_team_part part = atomic_load(&t->part);
        void *arg = atomic_load(&t->arg);
        int n = atomic_load(&t->n);
        if (i >= (uint32_t)n)
            return;
        if (!atomic_compare_exchange_weak(&t->next, &next, next + 1))
            continue;
        hr_status st = part(arg, (int)i);
        if (st < 0)
            keep_failure(t, (int)i, st);
        hr__counter_add(&t->done, 1);
    }
}

static void *help(void *team)
{
    hr_team *t = team;
    char name[16];
    snprintf(name, sizeof name, "hr%d.team", t->rank);
    pthread_setname_np(pthread_self(), name);
    hr_set_thread_rank(t->rank);
    uint64_t seen = 0;
    while (!atomic_load(&t->stop)) {
        seen = hr__counter_wait(&t->jobs, seen + 1);
        work_off(t);
    }
    return NULL;
}

/* Helpers start with the first job that wants them. One that does not start is not missed. */
static void start_helpers_locked(hr_team *t)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 0; i < t->helpers; i++)
        if (pthread_create(&t->threads[t->started], NULL, help, t) == 0)
            t->started++;
    t->helpers = t->started;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static hr_status run_alone(int n, hr_team_part part, void *arg)
{
    hr_status first = HR_OK;
    char text[384] = "";
    const char *reason = NULL;
    for (int i = 0; i < n; i++) {
        hr_status st = part(arg, i);
        if (st < 0 && first >= 0) {
            first = st;
            reason = hr_last_reason();
            snprintf(text, sizeof text, "%s", hr_last_error());
        }
    }
    return first < 0 ? hr_fail(first, reason, "%s", text) : HR_OK;
}

static hr_status run_together_locked(hr_team *t, int n, hr_team_part part, void *arg)
{
    if (t->started == 0)
        start_helpers_locked(t);
    uint64_t job = ++t->job;
    t->fail_part = -1;
    t->parts_before += (uint64_t)n;
    atomic_store(&t->next, job << 32 | CLOSED);
    atomic_store(&t->part, part);
    atomic_store(&t->arg, arg);
    atomic_store(&t->n, n);
    atomic_store(&t->next, job << 32);
    hr__counter_set(&t->jobs, job);
    work_off(t);
    hr__counter_wait(&t->done, t->parts_before);
    return t->fail_part < 0 ? HR_OK
                            : hr_fail(t->fail, t->fail_reason, "%s", t->fail_text);
}

hr_status hr_team_run(hr_team *team, int n, hr_team_part part, void *arg)
{
    if (n < 0 || part == NULL)
        return hr_fail(HR_ERR_INVALID, "team", "hr_team_run: %d parts, %s function", n,
                       part ? "a" : "no");
    if (team == NULL || n <= 1 || pthread_mutex_trylock(&team->busy) != 0)
        return run_alone(n, part, arg);
    hr_status st = run_together_locked(team, n, part, arg);
    pthread_mutex_unlock(&team->busy);
    return st;
}

hr_status hr__team_create(int cores, int rank, hr_team **out)
{
    *out = NULL;
    if (cores < 2)
        return HR_OK;
    hr_team *t = aligned_alloc(64, (sizeof *t + 63) / 64 * 64);
    pthread_t *threads = calloc((size_t)cores - 1, sizeof *threads);
    if (t == NULL || threads == NULL) {
        free(t);
        free(threads);
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a team of %d", cores);
    }
    *t = (hr_team){.rank = rank, .helpers = cores - 1, .threads = threads};
    pthread_mutex_init(&t->busy, NULL);
    pthread_mutex_init(&t->fail_mu, NULL);
    hr__counter_init(&t->jobs);
    hr__counter_init(&t->done);
    *out = t;
    return HR_OK;
}

const pthread_t *hr__team_helpers(const hr_team *team, int *n)
{
    *n = team ? team->started : 0;
    return team ? team->threads : NULL;
}

void hr__team_destroy(hr_team *team)
{
    if (team == NULL)
        return;
    atomic_store(&team->stop, true);
    hr__counter_set(&team->jobs, team->job + 1);
    for (int i = 0; i < team->started; i++)
        pthread_join(team->threads[i], NULL);
    pthread_mutex_destroy(&team->busy);
    pthread_mutex_destroy(&team->fail_mu);
    free(team->threads);
    free(team);
}
