/* mpi_member.h: a group of the MPI engine, a communicator of its own. One operation of a group runs at a time, on the thread of the stream that it was issued on; beside
 * it the issuing thread may make a group or a window out of it. */
#ifndef HR_MPI_MEMBER_H
#define HR_MPI_MEMBER_H
#include "group/doing.h"
#include "group/group_ops.h"
#include "group/mpi/mpi_exchange.h"
#include "group/mpi/mpi_job.h"
#include "group/post.h"

typedef struct hr__mpi_member {
    hr_group base; /* first: an hr_group* is a member */
    hr__mpi_job *job;
    struct hr__mpi_member *next; /* job->mu */
    MPI_Comm comm;
    int *global;       /* [size] */
    uint64_t key;      /* the same on all members, and no other group's */
    uint64_t children; /* issuing thread */
    hr__posts posts;   /* issuing thread */
    hr__mpi_exchange work, host;
    uint64_t ops, batches; /* kernels count; those begun before are in the past */
    const void **inputs;   /* [size]; kernel */
    char *scratch;         /* kernel */
    size_t scratch_bytes;
    int64_t windows_end;  /* issuing thread: of the symmetric space so far */
    atomic_int fence;     /* kernel: orders what peers do in windows around the steps */
    hr__doing doing;      /* kernels write */
    hr__doing doing_host; /* issuing thread writes */
} hr__mpi_member;

static inline hr__mpi_member *hr__mpi_member_of(const hr_group *g)
{
    return (hr__mpi_member *)(uintptr_t)g;
}

/* Takes `comm` over, which the job keeps; `global` is copied. */
hr_status hr__mpi_member_create(hr__mpi_job *job, MPI_Comm comm, uint64_t key,
                                const int *global, int n, int me, hr_group **out);
void hr__mpi_member_destroy(hr__mpi_member *m);
/* Forget what a reset drops; nothing runs. */
void hr__mpi_member_clear(hr__mpi_member *m);

/* A step under way, for the sentences of one that does not end. */
typedef struct hr__mpi_step {
    hr__mpi_member *m;
    hr__mpi_exchange *x;
    const hr__entry *entry;
    hr_status (*late)(const struct hr__mpi_step *step);
    bool all_or_none; /* it ends well on all members or on none */
} hr__mpi_step;

/* Start what was added to the exchange and see it through: the time limit, ranks that have gone, failures
 * of the job. After an error nothing of it comes in any more. */
hr_status hr__mpi_step_run(const hr__mpi_step *step);
/* The same for what is found when it is through. Returns the job's failure. */
hr_status hr__mpi_step_fail(const hr__mpi_step *step, hr_status st);
/* For steps of all members: who is there, who is missing, and where they are. */
hr_status hr__mpi_step_late(const hr__mpi_step *step);
hr__where hr__mpi_step_where(const hr__mpi_step *step);

/* All members, on their issuing threads, show each other `bytes` each: all[i] is member i's. `op` is for
 * failures, and so is `of` (bytes; -1: nothing to say). */
hr_status hr__mpi_meet_host(hr__mpi_member *m, const char *op, void *all, size_t bytes,
                            int64_t of);

hr_status hr__mpi_collective(hr_group *g, const hr__call *c, hr_stream *s);
hr_status hr__mpi_batch(hr_group *g, const hr_p2p *ops, int n, hr_stream *s);

#endif
