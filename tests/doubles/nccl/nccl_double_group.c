/* Calls of operations: collected up to the end of their group, then put on their stream, one piece of work a
 * communicator. */
#include "nccl_double_impl.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 256 };

static _Thread_local int depth;
static _Thread_local ncclResult_t wrong; /* the first of this group */
static _Thread_local int n_ops;
static _Thread_local op ops[MOST];

size_t double_type_bytes(ncclDataType_t t)
{
    return t == ncclInt8 || t == ncclUint8      ? 1
           : t == ncclInt32 || t == ncclFloat32 ? 4
           : t == ncclInt64                     ? 8
                                                : 0;
}

static bool is_message(const op *o)
{
    return o->kind == SEND || o->kind == RECV;
}

/* What it reads and writes, in elements. */
static size_t read_count(const op *o)
{
    return o->kind == REDUCE_SCATTER ? o->count * (size_t)o->comm->clique->n
           : o->kind == RECV         ? 0
                                     : o->count;
}

static size_t write_count(const op *o)
{
    return o->kind == ALL_GATHER ? o->count * (size_t)o->comm->clique->n
           : o->kind == SEND     ? 0
                                 : o->count;
}

static ncclResult_t check(const op *o)
{
    size_t each = double_type_bytes(o->type);
    const runtime *rt = double_runtime();
    ncclResult_t e = double_comm_check(o->comm);
    if (e != ncclSuccess)
        return e;
    if (each == 0 || o->peer < 0 || o->peer >= o->comm->clique->n ||
        (o->op != ncclSum && o->op != ncclMax && o->op != ncclMin))
        return double_wrong(ncclInvalidArgument, "type %d, peer %d, reduction %d",
                            (int)o->type, o->peer, (int)o->op);
    if (rt->device() != o->comm->device)
        return double_wrong(ncclInvalidUsage, "the current device is %d, not %d",
                            rt->device(), o->comm->device);
    bool reads =
        read_count(o) > 0 && (o->kind != BROADCAST || o->peer == o->comm->rank);
    if ((reads && !rt->reaches(o->send, read_count(o) * each)) ||
        (write_count(o) > 0 && !rt->reaches(o->recv, write_count(o) * each)))
        return double_wrong(ncclInvalidArgument,
                            "a buffer is no memory that CUDA has given");
    return ncclSuccess;
}

/* ---- the end of a group ---- */
static ncclResult_t submit(job *j, void *stream)
{
    clique *c = j->comm->clique;
    bool agree = true;
    pthread_mutex_lock(&c->mu);
    for (int i = 0; i < j->n && agree; i++)
        agree = double_agrees(c, &j->ops[i]);
    pthread_mutex_unlock(&c->mu);
    if (!agree) {
        free(j);
        return ncclInvalidUsage;
    }
    bool blocking = j->comm->blocking;
    j->comm->busy = !blocking;
    double_comm_hold(j->comm);
    if (double_runtime()->gpu_job(stream, double_run, double_drop, j) == 0)
        return blocking ? ncclSuccess : ncclInProgress;
    double_drop(j);
    return double_wrong(ncclUnhandledCudaError, "no such stream");
}

/* All operations of the communicator of ops[first]. */
static job *gather(int first, bool *of_job)
{
    job *j = malloc(sizeof *j + (size_t)n_ops * sizeof j->ops[0]);
    if (j == NULL)
        return NULL;
    j->comm = ops[first].comm;
    j->n = 0;
    for (int i = first; i < n_ops; i++)
        if (!of_job[i] && ops[i].comm == j->comm) {
            of_job[i] = true;
            j->ops[j->n++] = ops[i];
        }
    return j;
}

static ncclResult_t submit_all(void)
{
    ncclResult_t e = ncclSuccess;
    bool *of_job = calloc((size_t)n_ops + 1, sizeof *of_job);
    for (int i = 0; of_job && i < n_ops; i++) {
        if (of_job[i])
            continue;
        job *j = gather(i, of_job);
        ncclResult_t put = j ? submit(j, ops[i].stream) : ncclSystemError;
        if (put != ncclSuccess && (e == ncclSuccess || e == ncclInProgress))
            e = put;
    }
    free(of_job);
    return of_job ? e : ncclSystemError;
}

static ncclResult_t end_group(void)
{
    ncclResult_t e = wrong;
    if (--depth > 0)
        return ncclSuccess;
    if (e == ncclSuccess)
        e = submit_all();
    n_ops = 0;
    wrong = ncclSuccess;
    return e;
}

ncclResult_t ncclGroupStart(void)
{
    ENTER();
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t e = double_enter(), end;
    if (depth == 0)
        return double_wrong(ncclInvalidUsage, "the end of a group that has not begun");
    if (e != ncclSuccess && wrong == ncclSuccess)
        wrong = e;
    end = end_group();
    return e != ncclSuccess ? e : end;
}

static ncclResult_t call(op o)
{
    ncclResult_t e = double_enter();
    if (e == ncclSuccess)
        e = check(&o);
    if (e == ncclSuccess && n_ops == MOST)
        e = double_wrong(ncclInternalError, "more than %d operations in a group", MOST);
    if (e != ncclSuccess) {
        if (depth > 0 && wrong == ncclSuccess)
            wrong = e;
        return e;
    }
    if (o.count == 0 && !is_message(&o))
        return ncclSuccess;
    ops[n_ops++] = o;
    if (depth > 0)
        return ncclSuccess;
    depth = 1;
    return end_group();
}

/* ---- the calls ---- */
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t t,
                           ncclRedOp_t r, ncclComm_t comm, cudaStream_t s)
{
    return call((op){.comm = comm,
                     .stream = s,
                     .kind = ALL_REDUCE,
                     .send = send,
                     .recv = recv,
                     .count = count,
                     .type = t,
                     .op = r});
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t t,
                           ncclComm_t comm, cudaStream_t s)
{
    return call((op){.comm = comm,
                     .stream = s,
                     .kind = ALL_GATHER,
                     .send = send,
                     .recv = recv,
                     .count = count,
                     .type = t});
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count,
                               ncclDataType_t t, ncclRedOp_t r, ncclComm_t comm,
                               cudaStream_t s)
{
    return call((op){.comm = comm,
                     .stream = s,
                     .kind = REDUCE_SCATTER,
                     .send = send,
                     .recv = recv,
                     .count = count,
                     .type = t,
                     .op = r});
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t t,
                           int root, ncclComm_t comm, cudaStream_t s)
{
    return call((op){.comm = comm,
                     .stream = s,
                     .kind = BROADCAST,
                     .send = send,
                     .recv = recv,
                     .count = count,
                     .type = t,
                     .peer = root});
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t t, int peer,
                      ncclComm_t comm, cudaStream_t s)
{
    return call((op){.comm = comm,
                     .stream = s,
                     .kind = SEND,
                     .send = send,
                     .count = count,
                     .type = t,
                     .peer = peer});
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t t, int peer,
                      ncclComm_t comm, cudaStream_t s)
{
    return call((op){.comm = comm,
                     .stream = s,
                     .kind = RECV,
                     .recv = recv,
                     .count = count,
                     .type = t,
                     .peer = peer});
}
