/* What runs on the streams. All operations of a piece of work go on at once, as far as their peers have come; whoever
 * comes last to a collective does it for all. Under the mutex of the clique: nothing here is quick. */
#include "nccl_double_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- reductions ---- */
/* Round the ring, as NCCL does: the part of rank p begins at the rank behind it. */
#define FOLD(type, of, i, from, n, join)                                               \
    do {                                                                               \
        type acc_ = ((const type *)of[((from) + 1) % (n)]->send)[i];                   \
        for (int r_ = 2; r_ <= (n); r_++) {                                            \
            type x_ = ((const type *)of[((from) + r_) % (n)]->send)[i];                \
            acc_ = (join);                                                             \
        }                                                                              \
        ((type *)out)[i] = acc_;                                                       \
    } while (0)

static void fold(const meeting *r, int n, size_t i, int from, void *out)
{
    op *const *of = r->of;
    ncclRedOp_t how = of[0]->op;
    switch (of[0]->type) {
    case ncclFloat32:
        FOLD(float, of, i, from, n,
             how == ncclSum   ? acc_ + x_
             : how == ncclMax ? fmaxf(acc_, x_)
                              : fminf(acc_, x_));
        break;
    case ncclInt32:
        FOLD(int32_t, of, i, from, n,
             how == ncclSum   ? (int32_t)((uint32_t)acc_ + (uint32_t)x_)
             : how == ncclMax ? (acc_ > x_ ? acc_ : x_)
                              : (acc_ < x_ ? acc_ : x_));
        break;
    default:
        FOLD(int64_t, of, i, from, n,
             how == ncclSum   ? (int64_t)((uint64_t)acc_ + (uint64_t)x_)
             : how == ncclMax ? (acc_ > x_ ? acc_ : x_)
                              : (acc_ < x_ ? acc_ : x_));
    }
}

/* ---- a collective ---- */
/* Everybody's result, one after the other, where parts differ; else one for all. False: no memory. */
static bool do_meeting(const meeting *r, int n)
{
    const op *first = r->of[0];
    size_t each = double_type_bytes(first->type), bytes = first->count * each;
    bool wide = first->kind == ALL_GATHER || first->kind == REDUCE_SCATTER;
    size_t total = first->count * (wide ? (size_t)n : 1);
    char *out = malloc(total * each);
    if (out == NULL)
        return false;
    if (first->kind == ALL_GATHER)
        for (int i = 0; i < n; i++)
            memcpy(out + (size_t)i * bytes, r->of[i]->send, bytes);
    else if (first->kind == BROADCAST)
        memcpy(out, r->of[first->peer]->send, bytes);
    else
        for (size_t i = 0; i < total; i++)
            fold(r, n, i, (int)(i * (size_t)n / total), out);
    for (int i = 0; i < n; i++)
        memcpy(r->of[i]->recv,
               out + (first->kind == REDUCE_SCATTER ? (size_t)i * bytes : 0),
               first->kind == ALL_GATHER ? (size_t)n * bytes : bytes);
    free(out);
    for (int i = 0; i < n; i++)
        r->of[i]->done = true;
    return true;
}

static meeting *meeting_at(clique *c, long number)
{
    meeting **at = &c->meetings;
    for (long i = c->meetings_begin;; i++, at = &(*at)->next) {
        if (*at == NULL) {
            *at = calloc(1, sizeof **at + (size_t)c->n * sizeof(op *));
            if (*at)
                (*at)->of = (op **)(void *)(*at + 1);
        }
        if (*at == NULL || i == number)
            return *at;
    }
}

static void meeting_free(clique *c)
{
    meeting *r = c->meetings;
    c->meetings = r->next;
    c->meetings_begin++;
    free(r);
}

static bool are_alike(const meeting *r, int n)
{
    const op *a = r->of[0];
    for (int i = 1; i < n; i++) {
        const op *b = r->of[i];
        if (a->kind != b->kind || a->count != b->count || a->type != b->type ||
            a->op != b->op || a->peer != b->peer)
            return false;
    }
    return true;
}

static void come_to_meeting(clique *c, op *o)
{
    meeting *r = meeting_at(c, o->comm->run++);
    if (r == NULL) {
        double_comm_fail(c, ncclSystemError, "no memory");
        return;
    }
    r->of[o->comm->rank] = o;
    if (++r->there < c->n || !are_alike(r, c->n))
        return;
    if (!do_meeting(r, c->n))
        double_comm_fail(c, ncclSystemError, "no memory");
    meeting_free(c); /* those before it are over */
    pthread_cond_broadcast(&c->cv);
}

/* ---- messages ---- */
static op **queue_of(clique *c, int from, int to)
{
    return &c->sends[from * c->n + to];
}

static void hang_send(clique *c, op *o)
{
    op **at = queue_of(c, o->comm->rank, o->peer);
    while (*at)
        at = &(*at)->next;
    o->next = NULL;
    *at = o;
    pthread_cond_broadcast(&c->cv);
}

/* One that is not the first of its pair in this work waits for those before it. */
static bool is_turn(const job *j, const op *o)
{
    for (const op *before = j->ops; before < o; before++)
        if (before->kind == RECV && before->peer == o->peer && !before->done)
            return false;
    return true;
}

static bool try_receive(clique *c, const job *j, op *o)
{
    op **at = queue_of(c, o->peer, o->comm->rank), *s = *at;
    if (s == NULL || s->count != o->count || !is_turn(j, o))
        return false;
    memcpy(o->recv, s->send, o->count * double_type_bytes(o->type));
    *at = s->next;
    s->done = o->done = true;
    return true;
}

/* ---- a piece of work ---- */
static bool progress(clique *c, job *j)
{
    bool all = true, moved = false;
    for (int i = 0; i < j->n; i++) {
        if (!j->ops[i].done && j->ops[i].kind == RECV)
            moved = try_receive(c, j, &j->ops[i]) || moved;
        all = all && j->ops[i].done;
    }
    if (moved)
        pthread_cond_broadcast(&c->cv);
    return all;
}

static void begin(clique *c, job *j)
{
    for (int i = 0; i < j->n && c->error == ncclSuccess; i++) {
        if (j->ops[i].kind == SEND)
            hang_send(c, &j->ops[i]);
        else if (j->ops[i].kind != RECV)
            come_to_meeting(c, &j->ops[i]);
    }
}

/* Nobody touches what is left of it: after an error nothing moves. */
static void withdraw(clique *c, job *j)
{
    for (int i = 0; i < j->n; i++)
        for (op **at = queue_of(c, j->comm->rank, j->ops[i].peer); *at;)
            if (*at == &j->ops[i])
                *at = (*at)->next;
            else
                at = &(*at)->next;
}

static void wait_a_while(clique *c)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    double_runtime()->gpu_works(false);
    pthread_cond_timedwait(&c->cv, &c->mu, &until);
    double_runtime()->gpu_works(true);
}

void double_drop(void *job_)
{
    job *j = job_;
    double_comm_drop(j->comm);
    free(j);
}

void double_run(void *job_)
{
    job *j = job_;
    clique *c = j->comm->clique;
    int deaths = double_runtime()->deaths();
    pthread_mutex_lock(&c->mu);
    begin(c, j);
    bool done = c->error == ncclSuccess && progress(c, j);
    while (!done && c->error == ncclSuccess && deaths == double_runtime()->deaths()) {
        wait_a_while(c);
        done = c->error == ncclSuccess && progress(c, j);
    }
    if (!done) {
        double_comm_fail(c, ncclUnhandledCudaError, "the context has died");
        withdraw(c, j);
    }
    pthread_mutex_unlock(&c->mu);
    double_drop(j);
}

void double_move_free(clique *c)
{
    while (c->meetings)
        meeting_free(c);
}
