/* nccl_stage.h: memory of the host in operations of the GPU. What NCCL may not touch goes through pieces of memory
 * that both sides reach, filled and emptied by host kernels, which wait for nobody: so an operation on memory of the
 * host is ordered on its stream like any other, and the host does not wait for it. */
#ifndef HR_NCCL_STAGE_H
#define HR_NCCL_STAGE_H
#include "group/nccl/nccl_job.h"

typedef struct hr__nccl_range {
    size_t begin, end;
} hr__nccl_range;

typedef struct hr__nccl_piece {
    struct hr__nccl_piece *next;    /* of the job */
    struct hr__nccl_piece *next_of; /* of one operation */
    char *at;                       /* that both reach */
    size_t room;
    const char *host; /* what it stands for */
    size_t bytes;
    hr__nccl_range in, out; /* of those: what goes in before, and comes out after */
    atomic_bool busy;
} hr__nccl_piece;

/* The pieces of one operation. */
typedef struct hr__nccl_stage {
    hr__nccl_job *job;
    hr__nccl_piece *pieces;
    bool issued; /* by who issues the operation: it is on its stream */
} hr__nccl_stage;

/* What NCCL is to touch in place of [ptr, ptr + bytes): the same, if it may. Of two that overlap the larger one comes
 * first. ERR_NOMEM, ERR_DEVICE. */
hr_status hr__nccl_reach(hr__nccl_stage *st, const void *ptr, size_t bytes,
                         hr_access access, void **out);
/* Before and after the operation on `s`. */
hr_status hr__nccl_stage_in(hr__nccl_stage *st, hr_stream *s);
hr_status hr__nccl_stage_out(hr__nccl_stage *st, hr_stream *s);
/* Those that only go in are in use until the operation has ended: whoever knows when takes them; the others are
 * given back by what empties them. */
hr__nccl_piece *hr__nccl_stage_take(hr__nccl_stage *st);
/* It was not issued: all are free. */
void hr__nccl_stage_cancel(hr__nccl_stage *st);

void hr__nccl_pieces_done(hr__nccl_piece *of_one); /* NULL is fine */
void hr__nccl_pieces_clear(hr__nccl_job *job);     /* nothing runs any more */
void hr__nccl_pieces_free(hr__nccl_job *job);

/* One of few bytes, which is in use until hr__nccl_pieces_done(). ERR_NOMEM, ERR_DEVICE. */
hr_status hr__nccl_token(hr__nccl_job *job, hr__nccl_piece **out);

#endif
