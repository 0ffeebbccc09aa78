/* Operations: what a call means to NCCL. Each is checked on the board, its memory of the host put where NCCL reaches it,
 * and then enqueued at once on the native stream, between two events. */
#include "base/try.h"
#include "group/nccl/nccl_member.h"
#include <stdlib.h>

/* An operation on its way to NCCL; buffers are those that it may touch. */
typedef struct issue {
    hr__nccl_member *m;
    const hr__call *c; /* NULL: a batch */
    const void *send;
    void *recv;
    const hr_p2p *ops; /* [n] */
    int n;
    hr__nccl_flight what; /* its name, number, bytes, label */
    hr__nccl_stage *stage;
} issue;

static size_t bytes_of(const hr__call *c, int64_t count)
{
    return (size_t)count * c->element_bytes;
}

/* ---- the calls of NCCL ---- */
static ncclDataType_t dtype_of(const hr__call *c)
{
    return c->dtype == HR_F32   ? ncclFloat32
           : c->dtype == HR_I32 ? ncclInt32
                                : ncclInt64;
}

static ncclRedOp_t reduce_of(const hr__call *c)
{
    return c->reduce == HR_SUM ? ncclSum : c->reduce == HR_MAX ? ncclMax : ncclMin;
}

/* Both sides of a part without elements know that there is none. */
static ncclResult_t put_parts(const issue *x, cudaStream_t s)
{
    const hr__nccl *lib = x->m->job->lib;
    const char *out = x->send;
    char *in = x->recv;
    ncclResult_t e = ncclSuccess;
    for (int r = 0; r < x->m->base.size && e == ncclSuccess; r++) {
        size_t sent = bytes_of(x->c, x->c->send_counts[r]);
        size_t wanted = bytes_of(x->c, x->c->recv_counts[r]);
        if (sent > 0)
            e = lib->ncclSend(out, sent, ncclUint8, r, x->m->comm, s);
        if (wanted > 0 && e == ncclSuccess)
            e = lib->ncclRecv(in, wanted, ncclUint8, r, x->m->comm, s);
        out += sent;
        in += wanted;
    }
    return e;
}

/* A message without bytes is one that is waited for: it has one. */
static ncclResult_t put_messages(const issue *x, cudaStream_t s)
{
    const hr__nccl *lib = x->m->job->lib;
    char *token = x->m->token->at;
    ncclResult_t e = ncclSuccess;
    for (int i = 0; i < x->n && e == ncclSuccess; i++) {
        const hr_p2p *op = &x->ops[i];
        size_t bytes = op->bytes ? op->bytes : 1;
        void *buf = op->bytes ? op->buf : token;
        e = op->send ? lib->ncclSend(buf, bytes, ncclUint8, op->peer, x->m->comm, s)
                     : lib->ncclRecv(op->bytes ? buf : token + 1, bytes, ncclUint8,
                                     op->peer, x->m->comm, s);
    }
    return e;
}

static ncclResult_t put_call(const issue *x, cudaStream_t s)
{
    const hr__nccl *lib = x->m->job->lib;
    const hr__call *c = x->c;
    ncclComm_t comm = x->m->comm;
    size_t count = (size_t)c->count, bytes = bytes_of(c, c->count);
    char *token = x->m->token->at;
    switch (c->kind) {
    case HR__BARRIER:
        return lib->ncclAllReduce(token, token, 1, ncclInt32, ncclSum, comm, s);
    case HR__ALL_REDUCE:
        return lib->ncclAllReduce(x->send, x->recv, count, dtype_of(c), reduce_of(c),
                                  comm, s);
    case HR__ALL_GATHER:
        return lib->ncclAllGather(x->send, x->recv, bytes, ncclUint8, comm, s);
    case HR__REDUCE_SCATTER:
        return lib->ncclReduceScatter(x->send, x->recv, count, dtype_of(c),
                                      reduce_of(c), comm, s);
    case HR__BROADCAST:
        return lib->ncclBroadcast(x->recv, x->recv, bytes, ncclUint8, c->root, comm, s);
    case HR__ALL_TO_ALL:
        return put_parts(x, s);
    case HR__ROWS_STORE:
    case HR__ROWS_LOAD:
        break;
    }
    return ncclInvalidUsage;
}

/* All of it is one operation of the GPU, so that no order within it can deadlock. */
static hr_status put(const issue *x, cudaStream_t s)
{
    const hr__nccl *lib = x->m->job->lib;
    ncclComm_t comm = x->m->comm;
    HR_TRY(hr__nccl_status(lib, lib->ncclGroupStart(), comm, "ncclGroupStart"));
    ncclResult_t put = x->c ? put_call(x, s) : put_messages(x, s);
    ncclResult_t end = lib->ncclGroupEnd();
    HR_TRY(hr__nccl_status(lib, put, comm, x->what.op));
    HR_TRY(hr__nccl_status(lib, end, comm, "ncclGroupEnd"));
    return hr__nccl_settle(x->m, x->what.op, x->what.seq);
}

/* ---- enqueueing ---- */
static hr_status record(const issue *x, cudaEvent_t e, hr_stream *s)
{
    const hr__cudart *rt = x->m->job->dev->rt;
    return hr__cuda_status(rt, rt->cudaEventRecord(e, hr__cuda_stream(s)),
                           "cudaEventRecord");
}

static hr_status put_between_events(const issue *x, const hr__nccl_flight *f,
                                    hr_stream *s)
{
    HR_TRY(record(x, f->begin, s));
    HR_TRY(put(x, hr__cuda_stream(s)));
    return record(x, f->end, s);
}

static hr_status enqueue(hr_stream *s, const void *args)
{
    const issue *x = args;
    hr__nccl_job *job = x->m->job;
    hr__nccl_flights *all = &x->m->flights;
    if (x->m->comm == NULL) /* it was aborted: whoever waits hears why */
        return job->base->ops->status(job->base);
    hr__nccl_flight *f = hr__nccl_flight_new(all, job->dev);
    if (f == NULL)
        return HR_ERR_NOMEM;
    hr__nccl_flight blank = *f;
    *f = x->what;
    f->begin = blank.begin;
    f->end = blank.end;
    hr_status st = put_between_events(x, f, s);
    if (st < 0) {
        hr__nccl_flight_drop(all, job->dev, f);
        return st;
    }
    x->stage->issued = true;
    f->pieces = hr__nccl_stage_take(x->stage);
    pthread_mutex_lock(&job->mu);
    hr__nccl_flight_add(all, f);
    pthread_mutex_unlock(&job->mu);
    return HR_OK;
}

static hr_status launch(const issue *x, const hr_operand *operands, int n, hr_stream *s)
{
    hr__nccl_job *job = x->m->job;
    pthread_mutex_lock(&job->mu);
    hr__nccl_flights_refresh(&x->m->flights, job->dev->rt);
    hr__nccl_flights_reap(&x->m->flights, job->dev, false);
    pthread_mutex_unlock(&job->mu);
    hr_status st = hr__nccl_stage_in(x->stage, s);
    if (st >= 0)
        st = hr__launch_native(s, &(hr__native_launch){.name = x->what.op,
                                                       .kind = HR_SPAN_TRANSFER,
                                                       .enqueue = enqueue,
                                                       .args = x,
                                                       .operands = operands,
                                                       .n_operands = n});
    if (st >= 0 && x->stage->issued)
        return hr__nccl_stage_out(x->stage, s);
    hr__nccl_stage_cancel(x->stage);
    return st;
}

/* ---- collectives ---- */
static void sizes_of(const hr__call *c, int n, size_t *out, size_t *in)
{
    int64_t sent = c->count, wanted = c->count;
    if (c->kind == HR__ALL_TO_ALL) {
        sent = wanted = 0;
        for (int r = 0; r < n; r++) {
            sent += c->send_counts[r];
            wanted += c->recv_counts[r];
        }
    } else if (c->kind == HR__ALL_GATHER) {
        wanted *= n;
    } else if (c->kind == HR__REDUCE_SCATTER) {
        sent *= n;
    }
    *out = c->send ? bytes_of(c, sent) : 0;
    *in = c->recv ? bytes_of(c, wanted) : 0;
}

/* Where NCCL is to read and to write: the larger of the two first, for the other may be a part of it. */
static hr_status reach(issue *x, size_t out, size_t in)
{
    const hr__call *c = x->c;
    hr_access access = HR_WRITE;
    void *send = NULL;
    if (c->kind == HR__BROADCAST && c->root == x->m->base.rank)
        access = HR_READ;
    if (out > in)
        HR_TRY(hr__nccl_reach(x->stage, c->send, out, HR_READ, &send));
    HR_TRY(hr__nccl_reach(x->stage, c->recv, in, access, &x->recv));
    if (out <= in)
        HR_TRY(hr__nccl_reach(x->stage, c->send, out, HR_READ, &send));
    x->send = send;
    return HR_OK;
}

static hr_status issue_call(hr__nccl_member *m, const hr__call *c, uint64_t seq,
                            hr_stream *s, const hr_op_label *label)
{
    size_t out, in;
    hr_operand operands[2];
    int n = 0;
    hr__nccl_stage stage = {.job = m->job};
    issue x = {.m = m, .c = c, .stage = &stage};
    sizes_of(c, m->base.size, &out, &in);
    x.what = (hr__nccl_flight){.op = hr__op_name(c->kind),
                               .seq = seq,
                               .bytes = (int64_t)(out > in ? out : in),
                               .label = *label};
    hr_status st = reach(&x, out, in);
    if (st < 0) {
        hr__nccl_stage_cancel(&stage);
        return st;
    }
    if (out > 0 && x.send == c->send)
        operands[n++] = (hr_operand){c->send, out, HR_READ};
    if (in > 0 && x.recv == c->recv)
        operands[n++] = (hr_operand){
            c->recv, in,
            c->kind == HR__BROADCAST && c->root == m->base.rank ? HR_READ : HR_WRITE};
    return launch(&x, operands, n, s);
}

/* A disagreement is the job's failure, and nothing of it goes to NCCL. */
static hr_status found(hr__nccl_member *m, hr_status st)
{
    if (st < 0)
        hr__nccl_fail(m->job, st);
    return st;
}

hr_status hr__nccl_collective(hr_group *g, const hr__call *c, hr_stream *s)
{
    hr__nccl_member *m = hr__nccl_member_of(g);
    hr_op_label label = hr__order_label(s, &g->label);
    if (hr__nccl_look_status(m->job) < 0)
        return HR_OK;
    if (c->kind == HR__ROWS_STORE || c->kind == HR__ROWS_LOAD)
        return hr_fail(HR_ERR_UNSUPPORTED, "no_rows",
                       "%s: rows between windows are not there over NCCL (their counts "
                       "are known to device memory alone); exchange them by "
                       "hr_all_to_all_v()",
                       hr__op_name(c->kind));
    uint64_t seq = m->ops++;
    if (found(m, hr__nccl_board_call(m->board, g->rank, seq, c, &label)) < 0)
        return HR_OK;
    return issue_call(m, c, seq, s, &label);
}

/* ---- batches ---- */
typedef struct batch {
    hr_p2p *ops; /* [n], with buffers that NCCL reaches */
    hr_operand *operands;
    int n_operands;
} batch;

static hr_status reach_messages(hr__nccl_stage *stage, const hr_p2p *ops, int n,
                                batch *b)
{
    for (int i = 0; i < n; i++) {
        hr_access access = ops[i].send ? HR_READ : HR_WRITE;
        b->ops[i] = ops[i];
        HR_TRY(hr__nccl_reach(stage, ops[i].buf, ops[i].bytes, access, &b->ops[i].buf));
        if (ops[i].bytes && b->ops[i].buf == ops[i].buf)
            b->operands[b->n_operands++] =
                (hr_operand){ops[i].buf, ops[i].bytes, access};
    }
    return HR_OK;
}

static hr_status issue_batch(hr__nccl_member *m, const hr_p2p *ops, batch *b, int n,
                             hr_stream *s, const issue *like)
{
    hr__nccl_stage stage = {.job = m->job};
    issue x = *like;
    x.ops = b->ops;
    x.n = n;
    x.stage = &stage;
    hr_status st = reach_messages(&stage, ops, n, b);
    if (st < 0) {
        hr__nccl_stage_cancel(&stage);
        return st;
    }
    return launch(&x, b->operands, b->n_operands, s);
}

hr_status hr__nccl_batch(hr_group *g, const hr_p2p *ops, int n, hr_stream *s)
{
    hr__nccl_member *m = hr__nccl_member_of(g);
    issue x = {.m = m};
    x.what = (hr__nccl_flight){.op = "send_recv",
                               .batch = true,
                               .seq = m->batches,
                               .label = hr__order_label(s, &g->label)};
    if (hr__nccl_look_status(m->job) < 0)
        return HR_OK;
    for (int i = 0; i < n; i++) {
        x.what.bytes += (int64_t)ops[i].bytes;
        if (ops[i].peer < 64)
            x.what.peers |= (uint64_t)1 << ops[i].peer;
    }
    m->batches++;
    if (found(m, hr__nccl_board_batch(m->board, g->rank, x.what.seq, ops, n,
                                      &x.what.label)) < 0)
        return HR_OK;
    batch b = {.ops = calloc((size_t)n, sizeof *b.ops),
               .operands = calloc((size_t)n, sizeof *b.operands)};
    hr_status st = b.ops && b.operands
                       ? issue_batch(m, ops, &b, n, s, &x)
                       : hr_fail(HR_ERR_NOMEM, NULL, "a batch of %d messages", n);
    free(b.ops);
    free(b.operands);
    return st;
}
