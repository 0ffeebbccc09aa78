/* Notes between the ranks of a job; see mpi_job.h. */
#include "group/doing.h"
#include "group/mpi/mpi_member.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What a rank sent before its last note may come later than the note, on another communicator. */
static const int64_t under_way_ns = 200000000, answer_ns = 300000000;

/* A note to `n` ranks, alive until MPI has it. */
typedef struct hr__mpi_letter {
    struct hr__mpi_letter *next;
    hr__note note;
    int n;
    MPI_Request requests[];
} letter;

/* ---- out ---- */
static void post(hr__mpi_job *job, const hr__note *note, int only)
{
    letter *l = calloc(1, sizeof *l + (size_t)job->n * sizeof l->requests[0]);
    if (!l)
        return; /* they find out by their time limit */
    l->note = *note;
    pthread_mutex_lock(&job->out_mu);
    hr__mpi_lock();
    for (int r = 0; r < job->n; r++)
        if (r != job->rank && (only < 0 || r == only) &&
            MPI_Isend(&l->note, sizeof l->note, MPI_BYTE, r, 0, job->control,
                      &l->requests[l->n]) == MPI_SUCCESS) {
            l->n++;
            job->peers[r].sent++;
        }
    hr__mpi_unlock();
    l->next = job->out;
    job->out = l;
    atomic_fetch_add(&job->letters, 1);
    pthread_mutex_unlock(&job->out_mu);
}

void hr__mpi_tell_all(hr__mpi_job *job, const hr__note *note)
{
    post(job, note, -1);
}

static bool all_sent(letter *l)
{
    bool all = true;
    hr__mpi_lock();
    for (int i = 0; i < l->n; i++) {
        int sent = 1;
        if (l->requests[i] != MPI_REQUEST_NULL &&
            MPI_Test(&l->requests[i], &sent, MPI_STATUS_IGNORE) == MPI_SUCCESS)
            all = all && sent;
    }
    hr__mpi_unlock();
    return all;
}

static void sweep(hr__mpi_job *job)
{
    pthread_mutex_lock(&job->out_mu);
    for (letter **at = &job->out; *at;) {
        letter *l = *at;
        if (!all_sent(l)) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        free(l);
        atomic_fetch_sub(&job->letters, 1);
    }
    pthread_mutex_unlock(&job->out_mu);
}

/* ---- in ---- */
static void adopt(hr__mpi_job *job, const hr__note *note)
{
    if (note->epoch != atomic_load(&job->epoch))
        return; /* forgotten by a reset */
    pthread_mutex_lock(&job->mu);
    bool first = atomic_load(&job->cause.failed) == 0;
    if (first) {
        memcpy(job->cause.text, note->text, sizeof job->cause.text);
        job->cause.reason = hr_intern(note->reason);
        job->when_ns = note->when_ns;
        atomic_store(&job->cause.failed, (int)note->status);
    }
    pthread_mutex_unlock(&job->mu);
    if (!first)
        return;
    hr_device_fail(job->dev, hr__mpi_status(job));
    atomic_store(&job->cause.told, true);
}

/* How many operations it is in; `mu` is held. */
static int put_under_way_locked(const hr__mpi_job *job, char *buf, size_t cap)
{
    int found = 0;
    for (const hr__mpi_member *m = job->members; m; m = m->next) {
        const hr__doing *both[] = {&m->doing, &m->doing_host};
        for (int k = 0; k < 2; k++)
            if (atomic_load_explicit(&both[k]->inside, memory_order_acquire)) {
                hr__doing_write(buf, cap, m->global, m->base.size, both[k], job->rank);
                found++;
            }
    }
    return found;
}

void hr__mpi_under_way(hr__mpi_job *job, char *buf, size_t cap)
{
    pthread_mutex_lock(&job->mu);
    put_under_way_locked(job, buf, cap);
    pthread_mutex_unlock(&job->mu);
}

static void answer(hr__mpi_job *job, const hr__note *asked, int from)
{
    hr__note note = {.kind = HR__NOTE_ANSWER, .phase = asked->phase};
    pthread_mutex_lock(&job->mu);
    int found = put_under_way_locked(job, note.text, sizeof job->peers->answer);
    for (const hr__mpi_member *m = job->members; m && !found; m = m->next)
        if (m->key == asked->key) {
            hr__doing_write_last(note.text, sizeof job->peers->answer, &m->doing,
                                 job->rank);
            found++;
        }
    pthread_mutex_unlock(&job->mu);
    post(job, &note, from);
}

static void take(hr__mpi_job *job, const hr__note *note, int from)
{
    hr__mpi_peer *p = &job->peers[from];
    p->got++;
    switch ((hr__note_kind)note->kind) {
    case HR__NOTE_FAIL:
        adopt(job, note);
        break;
    case HR__NOTE_GONE:
        p->gone_ns = hr_now_ns();
        atomic_store(&p->gone, true);
        atomic_fetch_add(&job->gone, 1);
        break;
    case HR__NOTE_RESET:
        atomic_store(&p->phase, note->phase);
        break;
    case HR__NOTE_ASK:
        if (!job->ending)
            answer(job, note, from);
        break;
    case HR__NOTE_ANSWER:
        if (note->phase != atomic_load(&job->questions))
            break; /* too late */
        memcpy(p->answer, note->text, sizeof p->answer);
        p->answer[sizeof p->answer - 1] = '\0';
        atomic_store(&p->answered, note->phase);
        break;
    }
}

hr_status hr__mpi_listen(hr__mpi_job *job)
{
    HR__MPI_TRY(MPI_Irecv(&job->in, sizeof job->in, MPI_BYTE, MPI_ANY_SOURCE, 0,
                          job->control, &job->in_request));
    return HR_OK;
}

void hr__mpi_deafen(hr__mpi_job *job)
{
    if (job->in_request == MPI_REQUEST_NULL)
        return;
    hr__mpi_lock();
    MPI_Cancel(&job->in_request);
    MPI_Wait(&job->in_request, MPI_STATUS_IGNORE);
    hr__mpi_unlock();
}

void hr__mpi_poll(hr__mpi_job *job)
{
    if (pthread_mutex_trylock(&job->reading) != 0)
        return;
    while (job->in_request != MPI_REQUEST_NULL) {
        int arrived = 0;
        MPI_Status status;
        hr__mpi_lock();
        int rc = MPI_Test(&job->in_request, &arrived, &status);
        hr__mpi_unlock();
        if (rc != MPI_SUCCESS || !arrived)
            break;
        take(job, &job->in, status.MPI_SOURCE);
        if (hr__mpi_listen(job) < 0)
            break;
    }
    pthread_mutex_unlock(&job->reading);
    if (atomic_load(&job->letters) > 0)
        sweep(job);
}

/* ---- who has gone, who is where ---- */
void hr__mpi_leave(hr__mpi_job *job)
{
    hr__mpi_tell_all(job, &(hr__note){.kind = HR__NOTE_GONE});
}

bool hr__mpi_gone(const hr__mpi_job *job, int rank)
{
    const hr__mpi_peer *p = &job->peers[rank];
    return atomic_load(&p->gone) && hr_now_ns() - p->gone_ns > under_way_ns;
}

typedef struct question {
    hr__mpi_job *job;
    const bool *missing;
    uint32_t number;
} question;

static bool has_answered(const question *q, int r)
{
    return atomic_load(&q->job->peers[r].answered) == q->number;
}

static hr_status all_answered(void *arg)
{
    const question *q = arg;
    for (int r = 0; r < q->job->n; r++)
        if (q->missing[r] && r != q->job->rank && !has_answered(q, r))
            return HR_PENDING;
    return HR_OK;
}

static question put_question(hr__mpi_job *job, const bool *to, uint64_t key)
{
    question q = {job, to, atomic_fetch_add(&job->questions, 1) + 1};
    hr__note note = {.kind = HR__NOTE_ASK, .phase = q.number, .key = key};
    for (int r = 0; r < job->n; r++)
        if (to[r] && r != job->rank)
            post(job, &note, r);
    return q;
}

/* False if that failed. */
static bool wait_for_answers(question *q)
{
    hr__mpi_waiting w = {.look = all_answered,
                         .arg = q,
                         .deadline_ns = hr_now_ns() + answer_ns,
                         .deaf = true};
    return hr__mpi_wait(q->job, &w) >= 0;
}

static void add_silent(const hr__mpi_job *job, int r, char *buf, size_t cap)
{
    size_t len = strlen(buf);
    snprintf(buf + len, cap - len,
             "; rank %d (host %s) does not answer: it has stopped, or is busy "
             "outside of all operations",
             r, job->peers[r].host);
}

/* Who is missed waits itself, and at the end of a row of those who wait is one that does not come. */
static void name_silent(hr__mpi_job *job, const bool *asked, uint64_t key, char *buf,
                        size_t cap)
{
    bool *rest = calloc((size_t)job->n, sizeof *rest);
    if (!rest)
        return;
    for (int r = 0; r < job->n; r++)
        rest[r] = r != job->rank && !asked[r] && !atomic_load(&job->peers[r].gone);
    question q = put_question(job, rest, key);
    bool waited = wait_for_answers(&q);
    for (int r = 0; waited && r < job->n; r++)
        if (rest[r] && !has_answered(&q, r))
            add_silent(job, r, buf, cap);
    free(rest);
}

void hr__mpi_ask(hr__mpi_job *job, const bool *missing, uint64_t key, char *buf,
                 size_t cap)
{
    bool all = true;
    pthread_mutex_lock(&job->asking);
    question q = put_question(job, missing, key);
    if (!wait_for_answers(&q))
        buf[0] = '\0';
    for (int r = 0; r < job->n; r++) {
        size_t len = strlen(buf);
        if (!missing[r] || r == job->rank)
            continue;
        if (has_answered(&q, r))
            snprintf(buf + len, cap - len, "%s", job->peers[r].answer);
        else
            add_silent(job, r, buf, cap);
        all = all && has_answered(&q, r);
    }
    if (all)
        name_silent(job, missing, key, buf, cap);
    pthread_mutex_unlock(&job->asking);
}
