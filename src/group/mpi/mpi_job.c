/* Jobs: life, and the one failure; see mpi_job.h. */
#include "group/mpi/mpi_job.h"
#include "base/try.h"
#include "group/mpi/mpi_member.h"
#include "group/mpi/mpi_symmetric.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double default_timeout_s = 300.0;
/* For the others to come to the end of a job that has failed, however short its time limit is. */
static const int64_t least_end_ns = 5000000000;

static int64_t wall_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Runs on whatever thread fails this rank's device; its last error is the cause. */
static void device_failed(void *ctx)
{
    hr__mpi_job *job = ctx;
    hr_status st = hr_device_status(job->dev);
    hr__mpi_fail(job, st < 0 ? st : HR_ERR_DEVICE);
}

/* ---- life ---- */
static hr_status open_control(hr__mpi_job *job, MPI_Comm comm)
{
    char host[64] = "";
    HR__MPI_TRY(MPI_Comm_dup(comm, &job->control));
    HR__MPI_TRY(MPI_Comm_set_errhandler(job->control, MPI_ERRORS_RETURN));
    HR__MPI_TRY(MPI_Comm_size(job->control, &job->n));
    HR__MPI_TRY(MPI_Comm_rank(job->control, &job->rank));
    size_t n = (size_t)job->n;
    job->peers = calloc(n, sizeof *job->peers);
    char *hosts = calloc(n, sizeof host);
    if (!job->peers || !hosts) {
        free(hosts);
        return hr_fail(HR_ERR_NOMEM, NULL, "a job of %d ranks", job->n);
    }
    gethostname(host, sizeof host - 1);
    hr_status st;
    HR__MPI(st, MPI_Allgather(host, sizeof host, MPI_CHAR, hosts, sizeof host, MPI_CHAR,
                              job->control));
    for (size_t r = 0; r < n; r++)
        memcpy(job->peers[r].host, hosts + r * sizeof host, sizeof host);
    free(hosts);
    return st == HR_OK ? hr__mpi_listen(job) : st;
}

/* Where the launcher has bound this rank, all it may use; else a fair share of the host. */
static int share_of_cores(const hr__mpi_job *job)
{
    cpu_set_t set;
    int here = 0, usable = 1;
    for (int r = 0; r < job->n; r++)
        here += strcmp(job->peers[r].host, job->peers[job->rank].host) == 0;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        usable = CPU_COUNT(&set);
    if (here > 0 && usable >= sysconf(_SC_NPROCESSORS_ONLN))
        usable /= here;
    return usable > 0 ? usable : 1;
}

static hr_status open_device(hr__mpi_job *job, const hr_mpi_opts *o)
{
    hr_device_opts d = {HR_INIT(hr_device_opts)};
    if (o->device.size)
        d = o->device;
    d.rank = job->rank;
    d.cores = o->cores > 0 ? o->cores : share_of_cores(job);
    HR_TRY(hr_device_open(o->backend ? o->backend : "host", &d, &job->dev));
    job->owns_dev = true;
    return HR_OK;
}

static void job_free(hr__mpi_job *job)
{
    if (job->dev)
        hr_device_off_fail(job->dev, device_failed, job);
    if (job->owns_dev)
        hr_device_close(job->dev);
    pthread_mutex_destroy(&job->reading);
    pthread_mutex_destroy(&job->out_mu);
    pthread_mutex_destroy(&job->asking);
    pthread_mutex_destroy(&job->mu);
    free(job->comms);
    free(job->peers);
    free(job);
}

hr_status hr__mpi_job_create(const void *comm, const hr_mpi_opts *o, hr_device *dev,
                             hr__mpi_job **out)
{
    hr__mpi_job *job = calloc(1, sizeof *job);
    *out = NULL;
    if (!job)
        return hr_fail(HR_ERR_NOMEM, NULL, "a job");
    pthread_mutex_init(&job->reading, NULL);
    pthread_mutex_init(&job->out_mu, NULL);
    pthread_mutex_init(&job->asking, NULL);
    pthread_mutex_init(&job->mu, NULL);
    job->control = MPI_COMM_NULL;
    job->in_request = MPI_REQUEST_NULL;
    job->limit_ns =
        (int64_t)((o->timeout_s > 0 ? o->timeout_s : default_timeout_s) * 1e9);
    hr_status st = open_control(job, comm ? *(const MPI_Comm *)comm : MPI_COMM_WORLD);
    if (st < 0) { /* without it nobody can be told */
        job_free(job);
        return st;
    }
    job->dev = dev;
    st = dev ? HR_OK : open_device(job, o);
    if (st == HR_OK)
        st = hr_device_on_fail(job->dev, device_failed, job);
    if (st < 0)
        hr__mpi_fail(job, st);
    *out = job;
    return HR_OK;
}

hr_status hr__mpi_job_keep(hr__mpi_job *job, MPI_Comm comm)
{
    if (job->n_comms == job->cap_comms) {
        int cap = job->cap_comms ? 2 * job->cap_comms : 16;
        MPI_Comm *comms = realloc(job->comms, (size_t)cap * sizeof(MPI_Comm));
        if (!comms)
            return hr_fail(HR_ERR_NOMEM, NULL, "%d communicators", cap);
        job->comms = comms;
        job->cap_comms = cap;
    }
    job->comms[job->n_comms++] = comm;
    return HR_OK;
}

hr_status hr__mpi_job_world(hr__mpi_job *job, hr_group **out)
{
    MPI_Comm comm;
    int *all = calloc((size_t)job->n, sizeof *all);
    if (!all)
        return hr_fail(HR_ERR_NOMEM, NULL, "a job of %d ranks", job->n);
    for (int i = 0; i < job->n; i++)
        all[i] = i;
    hr_status st;
    HR__MPI(st, MPI_Comm_dup(job->control, &comm));
    if (st == HR_OK)
        st = hr__mpi_member_create(job, comm, 1, all, job->n, job->rank, out);
    if (st == HR_OK)
        (*out)->world = true;
    free(all);
    return st;
}

/* ---- the failure ---- */
static void write_cause(hr__mpi_job *job, hr_status st)
{
    char place[80];
    snprintf(place, sizeof place, " (host %s)", job->peers[job->rank].host);
    hr__cause_write(&job->cause, job->rank, st, place);
    job->when_ns = wall_ns();
}

void hr__mpi_fail(hr__mpi_job *job, hr_status st)
{
    hr__note note = {.kind = HR__NOTE_FAIL, .epoch = atomic_load(&job->epoch)};
    pthread_mutex_lock(&job->mu);
    bool first = atomic_load(&job->cause.failed) == 0;
    if (first) {
        write_cause(job, st);
        note.status = st;
        note.when_ns = job->when_ns;
        memcpy(note.text, job->cause.text, sizeof note.text);
        snprintf(note.reason, sizeof note.reason, "%s", job->cause.reason);
    }
    pthread_mutex_unlock(&job->mu);
    st = hr__mpi_status(job);
    if (!first)
        return;
    hr__mpi_tell_all(job, &note);
    if (job->dev)
        hr_device_fail(job->dev, st); /* runs our hook, which is not the first */
    atomic_store(&job->cause.told, true);
}

hr_status hr__mpi_status(hr__mpi_job *job)
{
    return hr__cause_status(&job->cause, &job->mu);
}

/* ---- the end ----
 * One exchange: whether and when each rank has failed, and how many notes it has sent to each, so that
 * none is under way when the communicator goes. Then the cause of whoever failed first goes to all. */
typedef struct last_word {
    int64_t when_ns;
    int32_t status, notes;
} last_word;

typedef struct cause {
    char reason[32], text[768];
} cause;

typedef struct ending {
    hr__mpi_job *job;
    MPI_Request request;
    const last_word *words; /* NULL: notes do not matter */
} ending;

static hr_status look_at_end(void *arg)
{
    ending *e = arg;
    int through = 1;
    if (e->request != MPI_REQUEST_NULL)
        HR__MPI_TRY(MPI_Test(&e->request, &through, MPI_STATUS_IGNORE));
    if (!through || atomic_load(&e->job->letters) > 0)
        return HR_PENDING;
    pthread_mutex_lock(&e->job->reading);
    for (int r = 0; e->words && r < e->job->n; r++)
        through = through && e->job->peers[r].got >= e->words[r].notes;
    pthread_mutex_unlock(&e->job->reading);
    return through ? HR_OK : HR_PENDING;
}

/* A job that is well waits for its last rank as long as it takes; one that has failed does not. */
static hr_status wait_for_end(ending *e)
{
    int64_t limit = e->job->limit_ns > least_end_ns ? e->job->limit_ns : least_end_ns;
    for (;;) {
        bool failed = hr__mpi_failed(e->job);
        hr__mpi_waiting w = {.look = look_at_end,
                             .arg = e,
                             .deadline_ns = hr_now_ns() + limit,
                             .deaf = true};
        hr_status st = hr__mpi_wait(e->job, &w);
        if (st != HR_PENDING || failed)
            return st;
    }
}

static hr_status say_last(hr__mpi_job *job, last_word *mine, last_word *words)
{
    ending e = {job, MPI_REQUEST_NULL, words};
    pthread_mutex_lock(&job->reading);
    job->ending = true;
    pthread_mutex_unlock(&job->reading);
    pthread_mutex_lock(&job->out_mu);
    for (int r = 0; r < job->n; r++)
        mine[r] = (last_word){job->when_ns, atomic_load(&job->cause.failed),
                              job->peers[r].sent};
    pthread_mutex_unlock(&job->out_mu);
    HR__MPI_TRY(MPI_Ialltoall(mine, sizeof *mine, MPI_BYTE, words, sizeof *words,
                              MPI_BYTE, job->control, &e.request));
    return wait_for_end(&e);
}

static hr_status share_cause(hr__mpi_job *job, int from, hr_status st)
{
    ending e = {job, MPI_REQUEST_NULL, NULL};
    cause *c = calloc(1, sizeof *c);
    if (!c)
        return hr_fail(HR_ERR_NOMEM, NULL, "the cause of a failure");
    if (from == job->rank) {
        memcpy(c->text, job->cause.text, sizeof c->text);
        snprintf(c->reason, sizeof c->reason, "%s", job->cause.reason);
    }
    hr_status waited = HR_OK;
    HR__MPI(waited, MPI_Ibcast(c, sizeof *c, MPI_BYTE, from, job->control, &e.request));
    if (waited == HR_OK)
        waited = wait_for_end(&e);
    if (waited == HR_OK)
        waited = hr_fail(st, hr_intern(c->reason), "%s", c->text);
    if (waited != HR_PENDING)
        free(c); /* else MPI may write to it yet */
    return waited;
}

/* PENDING: somebody does not come. */
static hr_status agree(hr__mpi_job *job, bool *failed)
{
    int first = -1;
    last_word *both = calloc(2 * (size_t)job->n, sizeof *both);
    if (!both)
        return hr_fail(HR_ERR_NOMEM, NULL, "a job of %d ranks", job->n);
    last_word *words = both + job->n;
    hr_status st = say_last(job, both, words);
    for (int r = 0; st == HR_OK && r < job->n; r++)
        if (words[r].status < 0 &&
            (first < 0 || words[r].when_ns < words[first].when_ns))
            first = r;
    *failed = first >= 0;
    if (first >= 0)
        st = share_cause(job, first, (hr_status)words[first].status);
    if (st != HR_PENDING)
        free(both); /* else MPI may write to it yet */
    return st;
}

/* A communicator with messages that nobody has received, as failures leave them behind, is not freed: its
 * next owner would get them. */
static void free_comms(hr__mpi_job *job, bool clean)
{
    hr__mpi_windows_free(job);
    hr__mpi_deafen(job);
    hr__mpi_lock();
    for (int i = 0; clean && i < job->n_comms; i++)
        MPI_Comm_free(&job->comms[i]);
    MPI_Comm_free(&job->control);
    hr__mpi_unlock();
}

static int lowest_here(const hr__mpi_job *job)
{
    int r = 0;
    while (r < job->rank && !atomic_load(&job->peers[r].gone))
        r++;
    return r;
}

/* A rank that came too late finds in agree() the words of those who have given up waiting for it. What is
 * collective from there on has no time limit, so it wants all to be there. */
static hr_status all_agreed(hr__mpi_job *job)
{
    ending e = {job, MPI_REQUEST_NULL, NULL};
    HR__MPI_TRY(MPI_Ibarrier(job->control, &e.request));
    return wait_for_end(&e);
}

hr_status hr__mpi_job_end(hr__mpi_job *job)
{
    bool failed = true;
    hr__mpi_leave(job);
    hr_status st = agree(job, &failed), all = HR_PENDING;
    if (st != HR_PENDING)
        all = all_agreed(job);
    while (job->members)
        hr__mpi_member_destroy(job->members);
    if (all != HR_OK) {
        hr__mpi_mark_broken(
            lowest_here(job)); /* and MPI may use what there is of the job: it stays */
        return st < 0 ? st : hr__mpi_status(job);
    }
    free_comms(job, !failed && atomic_load(&job->epoch) == 0);
    job_free(job);
    return st;
}
