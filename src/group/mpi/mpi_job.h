/* mpi_job.h: a job of the MPI engine as this process sees it: its rank, the one failure, and the control
 * communicator, which carries nothing but notes: of failures, of ranks that have returned, of resets,
 * and questions where a rank is. Every wait looks at it beside what it waits for, and so does whoever
 * asks for the job's status; there is no thread for it.
 *
 * Lock order: `reading`, then `mu`, then `out_mu`; nothing that may block runs under the last two. */
#ifndef HR_MPI_JOB_H
#define HR_MPI_JOB_H
#include "group/cause.h"
#include "group/mpi/mpi_library.h"
#include <pthread.h>
#include <stdatomic.h>

struct hr__mpi_member;
struct hr__mpi_window;
struct hr__mpi_letter;

typedef enum hr__note_kind {
    HR__NOTE_FAIL,
    HR__NOTE_GONE,
    HR__NOTE_RESET, /* the rank has come to `phase` */
    HR__NOTE_ASK,   /* where is your rank? */
    HR__NOTE_ANSWER
} hr__note_kind;

typedef struct hr__note {
    int32_t kind, status;
    uint32_t epoch; /* of a failure: how many resets came before */
    uint32_t phase; /* of a reset; of a question and its answer: its number */
    uint64_t key;   /* of a question: the group in which the rank is missed */
    int64_t when_ns;
    char reason[32];
    char text[768];
} hr__note;

typedef struct hr__mpi_peer {
    char host[64];
    atomic_bool gone; /* has returned from its function, and its streams are empty */
    int64_t gone_ns;  /* set before `gone`: when we heard of it */
    atomic_uint phase;
    atomic_uint answered; /* number of the question that `answer` is for */
    char answer[320];     /* written before `answered` */
    int sent, got;        /* notes; out_mu, reading */
} hr__mpi_peer;

typedef struct hr__mpi_job {
    int n, rank;
    hr_device *dev;
    bool owns_dev;
    int64_t limit_ns;
    hr__mpi_peer *peers;
    MPI_Comm control;

    pthread_mutex_t reading; /* one thread reads notes */
    bool ending;             /* reading; nothing is answered any more */
    hr__note in;             /* reading */
    MPI_Request in_request;  /* reading */
    atomic_llong read_ns;    /* when a wait last looked for notes */

    pthread_mutex_t out_mu;
    struct hr__mpi_letter *out; /* out_mu; notes under way */
    atomic_int letters;         /* how many */

    atomic_uint epoch; /* resets so far */
    atomic_uint phase; /* of resets: two each */
    bool reset_again;  /* the second meeting of a reset is still to come */
    pthread_mutex_t asking;
    atomic_uint questions;
    atomic_int gone; /* peers that have gone */

    hr__cause cause; /* the first that this rank knows of; its mutex is mu */
    pthread_mutex_t mu;
    int64_t when_ns;                /* mu; of the failure, by the wall */
    struct hr__mpi_member *members; /* mu; groups that live */
    MPI_Comm *comms;                /* issuing thread: all that were made, in order */
    int n_comms, cap_comms;
    struct hr__mpi_window *windows; /* issuing thread: that have not been freed */
} hr__mpi_job;

/* Collective. `dev` NULL: one is opened, and closed at the end. */
hr_status hr__mpi_job_create(const void *comm, const hr_mpi_opts *o, hr_device *dev,
                             hr__mpi_job **out);
/* The world, a group of all; `job` has it. */
hr_status hr__mpi_job_world(hr__mpi_job *job, hr_group **out);
/* Collective: this rank takes part in nothing any more. Waits until that is so on all, or the job has failed
 * and the time limit is over; then it is gone. The first failure of all ranks. */
hr_status hr__mpi_job_end(hr__mpi_job *job);
/* Remember a communicator, to be freed at the end: then all ranks free theirs in one order. */
hr_status hr__mpi_job_keep(hr__mpi_job *job, MPI_Comm comm);

/* Record the first failure with the calling thread's last error, fail the device with it, tell all
 * ranks. Later ones are ignored. Leaves the job's cause as the thread's last error. From any
 * thread, also within a hook of hr_device_fail(). */
void hr__mpi_fail(hr__mpi_job *job, hr_status st);
/* The first failure, its sentence now the calling thread's last error; OK if there is none. */
hr_status hr__mpi_status(hr__mpi_job *job);
static inline bool hr__mpi_failed(const hr__mpi_job *job)
{
    return atomic_load(&job->cause.told);
}

/* ---- notes (mpi_control.c) ---- */
hr_status hr__mpi_listen(hr__mpi_job *job); /* from now on */
void hr__mpi_deafen(hr__mpi_job *job);
void hr__mpi_poll(hr__mpi_job *job); /* does not block */
void hr__mpi_tell_all(hr__mpi_job *job, const hr__note *note);
/* This rank takes part in nothing any more. */
void hr__mpi_leave(hr__mpi_job *job);
/* Heard some time ago that the rank has gone, so what it sent before is here by now. */
bool hr__mpi_gone(const hr__mpi_job *job, int rank);
/* Append the operations that this rank is in. */
void hr__mpi_under_way(hr__mpi_job *job, char *buf, size_t cap);
/* Append where the ranks with missing[] are, as they say, or that they do not answer; where all of them do, who
 * of the others does not. `key`: in which group they are missed. */
void hr__mpi_ask(hr__mpi_job *job, const bool *missing, uint64_t key, char *buf,
                 size_t cap);

hr_status hr__mpi_reset(hr__mpi_job *job);

/* ---- waiting (mpi_wait.c) ---- */
typedef struct hr__mpi_waiting {
    hr_status (*look)(void *arg); /* OK: over. PENDING: not yet. Negative: never */
    void *arg;
    int64_t deadline_ns;
    bool deaf;     /* a failure of the job does not end it */
    int64_t bytes; /* that may be under way */
} hr__mpi_waiting;

/* What `look` says in the end; PENDING once the time is over; the cause once the job has failed. Reads
 * notes. Looks often at first, then sleeps in growing steps: from the beginning again when `look` has called
 * hr__mpi_stir(). */
hr_status hr__mpi_wait(hr__mpi_job *job, const hr__mpi_waiting *w);
/* Something has come, and `bytes` more are under way: of the calling thread's wait. */
void hr__mpi_stir(int64_t bytes);

#endif
