/* A job of the local engine: ranks that are threads of one process, their devices, the one
 * failure they share, and all their channels.
 *
 * Lock order: hr__job.mu is taken last; nothing that may block or call out runs under it. */
#ifndef HR_LOCAL_JOB_H
#define HR_LOCAL_JOB_H
#include "group/cause.h"
#include "group/local/local_cores.h"
#include "group/local/local_wait.h"
#include "headrace/group.h"
#include <pthread.h>

struct hr__channel;
struct hr__issues;
struct hr__manner;
typedef struct hr__job hr__job;

typedef struct hr__rank {
    hr__job *job;
    int rank;
    hr_device *dev;
    struct hr__channel *world; /* the same for all ranks */
    atomic_bool gone;          /* its function has returned and its streams are empty */
} hr__rank;

struct hr__job {
    int n;
    int64_t limit_ns; /* of each wait */
    double link_ns_per_byte, link_latency_ns;
    const struct hr__manner *manner;
    uint64_t seed;      /* of delays */
    int64_t longest_ns; /* of a delay, or of what is put off */
    hr__cores cores;
    char link_note[96];        /* "" without an imitated link */
    hr__rank *ranks;           /* [n] */
    struct hr__issues *issues; /* NULL: the stream checker is off */
    hr__meet reset;            /* hr_job_reset() */
    atomic_int gone;           /* ranks that have gone */

    hr__cause cause; /* its mutex is mu */
    pthread_mutex_t mu;
    struct hr__channel *channels; /* mu; all that live */
    uint64_t channels_made;       /* mu */
};

/* Opens the devices. `opts` are checked. */
hr_status hr__job_create(int n, const hr_local_opts *opts, hr__job **out);
void hr__job_destroy(hr__job *job); /* its channels go with it; NULL is fine */

/* Record the first failure, with the calling thread's last error; fail all devices with it; wake
 * all waits. Later ones are ignored. Leaves the job's cause as the thread's last error.
 * From any thread, also within a hook of hr_device_fail(). */
void hr__job_fail(hr__job *job, int rank, hr_status st);
/* The first failure, its sentence now the calling thread's last error; OK if there is none. */
hr_status hr__job_status(hr__job *job);
static inline bool hr__job_failed(const hr__job *job)
{
    return atomic_load(&job->cause.told);
}

/* For hr__sleep_until(): the cause, as in all waits not before every device has it. */
hr_status hr__job_look(void *job);

/* `rank` will take part in nothing any more: wake those who wait for it. */
void hr__job_leave(hr__job *job, int rank);
static inline bool hr__job_gone(const hr__job *job, int rank)
{
    return atomic_load(&job->gone) > 0 && atomic_load(&job->ranks[rank].gone);
}

hr_status hr__job_reset(hr__job *job, int rank);

#endif
