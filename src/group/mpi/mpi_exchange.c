/* See mpi_exchange.h. */
#include "group/mpi/mpi_exchange.h"
#include "base/try.h"
#include "group/mpi/mpi_member.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    MESSAGE = 3968, /* a head and its bytes, within what libraries send at once */
    INLINE = MESSAGE - sizeof(hr__head),
    LANES = 8,
    EPOCHS = 4096, /* tags: what was sent before a reset meets nothing after it */
};

/* ---- memory ---- */
hr_status hr__exchange_init(hr__mpi_exchange *x, hr__mpi_member *m, hr__mpi_lane lane)
{
    x->m = m;
    x->lane = lane;
    x->tails = calloc(2 * (size_t)m->base.size, sizeof *x->tails);
    return x->tails ? HR_OK
                    : hr_fail(HR_ERR_NOMEM, NULL, "a group of %d", m->base.size);
}

void hr__exchange_fini(hr__mpi_exchange *x)
{
    free(x->tails);
    free(x->legs);
    free(x->requests);
    free(x->statuses);
    free(x->through);
    free(x->heads);
}

void hr__exchange_begin(hr__mpi_exchange *x, bool raw)
{
    x->raw = raw;
    x->n = x->waiting = x->heads_missing = 0;
    x->heads_bytes = 0;
    x->bytes = 0;
    for (int i = 0; i < 2 * x->m->base.size; i++)
        x->tails[i] = -1;
}

/* `old` itself where there is no memory for more. */
static void *enlarge(void *old, size_t bytes, bool *enough)
{
    void *more = realloc(old, bytes);
    if (more)
        return more;
    *enough = false;
    return old;
}

static hr_status grow(hr__mpi_exchange *x)
{
    size_t n = x->cap ? 2 * (size_t)x->cap : 16;
    bool enough = true;
    x->legs = enlarge(x->legs, n * sizeof *x->legs, &enough);
    x->requests = enlarge(x->requests, 2 * n * sizeof *x->requests, &enough);
    x->statuses = enlarge(x->statuses, 2 * n * sizeof *x->statuses, &enough);
    x->through = enlarge(x->through, 2 * n * sizeof *x->through, &enough);
    if (!enough)
        return hr_fail(HR_ERR_NOMEM, NULL, "a step of %zu messages", n);
    x->cap = (int)n;
    return HR_OK;
}

static MPI_Request *head_of(hr__mpi_exchange *x, const hr__leg *leg)
{
    return &x->requests[2 * (leg - x->legs)];
}

static MPI_Request *data_of(hr__mpi_exchange *x, const hr__leg *leg)
{
    return head_of(x, leg) + 1;
}

hr_status hr__exchange_add(hr__mpi_exchange *x, bool send, int peer, const void *buf,
                           size_t bytes, int64_t elements)
{
    if (x->n == x->cap)
        HR_TRY(grow(x));
    int *tail = &x->tails[2 * peer + send];
    x->legs[x->n] = (hr__leg){.send = send,
                              .peer = peer,
                              .buf = (char *)(uintptr_t)buf,
                              .bytes = bytes,
                              .elements = elements,
                              .next = -1,
                              .at = x->heads_bytes,
                              .early = MPI_REQUEST_NULL};
    *head_of(x, &x->legs[x->n]) = *data_of(x, &x->legs[x->n]) = MPI_REQUEST_NULL;
    if (*tail >= 0)
        x->legs[*tail].next = x->n;
    else
        x->legs[x->n].stage = HR__LEG_HEAD; /* the first, for now */
    *tail = x->n++;
    x->bytes += (int64_t)bytes;
    x->waiting++;
    if (!x->raw) {
        size_t inlined = bytes <= INLINE ? bytes : 0;
        size_t room = send ? sizeof(hr__head) + inlined : MESSAGE;
        x->heads_bytes += (room + 63) / 64 * 64;
        x->heads_missing += !send;
    }
    return HR_OK;
}

/* ---- MPI ---- */
static int tag_of(const hr__mpi_exchange *x, bool data)
{
    unsigned epoch = atomic_load(&x->m->job->epoch) % EPOCHS;
    return (int)(epoch * LANES) + (int)x->lane + data;
}

int hr__mpi_type_of(size_t bytes, size_t most, MPI_Datatype *type, int *count)
{
    size_t blocks = bytes / most, rest = bytes % most;
    MPI_Datatype block, many;
    *type = MPI_BYTE;
    *count = (int)bytes;
    if (bytes <= most)
        return MPI_SUCCESS;
    int rc = MPI_Type_contiguous((int)most, MPI_BYTE, &block);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = MPI_Type_contiguous((int)blocks, block, &many);
    MPI_Type_free(&block);
    if (rc != MPI_SUCCESS)
        return rc;
    int lengths[] = {1, (int)rest};
    MPI_Aint places[] = {0, (MPI_Aint)(blocks * most)};
    MPI_Datatype parts[] = {many, MPI_BYTE};
    rc = MPI_Type_create_struct(2, lengths, places, parts, type);
    MPI_Type_free(&many);
    *count = 1;
    return rc == MPI_SUCCESS ? MPI_Type_commit(type) : rc;
}

static int move_locked(hr__mpi_exchange *x, hr__leg *leg, MPI_Request *request)
{
    MPI_Datatype type;
    int count;
    int rc = hr__mpi_type_of(leg->bytes, 1 << 30, &type, &count);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = leg->send ? MPI_Isend(leg->buf, count, type, leg->peer, tag_of(x, true),
                               x->m->comm, request)
                   : MPI_Irecv(leg->buf, count, type, leg->peer, tag_of(x, true),
                               x->m->comm, request);
    if (type != MPI_BYTE)
        MPI_Type_free(&type);
    return rc;
}

static hr_status move_data(hr__mpi_exchange *x, hr__leg *leg, MPI_Request *request)
{
    hr__mpi_lock();
    int rc = move_locked(x, leg, request);
    hr__mpi_unlock();
    return hr__mpi_check(rc, leg->send ? "MPI_Isend" : "MPI_Irecv");
}

static hr_status send_head(hr__mpi_exchange *x, hr__leg *leg)
{
    char *at = x->heads + leg->at;
    bool inlined = leg->bytes <= INLINE;
    hr__head *head = (hr__head *)(void *)at;
    *head = x->mine;
    head->bytes = (int64_t)leg->bytes;
    head->elements = leg->elements;
    if (inlined && leg->bytes)
        memcpy(at + sizeof *head, leg->buf, leg->bytes);
    size_t bytes = sizeof *head + (inlined ? leg->bytes : 0);
    HR__MPI_TRY(MPI_Isend(at, (int)bytes, MPI_BYTE, leg->peer, tag_of(x, false),
                          x->m->comm, head_of(x, leg)));
    return inlined ? HR_OK : move_data(x, leg, data_of(x, leg));
}

static hr_status await_head(hr__mpi_exchange *x, hr__leg *leg)
{
    leg->stage = HR__LEG_HEAD;
    HR__MPI_TRY(MPI_Irecv(x->heads + leg->at, MESSAGE, MPI_BYTE, leg->peer,
                          tag_of(x, false), x->m->comm, head_of(x, leg)));
    return HR_OK;
}

static hr_status start_send(hr__mpi_exchange *x, hr__leg *leg)
{
    leg->stage = HR__LEG_DATA;
    return x->raw ? move_data(x, leg, data_of(x, leg)) : send_head(x, leg);
}

static hr_status start_receive(hr__mpi_exchange *x, hr__leg *leg)
{
    if (!x->raw)
        return leg->bytes > INLINE ? move_data(x, leg, &leg->early) : HR_OK;
    leg->stage = HR__LEG_DATA;
    return move_data(x, leg, data_of(x, leg));
}

static hr_status make_heads(hr__mpi_exchange *x)
{
    if (x->heads_bytes <= x->heads_cap)
        return HR_OK;
    free(x->heads);
    x->heads = aligned_alloc(64, x->heads_bytes);
    x->heads_cap = x->heads ? x->heads_bytes : 0;
    if (x->heads)
        return HR_OK;
    hr_fail(HR_ERR_NOMEM, NULL, "heads of %d messages", x->n);
    x->n = 0;
    return HR_ERR_NOMEM;
}

/* Sends before receives. A library announces many bytes, and sends them when the other side has answered.
 * Over TCP the answer stands in one queue with all that goes that way: given after the other side's own
 * answer, it would come behind all our bytes, and of two messages that cross one would wait for the end
 * of the other. So each side has announced before it can answer, and can answer before it is asked. */
hr_status hr__exchange_start(hr__mpi_exchange *x)
{
    HR_TRY(make_heads(x));
    x->met_ns = hr_now_ns();
    for (int i = 0; i < x->n && !x->raw; i++)
        if (!x->legs[i].send && x->legs[i].stage == HR__LEG_HEAD)
            HR_TRY(await_head(x, &x->legs[i]));
    for (int i = 0; i < x->n; i++)
        if (x->legs[i].send)
            HR_TRY(start_send(x, &x->legs[i]));
    for (int i = 0; i < x->n; i++)
        if (!x->legs[i].send)
            HR_TRY(start_receive(x, &x->legs[i]));
    return HR_OK;
}

/* ---- progress ---- */
static void end(hr__mpi_exchange *x, hr__leg *leg, hr__leg_stage stage)
{
    leg->stage = stage;
    x->waiting--;
}

/* Its head has come in: say whether its bytes are wanted, and wait for the next of the same peer. */
static hr_status accept(hr__mpi_exchange *x, hr__leg *leg)
{
    const hr__head *head = hr__exchange_head(x, leg);
    int64_t bytes = head->bytes;
    hr_status st = x->check(x, leg, head);
    if (--x->heads_missing == 0)
        x->met_ns = hr_now_ns();
    if (st < 0)
        return st;
    if (st == HR_PENDING) {
        end(x, leg, HR__LEG_HELD);
    } else if (bytes <= INLINE) {
        if (bytes)
            memcpy(leg->buf, (const char *)head + sizeof *head, (size_t)bytes);
        end(x, leg, HR__LEG_DONE);
    } else {
        leg->stage = HR__LEG_DATA;
        *data_of(x, leg) = leg->early;
        leg->early = MPI_REQUEST_NULL;
    }
    hr__mpi_stir(bytes);
    return leg->next >= 0 ? await_head(x, &x->legs[leg->next]) : HR_OK;
}

/* One of its requests is through; where both are at once, it is looked at twice. */
static hr_status look_at(hr__mpi_exchange *x, hr__leg *leg)
{
    if (!leg->send && leg->stage == HR__LEG_HEAD)
        return accept(x, leg);
    if (leg->stage == HR__LEG_DATA && *head_of(x, leg) == MPI_REQUEST_NULL &&
        *data_of(x, leg) == MPI_REQUEST_NULL)
        end(x, leg, HR__LEG_DONE);
    return HR_OK;
}

/* How many are through, in through[]. One call for all, since each lets the library move on; and a second
 * one, since the first may look before it moves. */
static hr_status test_some(hr__mpi_exchange *x, int *n)
{
    int rc = MPI_SUCCESS;
    *n = 0;
    for (int look = 0; look < 2 && rc == MPI_SUCCESS && *n == 0; look++) {
        hr__mpi_lock();
        rc = MPI_Testsome(2 * x->n, x->requests, n, x->through, x->statuses);
        hr__mpi_unlock();
    }
    if (rc != MPI_ERR_IN_STATUS)
        return hr__mpi_check(rc, "MPI_Testsome");
    for (int i = 0; i < *n; i++)
        HR_TRY(hr__mpi_check(x->statuses[i].MPI_ERROR, "MPI_Testsome"));
    return HR_OK;
}

hr_status hr__exchange_look(void *exchange)
{
    hr__mpi_exchange *x = exchange;
    for (int n = 1; n > 0 && x->waiting > 0;) {
        HR_TRY(test_some(x, &n));
        for (int i = 0; i < n; i++)
            HR_TRY(look_at(x, &x->legs[x->through[i] / 2]));
    }
    return x->waiting > 0 ? HR_PENDING : HR_OK;
}

/* ---- the end of a step that failed ---- */
static int test_one(MPI_Request *request, int *through)
{
    hr__mpi_lock();
    int rc = MPI_Test(request, through, MPI_STATUS_IGNORE);
    hr__mpi_unlock();
    return rc;
}

static hr_status all_dropped(void *arg)
{
    hr__mpi_exchange *x = arg;
    for (int i = 0; i < 2 * x->n; i++) {
        int through = 1;
        if (x->requests[i] != MPI_REQUEST_NULL &&
            test_one(&x->requests[i], &through) != MPI_SUCCESS)
            through = 1; /* more than was expected, for one */
        if (!through && !x->legs[i / 2].send)
            return HR_PENDING;
    }
    return HR_OK;
}

/* A receive that is cancelled may have met its message, and then ends when that is here. Sends cannot be
 * taken back: what MPI may still read is left to it. */
void hr__exchange_drop(hr__mpi_exchange *x)
{
    static const int64_t patience_ns = 1000000000;
    bool left = false;
    hr__mpi_lock();
    for (int i = 0; i < x->n; i++)
        if (x->legs[i].early != MPI_REQUEST_NULL)
            x->requests[2 * i + 1] = x->legs[i].early;
    for (int i = 0; i < 2 * x->n; i++)
        if (!x->legs[i / 2].send && x->requests[i] != MPI_REQUEST_NULL)
            MPI_Cancel(&x->requests[i]);
    hr__mpi_unlock();
    hr__mpi_waiting w = {.look = all_dropped,
                         .arg = x,
                         .deadline_ns = hr_now_ns() + patience_ns,
                         .deaf = true};
    hr_status st = hr__mpi_wait(x->m->job, &w);
    (void)st; /* what is left is seen below */
    hr__mpi_lock();
    for (int i = 0; i < 2 * x->n; i++)
        if (x->requests[i] != MPI_REQUEST_NULL) {
            left = true;
            MPI_Request_free(&x->requests[i]);
        }
    hr__mpi_unlock();
    if (left) {
        x->heads = NULL;
        x->heads_cap = 0;
    }
    x->n = 0;
}
