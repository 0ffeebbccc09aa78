/* Operations over our MPI engine, beside bare MPI calls of the same sizes, buffers and processes, in turns: a
 * line a figure, from rank 0.
 *
 *     mpirun -n N bench_mpi_speed            microseconds an operation; of each pair of rounds, their ratio
 *     mpirun -n N bench_mpi_speed wait S     how much of a core a rank uses that waits S seconds for its peer */
#include "bench.h"
#include "headrace/group_mpi.h"
#include <mpi.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 15, LEAST = 1024, MOST = 64 << 20, RANKS = 64 };

typedef struct trial {
    hr_group *g;
    int n, me;
    size_t bytes; /* that a rank has to send, to all together */
    char *send, *recv;
} trial;

/* ---- ours ---- */
static void our_all_to_all(const trial *t)
{
    int64_t counts[RANKS];
    for (int r = 0; r < t->n; r++)
        counts[r] = (int64_t)t->bytes / t->n;
    ok(hr_all_to_all_v(t->g, t->send, counts, t->recv, counts, 1, hr_stream_current()));
}

static void our_p2p(const trial *t)
{
    hr_p2p ops[] = {{true, (t->me + 1) % t->n, t->send, t->bytes},
                    {false, (t->me + t->n - 1) % t->n, t->recv, t->bytes}};
    ok(hr_group_batch(t->g, ops, 2, hr_stream_current()));
}

static void our_p2p_waited(const trial *t)
{
    our_p2p(t);
    ok(hr_stream_synchronize(hr_stream_current()));
}

static int64_t part_of(const trial *t)
{
    return (int64_t)(t->bytes / sizeof(float)) / t->n;
}

static void our_all_gather(const trial *t)
{
    ok(hr_all_gather(t->g, t->send, t->recv, part_of(t), HR_F32, hr_stream_current()));
}

static void our_reduce_scatter(const trial *t)
{
    ok(hr_reduce_scatter(t->g, t->send, t->recv, part_of(t), HR_F32, HR_SUM,
                         hr_stream_current()));
}

static void our_all_reduce(const trial *t)
{
    ok(hr_all_reduce(t->g, t->send, t->recv, part_of(t) * t->n, HR_F32, HR_SUM,
                     hr_stream_current()));
}

static void our_broadcast(const trial *t)
{
    ok(hr_broadcast(t->g, t->send, t->bytes, 0, hr_stream_current()));
}

/* ---- bare ---- */
static void bare_all_to_all(const trial *t)
{
    int part = (int)t->bytes / t->n;
    MPI_Alltoall(t->send, part, MPI_BYTE, t->recv, part, MPI_BYTE, MPI_COMM_WORLD);
}

static void bare_p2p(const trial *t)
{
    MPI_Request r[2];
    MPI_Irecv(t->recv, (int)t->bytes, MPI_BYTE, (t->me + t->n - 1) % t->n, 0,
              MPI_COMM_WORLD, &r[0]);
    MPI_Isend(t->send, (int)t->bytes, MPI_BYTE, (t->me + 1) % t->n, 0, MPI_COMM_WORLD,
              &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void bare_all_gather(const trial *t)
{
    int part = (int)part_of(t);
    MPI_Allgather(t->send, part, MPI_FLOAT, t->recv, part, MPI_FLOAT, MPI_COMM_WORLD);
}

static void bare_reduce_scatter(const trial *t)
{
    MPI_Reduce_scatter_block(t->send, t->recv, (int)part_of(t), MPI_FLOAT, MPI_SUM,
                             MPI_COMM_WORLD);
}

static void bare_all_reduce(const trial *t)
{
    MPI_Allreduce(t->send, t->recv, (int)part_of(t) * t->n, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
}

static void bare_broadcast(const trial *t)
{
    MPI_Bcast(t->send, (int)t->bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static const struct subject {
    const char *name;
    void (*ours)(const trial *), (*bare)(const trial *);
    size_t least, most, step;
} subjects[] = {
    {"all_to_all", our_all_to_all, bare_all_to_all, LEAST, MOST, 4},
    {"p2p", our_p2p, bare_p2p, LEAST, MOST, 4},
    {"p2p_waited", our_p2p_waited, bare_p2p, LEAST, 64 * LEAST, 64},
    {"all_gather", our_all_gather, bare_all_gather, 64 * LEAST, 16 << 20, 16},
    {"reduce_scatter", our_reduce_scatter, bare_reduce_scatter, 64 * LEAST, 16 << 20,
     16},
    {"all_reduce", our_all_reduce, bare_all_reduce, 64 * LEAST, 16 << 20, 16},
    {"broadcast", our_broadcast, bare_broadcast, 64 * LEAST, 16 << 20, 16},
};

/* ---- rounds ---- */
static double round_us(const trial *t, void (*run)(const trial *), int times)
{
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t begun = hr_now_ns();
    for (int k = 0; k < times; k++)
        run(t);
    ok(hr_stream_synchronize(hr_stream_current()));
    return (double)(hr_now_ns() - begun) * 1e-3 / times;
}

static void say(const trial *t, const char *what, const char *which, double value)
{
    char name[64];
    if (t->me != 0)
        return;
    snprintf(name, sizeof name, "mpi.%s.%zu%s", what, t->bytes, which);
    bench_say(name, value, which[0] == '.' && which[1] == 'r' ? "x" : "us");
}

/* What else runs on the machine comes and goes: who is first alternates, and ratios are of neighbours. */
static void measure(const trial *t, const struct subject *s)
{
    double ours[ROUNDS], bare[ROUNDS], ratio[ROUNDS];
    int times = t->bytes < 1 << 18   ? 200
                : t->bytes < 1 << 22 ? 40
                : t->bytes < 1 << 25 ? 4
                                     : 1;
    for (int i = -1; i < ROUNDS; i++) { /* the first is not counted */
        double first = round_us(t, i % 2 ? s->ours : s->bare, times);
        double second = round_us(t, i % 2 ? s->bare : s->ours, times);
        if (i < 0)
            continue;
        ours[i] = i % 2 ? first : second;
        bare[i] = i % 2 ? second : first;
        ratio[i] = ours[i] / bare[i];
    }
    say(t, s->name, "", bench_median(ours, ROUNDS));
    say(t, s->name, ".bare", bench_median(bare, ROUNDS));
    say(t, s->name, ".ratio", bench_median(ratio, ROUNDS));
    say(t, s->name, ".ratio_low", ratio[ROUNDS / 4]); /* they are in order now */
    say(t, s->name, ".ratio_high", ratio[ROUNDS - 1 - ROUNDS / 4]);
}

static hr_status compare(hr_group *world, void *only)
{
    trial t = {.g = world, .n = hr_group_size(world), .me = hr_group_rank(world)};
    t.send = malloc(MOST);
    t.recv = malloc(MOST);
    if (!t.send || !t.recv || t.n > RANKS)
        return hr_fail(HR_ERR_NOMEM, NULL, "%d ranks", t.n);
    memset(t.send, 0, MOST); /* sums of floats stay what they are */
    memset(t.recv, 0, MOST);
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) {
        const struct subject *s = &subjects[i];
        if (only && strcmp(only, s->name) != 0)
            continue;
        for (t.bytes = s->least; t.bytes <= s->most; t.bytes *= s->step)
            measure(&t, s);
    }
    free(t.send);
    free(t.recv);
    return HR_OK;
}

/* ---- waiting ---- */
static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static hr_status wait_for_peer(hr_group *world, void *seconds)
{
    char byte = 0;
    bool late = hr_group_rank(world) == 1;
    trial t = {.g = world,
               .n = hr_group_size(world),
               .me = hr_group_rank(world),
               .bytes = 1,
               .send = &byte,
               .recv = &byte};
    MPI_Barrier(MPI_COMM_WORLD);
    if (late)
        nanosleep(&(struct timespec){.tv_sec = atoi(seconds)}, NULL);
    int64_t begun = hr_now_ns(), used = cpu_ns();
    ok(hr_broadcast(world, &byte, 1, 1, hr_stream_current()));
    ok(hr_stream_synchronize(hr_stream_current()));
    double waited = (double)(hr_now_ns() - begun);
    if (t.me == 0) {
        bench_say("mpi.waiting", (double)(cpu_ns() - used) / waited * 100, "%");
        bench_say("mpi.waiting.seconds", waited * 1e-9, "s");
    }
    return HR_OK;
}

int main(int argc, char **argv)
{
    bool wait = argc == 3 && strcmp(argv[1], "wait") == 0;
    hr_status st = hr_mpi_run(NULL, wait ? wait_for_peer : compare,
                              argc > 1 ? argv[argc - 1] : NULL);
    if (st < 0)
        fprintf(stderr, "%s\n", hr_last_error());
    return hr_mpi_finish(st);
}
