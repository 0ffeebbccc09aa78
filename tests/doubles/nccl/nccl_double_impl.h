/* Inside the test double of NCCL; see nccl_double.h. */
#ifndef HR_NCCL_DOUBLE_IMPL_H
#define HR_NCCL_DOUBLE_IMPL_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#include "nccl/nccl_double.h"
#include <nccl.h>
/* The header has them without a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
#pragma GCC visibility pop

/* ---- nccl_double_runtime.c: the double of the CUDA runtime, which HEADRACE_CUDART names -------------------- */
typedef struct runtime {
    int (*gpu_job)(void *stream, void (*fn)(void *arg), void (*drop)(void *arg),
                   void *arg);
    void (*gpu_works)(bool begins);
    int (*enter)(void);
    int (*device)(void);
    int (*deaths)(void);
    void *(*alloc)(size_t bytes);
    bool (*free)(void *p);
    bool (*reaches)(const void *p, size_t bytes);
} runtime;
const runtime *double_runtime(void); /* NULL: it is not loaded */

/* At the beginning of each call. */
ncclResult_t double_enter(void);
#define ENTER()                                                                        \
    do {                                                                               \
        ncclResult_t e_ = double_enter();                                              \
        if (e_ != ncclSuccess)                                                         \
            return e_;                                                                 \
    } while (0)
/* Note what is wrong, for ncclGetLastError() of this thread, and give `e` back. */
ncclResult_t double_wrong(ncclResult_t e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- operations ---- */
typedef enum kind {
    ALL_REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    BROADCAST,
    WINDOW,
    SEND,
    RECV
} kind;

typedef struct op {
    struct op *next; /* in a queue of sends */
    ncclComm_t comm;
    void *stream;
    kind kind;
    const void *send;
    void *recv;
    size_t count; /* of elements; a window's bytes */
    ncclDataType_t type;
    ncclRedOp_t op;
    int peer; /* root, too */
    bool done;
} op;
size_t double_type_bytes(ncclDataType_t t); /* 0: not one that is known here */

/* ---- communicators: all of a clique is under its mutex ---------------------------------------------- */
typedef struct meeting { /* one collective, as far as ranks have come to it */
    struct meeting *next;
    int there, left;
    op **of; /* [n] */
} meeting;

typedef struct note { /* what the first rank has called */
    struct note *next;
    kind kind;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root, first, there;
    long offset; /* of what it sends in its window; -1: in none */
} note;

typedef struct letter { /* a message that one side has called */
    struct letter *next;
    bool sent;
    size_t bytes;
} letter;

typedef struct clique {
    struct clique *next;
    int64_t id;
    int n, joined, refs;
    pthread_mutex_t mu;
    pthread_cond_t cv;
    ncclComm_t *of; /* [n]; NULL: not there */
    ncclResult_t error;
    char said[512];
    /* nccl_double_move.c */
    op **sends; /* [from * n + to]: queues */
    meeting *meetings;
    long meetings_begin; /* number of the first */
    /* nccl_double_check.c */
    note *notes;
    long notes_begin;
    letter **letters; /* [from * n + to] */
} clique;

typedef struct window {
    struct window *next;
    char *base;
    size_t bytes;
} window;

struct ncclComm {
    clique *clique;
    int refs, rank, device; /* refs: its owner, and work on streams */
    bool blocking, aborted,
        busy;         /* busy: the next question is answered by "in progress" */
    long called, run; /* collectives, and windows among the first */
    window *windows;
};

ncclResult_t double_comm_check(ncclComm_t comm); /* it lives and is ready */
void double_comm_hold(ncclComm_t comm);
void double_comm_drop(ncclComm_t comm);
/* Under the mutex: what cannot go on, for all ranks. */
void double_comm_fail(clique *c, ncclResult_t e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void double_count(int comms, int windows, int blocks); /* more of them live */

void double_window_free(
    window *w); /* nccl_double_window.c: it is in no list any more */
/* nccl_double_check.c, under the mutex: compare what a rank calls with what others have; false: they differ, and all have
 * failed. */
bool double_agrees(clique *c, const op *o);
void double_check_free(clique *c);
/* nccl_double_move.c: as work of the GPU; frees it. */
typedef struct job {
    ncclComm_t comm;
    int n;
    op ops[];
} job;
void double_run(void *job);
void double_drop(void *job); /* it is never to run */
void double_move_free(clique *c);

#endif
