/* All-to-all and an exchange of messages over our MPI engine, beside bare MPI calls of the same sizes in the
 * same processes: microseconds an operation, a line a figure, from rank 0. */
#include "bench.h"
#include "headrace/group_mpi.h"
#include <mpi.h>
#include <string.h>

enum { ROUNDS = 7, MOST = 64 << 20, RANKS = 64 };

typedef struct trial {
    hr_group *g;
    int n, me;
    size_t bytes; /* that leave a rank */
    char *send, *recv;
} trial;

static double us_since(int64_t begun, int times)
{
    return (double)(hr_now_ns() - begun) * 1e-3 / times;
}

/* ---- ours ---- */
static void our_all_to_all(const trial *t)
{
    int64_t counts[RANKS];
    for (int r = 0; r < t->n; r++)
        counts[r] = (int64_t)t->bytes / t->n;
    ok(hr_all_to_all_v(t->g, t->send, counts, t->recv, counts, 1, hr_stream_current()));
}

static void our_messages(const trial *t)
{
    hr_p2p ops[] = {{true, (t->me + 1) % t->n, t->send, t->bytes},
                    {false, (t->me + t->n - 1) % t->n, t->recv, t->bytes}};
    ok(hr_group_batch(t->g, ops, 2, hr_stream_current()));
}

/* ---- bare ---- */
static void bare_all_to_all(const trial *t)
{
    int part = (int)t->bytes / t->n;
    MPI_Alltoall(t->send, part, MPI_BYTE, t->recv, part, MPI_BYTE, MPI_COMM_WORLD);
}

static void bare_messages(const trial *t)
{
    MPI_Request r[2];
    MPI_Irecv(t->recv, (int)t->bytes, MPI_BYTE, (t->me + t->n - 1) % t->n, 0,
              MPI_COMM_WORLD, &r[0]);
    MPI_Isend(t->send, (int)t->bytes, MPI_BYTE, (t->me + 1) % t->n, 0, MPI_COMM_WORLD,
              &r[1]);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    MPI_Wait(&r[1], MPI_STATUS_IGNORE);
}

/* ---- rounds ---- */
static double measure(const trial *t, void (*run)(const trial *), int times)
{
    double us[ROUNDS];
    for (int i = -1; i < ROUNDS; i++) { /* the first one is not counted */
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t begun = hr_now_ns();
        for (int k = 0; k < times; k++)
            run(t);
        ok(hr_stream_synchronize(hr_stream_current()));
        if (i >= 0)
            us[i] = us_since(begun, times);
    }
    return bench_median(us, ROUNDS);
}

static void say(const trial *t, const char *what, double us)
{
    char name[64];
    if (t->me != 0)
        return;
    snprintf(name, sizeof name, "mpi.%s.%zu", what, t->bytes);
    bench_say(name, us, "us");
}

static hr_status run(hr_group *world, void *arg)
{
    trial t = {.g = world, .n = hr_group_size(world), .me = hr_group_rank(world)};
    t.send = malloc(MOST);
    t.recv = malloc(MOST);
    if (!t.send || !t.recv || t.n > RANKS)
        return hr_fail(HR_ERR_NOMEM, NULL, "%d ranks", t.n);
    memset(t.send, 1, MOST);
    memset(t.recv, 1, MOST);
    for (t.bytes = 1024; t.bytes <= MOST; t.bytes *= 4) {
        int times = t.bytes < 1 << 18 ? 200 : t.bytes < 1 << 22 ? 40 : 5;
        say(&t, "all_to_all", measure(&t, our_all_to_all, times));
        say(&t, "all_to_all.bare", measure(&t, bare_all_to_all, times));
        say(&t, "messages", measure(&t, our_messages, times));
        say(&t, "messages.bare", measure(&t, bare_messages, times));
    }
    free(t.send);
    free(t.recv);
    return HR_OK;
}

int main(void)
{
    hr_status st = hr_mpi_run(NULL, run, NULL);
    if (st < 0)
        fprintf(stderr, "%s\n", hr_last_error());
    return hr_mpi_finish(st);
}
