/* What more ranks cost: time and memory of setting a pipeline up and of one step of it, with work that is
 * imitated; and of the simulator. A line a figure, from rank 0.
 *
 *     bench_growth threads N       N ranks as threads
 *     mpirun -n N bench_growth processes N
 *     bench_growth simulate N      generator, check and simulator of N ranks, no rank runs
 */
#include "naps.h"

#include "bench.h"
#include "headrace/group_mpi.h"

#include <stdbool.h>
#include <string.h>

enum { ROUNDS = 3 };

static const int64_t unit_ns = 5000000; /* of F, of I and of W */

typedef struct growth {
    naps work;
    int64_t begin;
    int ranks_here; /* in this process */
} growth;

/* Most that this process has had in memory, bytes. */
static int64_t peak_bytes(void)
{
    char line[128];
    long long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

/* The most of all ranks, on all of them. */
static double most(hr_group *g, int64_t value)
{
    hr_tensor *t;
    ok(hr_tensor_create(HR_I64, 1, (const int64_t[]){1}, &t));
    ok(hr_tensor_write(t, &value, sizeof value));
    ok(hr_all_reduce(g, hr_tensor_data(t), hr_tensor_data(t), 1, HR_I64, HR_MAX,
                     hr_stream_current()));
    ok(hr_tensor_read(t, &value, sizeof value));
    hr_tensor_release(t);
    return (double)value;
}

static double step_ns(hr_group *g, hr_exec *e, const hr_program *p)
{
    double times[ROUNDS];
    for (int round = -1; round < ROUNDS; round++) {
        naps_meet(g);
        int64_t begin = hr_now_ns();
        ok(hr_exec_step(e, p, NULL, NULL));
        ok(hr_device_synchronize(hr_group_device(g)));
        naps_meet(g);
        if (round >= 0)
            times[round] = (double)(hr_now_ns() - begin);
    }
    return bench_median(times, ROUNDS);
}

static hr_status rank_main(hr_group *world, void *arg)
{
    growth *q = arg;
    hr_exec *e;
    hr_program *p;
    ok(naps_open(&q->work, world, &e, &p));
    naps_meet(world);
    double set_up = (double)(hr_now_ns() - q->begin);
    double before = most(world, peak_bytes()) / q->ranks_here;
    double step = step_ns(world, e, p);
    double after = most(world, peak_bytes()) / q->ranks_here;
    if (hr_group_rank(world) == 0) {
        bench_say("set_up", set_up * 1e-6, "ms");
        bench_say("set_up_memory", before / 1e6, "MB a rank");
        bench_say("step", step * 1e-6, "ms");
        bench_say("step_over_simulated", step / naps_simulated_ns(q->work.s, unit_ns),
                  "times");
        bench_say("memory", after / 1e6, "MB a rank");
    }
    hr_program_destroy(p);
    hr_exec_destroy(e);
    return HR_OK;
}

/* Every rank is told how many there are: the schedule is made before the job is. */
static int run(int ranks, bool threads)
{
    growth q = {.begin = hr_now_ns(), .ranks_here = threads ? ranks : 1};
    hr_schedule *s = naps_generate("1f1b", ranks, 0, 2 * ranks);
    q.work = (naps){.s = s, .unit_ns = unit_ns};
    hr_status st = threads ? hr_local_run(ranks, NULL, rank_main, &q)
                           : hr_mpi_run(NULL, rank_main, &q);
    if (st < 0)
        fprintf(stderr, "growth: %s\n", hr_last_error());
    hr_schedule_destroy(s);
    return threads ? st < 0 : hr_mpi_finish(st);
}

static int simulate(int ranks)
{
    int64_t begin = hr_now_ns();
    hr_schedule *s = naps_generate("1f1b", ranks, 0, 2 * ranks);
    int64_t generated = hr_now_ns();
    ok(hr_schedule_check(s, NULL, NULL));
    (void)naps_simulated_ns(s, unit_ns);
    int64_t end = hr_now_ns();
    double actions = (double)hr_schedule_actions(s);
    bench_say("actions", actions, "actions");
    bench_say("generate", (double)(generated - begin) * 1e-6, "ms");
    bench_say("check_and_simulate", (double)(end - generated) * 1e-6, "ms");
    bench_say("memory", (double)peak_bytes() / 1e6, "MB");
    hr_schedule_destroy(s);
    return 0;
}

int main(int argc, char **argv)
{
    int n = argc == 3 ? atoi(argv[2]) : 0;
    if (n > 0 && strcmp(argv[1], "simulate") == 0)
        return simulate(n);
    if (n > 0 && strcmp(argv[1], "threads") == 0)
        return run(n, true);
    if (n > 0 && strcmp(argv[1], "processes") == 0)
        return run(n, false);
    fprintf(stderr, "usage: bench_growth threads|processes|simulate N\n");
    return 2;
}
