/* Communicators: a clique is what those of one unique id share. */
#include "nccl_double_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct identity {
    char word[16];
    int64_t pid, number;
} identity;
_Static_assert(sizeof(identity) <= NCCL_UNIQUE_ID_BYTES, "an identity fits");
static const char word[16] = "NCCL double";

static pthread_mutex_t cliques_mu = PTHREAD_MUTEX_INITIALIZER; /* before a clique's */
static clique *cliques;                                        /* cliques_mu */
static int64_t numbers;                                        /* cliques_mu */

ncclResult_t ncclGetUniqueId(ncclUniqueId *out)
{
    ENTER();
    identity id = {.pid = getpid()};
    memcpy(id.word, word, sizeof word);
    pthread_mutex_lock(&cliques_mu);
    id.number = ++numbers;
    pthread_mutex_unlock(&cliques_mu);
    memset(out, 0, sizeof *out);
    memcpy(out->internal, &id, sizeof id);
    return ncclSuccess;
}

/* ---- cliques ---- */
static clique *clique_new(int64_t id, int n)
{
    size_t size = (size_t)n;
    clique *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->id = id;
    c->n = n;
    pthread_mutex_init(&c->mu, NULL);
    pthread_cond_init(&c->cv, NULL);
    c->of = calloc(size, sizeof(ncclComm_t));
    c->sends = calloc(size * size, sizeof(op *));
    c->letters = calloc(size * size, sizeof(letter *));
    if (c->of && c->sends && c->letters)
        return c;
    free(c->of);
    free(c->sends);
    free(c->letters);
    free(c);
    return NULL;
}

static void clique_free(clique *c)
{
    double_check_free(c);
    double_move_free(c);
    pthread_mutex_destroy(&c->mu);
    pthread_cond_destroy(&c->cv);
    free(c->of);
    free(c->sends);
    free(c->letters);
    free(c);
}

static void clique_drop(clique *c)
{
    pthread_mutex_lock(&cliques_mu);
    bool last = --c->refs == 0;
    for (clique **at = &cliques; last && *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    pthread_mutex_unlock(&cliques_mu);
    if (last)
        clique_free(c);
}

static clique *clique_get(int64_t id, int n)
{
    pthread_mutex_lock(&cliques_mu);
    clique *c = cliques;
    while (c && c->id != id)
        c = c->next;
    if (c == NULL && (c = clique_new(id, n)) != NULL) {
        c->next = cliques;
        cliques = c;
    }
    if (c)
        c->refs++;
    pthread_mutex_unlock(&cliques_mu);
    return c;
}

void double_comm_fail(clique *c, ncclResult_t e, const char *format, ...)
{
    va_list args;
    if (c->error != ncclSuccess)
        return;
    va_start(args, format);
    vsnprintf(c->said, sizeof c->said, format, args);
    va_end(args);
    c->error = e;
    pthread_cond_broadcast(&c->cv);
}

void headrace_nccl_break(int result)
{
    pthread_mutex_lock(&cliques_mu);
    for (clique *c = cliques; c; c = c->next) {
        pthread_mutex_lock(&c->mu);
        double_comm_fail(c, (ncclResult_t)result, "it was broken by a test");
        pthread_mutex_unlock(&c->mu);
    }
    pthread_mutex_unlock(&cliques_mu);
}

/* ---- communicators ---- */
static ncclResult_t join_locked(clique *c, ncclComm_t comm, int n)
{
    if (c->n != n || c->of[comm->rank])
        return double_wrong(
            ncclInvalidUsage,
            "rank %d of %d: the clique has %d ranks, or this one already", comm->rank,
            n, c->n);
    for (int i = 0; i < n; i++)
        if (c->of[i] && c->of[i]->device == comm->device) {
            double_comm_fail(
                c, ncclInvalidUsage,
                "Duplicate GPU detected : rank %d and rank %d both on CUDA "
                "device %d",
                i, comm->rank, comm->device);
            return double_wrong(ncclInvalidUsage, "%s", c->said);
        }
    c->of[comm->rank] = comm;
    c->joined++;
    pthread_cond_broadcast(&c->cv);
    while (comm->blocking && c->joined < c->n && c->error == ncclSuccess)
        pthread_cond_wait(&c->cv, &c->mu);
    return c->error;
}

static ncclResult_t join(clique *c, ncclComm_t comm, int n)
{
    pthread_mutex_lock(&c->mu);
    ncclResult_t e = join_locked(c, comm, n);
    pthread_mutex_unlock(&c->mu);
    return e;
}

static ncclResult_t make(ncclComm_t *out, int n, int64_t id, int rank, bool blocking)
{
    ncclComm_t comm = calloc(1, sizeof *comm);
    clique *c = comm ? clique_get(id, n) : NULL;
    if (c == NULL) {
        free(comm);
        return double_wrong(ncclSystemError, "no memory");
    }
    comm->clique = c;
    comm->refs = 1;
    comm->rank = rank;
    comm->device = double_runtime()->device();
    comm->blocking = blocking;
    ncclResult_t e = join(c, comm, n);
    if (e != ncclSuccess) {
        clique_drop(c);
        free(comm);
        return e;
    }
    double_count(1, 0, 0);
    *out = comm;
    return blocking ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId unique,
                                    int rank, ncclConfig_t *config)
{
    identity id;
    ENTER();
    memcpy(&id, unique.internal, sizeof id);
    if (memcmp(id.word, word, sizeof word) != 0 || n < 1 || rank < 0 || rank >= n)
        return double_wrong(ncclInvalidArgument, "rank %d of %d, or no unique id", rank,
                            n);
    if (id.pid != getpid())
        return double_wrong(
            ncclSystemError,
            "the test double of NCCL joins threads of one process, but the "
            "unique id is of process %lld",
            (long long)id.pid);
    if (config == NULL || config->magic != 0xcafebeef)
        return double_wrong(ncclInvalidArgument, "no config");
    return make(out, n, id.number, rank, config->blocking != 0);
}

void double_comm_hold(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->clique->mu);
    comm->refs++;
    pthread_mutex_unlock(&comm->clique->mu);
}

void double_comm_drop(ncclComm_t comm)
{
    clique *c = comm->clique;
    pthread_mutex_lock(&c->mu);
    bool last = --comm->refs == 0;
    pthread_mutex_unlock(&c->mu);
    if (!last)
        return;
    clique_drop(c);
    free(comm);
}

/* It is gone for who calls; what it has on streams holds it a while longer. */
static void leave(ncclComm_t comm)
{
    clique *c = comm->clique;
    pthread_mutex_lock(&c->mu);
    c->of[comm->rank] = NULL;
    pthread_mutex_unlock(&c->mu);
    double_count(-1, 0, 0);
    for (window *w; (w = comm->windows) != NULL;) {
        comm->windows = w->next;
        double_window_free(w);
    }
    double_comm_drop(comm);
}

ncclResult_t double_comm_check(ncclComm_t comm)
{
    if (comm == NULL)
        return double_wrong(ncclInvalidArgument, "no communicator");
    clique *c = comm->clique;
    pthread_mutex_lock(&c->mu);
    ncclResult_t e = c->error;
    if (e == ncclSuccess && c->joined < c->n)
        e = double_wrong(ncclInvalidUsage, "the communicator is in progress");
    else if (e == ncclSuccess && comm->busy)
        e = double_wrong(ncclInvalidUsage, "the last call is still in progress");
    pthread_mutex_unlock(&c->mu);
    return e;
}

/* Asked again and again, so that it counts as no call, and no failure is asked for here: see headrace_nccl_break(). */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *out)
{
    if (comm == NULL)
        return double_wrong(ncclInvalidArgument, "no communicator");
    clique *c = comm->clique;
    pthread_mutex_lock(&c->mu);
    bool waiting = c->joined < c->n || comm->busy;
    *out = c->error != ncclSuccess ? c->error : waiting ? ncclInProgress : ncclSuccess;
    comm->busy = comm->busy && c->joined < c->n;
    pthread_mutex_unlock(&c->mu);
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *out)
{
    ENTER();
    *out = comm->clique->n;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *out)
{
    ENTER();
    *out = comm->rank;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *out)
{
    ENTER();
    *out = comm->device;
    return ncclSuccess;
}

/* What was called has run, says who calls. */
ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    ENTER();
    pthread_mutex_lock(&comm->clique->mu);
    comm->busy = true;
    pthread_mutex_unlock(&comm->clique->mu);
    return comm->blocking ? ncclSuccess : ncclInProgress;
}

/* An object goes also where the call is the one that fails. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    ncclResult_t e = double_enter();
    leave(comm);
    return e;
}

/* Nobody touches its buffers from here on, and its work on streams ends. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    ncclResult_t e = double_enter();
    clique *c = comm->clique;
    pthread_mutex_lock(&c->mu);
    comm->aborted = true;
    double_comm_fail(c, ncclRemoteError, "rank %d has aborted", comm->rank);
    pthread_mutex_unlock(&c->mu);
    leave(comm);
    return e;
}
