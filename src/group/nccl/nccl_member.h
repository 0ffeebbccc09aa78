/* nccl_member.h: a group over NCCL: a group of the base, and a communicator of the same ranks. */
#ifndef HR_NCCL_MEMBER_H
#define HR_NCCL_MEMBER_H
#include "group/doing.h"
#include "group/group_ops.h"
#include "group/nccl/nccl_board.h"
#include "group/nccl/nccl_flight.h"
#include "group/nccl/nccl_stage.h"

typedef struct hr__nccl_member {
    hr_group base; /* first: an hr_group* is a member */
    hr__nccl_job *job;
    struct hr__nccl_member *next; /* job->mu */
    hr_group *under; /* the same ranks on the base; owned but for the world's */
    ncclComm_t comm; /* issuing thread; NULL: aborted, or none of its own yet */
    bool foreign;    /* `comm` is somebody else's */
    uint64_t key; /* the same on all members, and no other group's; 0: not yet known */
    int *global;  /* [size] */
    hr__nccl_board *board;    /* shared by the members of one process; NULL: none */
    uint64_t ops, batches;    /* issuing thread: issued */
    hr__nccl_flights flights; /* job->mu */
    int64_t windows_end;      /* issuing thread: of the symmetric space so far */
    hr__nccl_piece *token;    /* a few bytes for barriers and empty messages */
} hr__nccl_member;

static inline hr__nccl_member *hr__nccl_member_of(const hr_group *g)
{
    return (hr__nccl_member *)(uintptr_t)g;
}

/* Collective over `under`, which it takes. `comm` NULL: it makes one. */
hr_status hr__nccl_member_create(hr__nccl_job *job, hr_group *under, ncclComm_t comm,
                                 hr__nccl_member **out);
void hr__nccl_member_destroy(hr__nccl_member *m);

/* nccl_comm.c: collective over m->under: the communicator and the board, which are NULL before; the communicator is
 * `comm` if that is not NULL. Fails on all alike, or fails the job. */
hr_status hr__nccl_comm_open(hr__nccl_member *m, ncclComm_t comm);
/* What was issued has run. */
void hr__nccl_comm_close(hr__nccl_member *m);
void hr__nccl_comm_abort(hr__nccl_member *m);
/* Wait until NCCL is through with what it was told, for which it may need peers; `op` and `seq` for failures. */
hr_status hr__nccl_settle(hr__nccl_member *m, const char *op, uint64_t seq);
/* What NCCL has found meanwhile. A failure elsewhere counts once the base has had time to say whose it is. */
hr_status hr__nccl_async(hr__nccl_member *m);

/* nccl_late.c: does the oldest operation under way wait in vain? And `st`, which is NCCL's and in the last error, with
 * the operation that it met, if that has not ended. */
hr_status hr__nccl_check_late(hr__nccl_member *m);
hr_status hr__nccl_name_failed(hr__nccl_member *m, hr_status st);

/* nccl_reset.c */
hr_status hr__nccl_reset(hr__nccl_job *job);

hr_status hr__nccl_collective(hr_group *g, const hr__call *c, hr_stream *s);
hr_status hr__nccl_batch(hr_group *g, const hr_p2p *ops, int n, hr_stream *s);

#endif
