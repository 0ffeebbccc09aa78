/* Speed of the room of schedules on one core: actions a second of generating, of checking, of
 * simulating, and of check and simulation together, which is what a search pays for each try; then
 * the largest schedule that is asked for, and the most memory the program has held by then. The
 * middle of several rounds. */
#include "headrace/schedule.h"

#include "bench.h"

#include <sys/resource.h>
#include <time.h>

enum { ROUNDS = 101, LARGE_ROUNDS = 3 };

typedef struct rounds {
    size_t actions;
    double generate[ROUNDS], check[ROUNDS], simulate[ROUNDS], both[ROUNDS]; /* s */
} rounds;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void one_round(const char *name, const hr_generate_opts *opts, rounds *r, int i)
{
    hr_schedule *s;
    hr_figures *figures;
    double t0 = now();
    ok(hr_schedule_generate(name, opts, &s));
    double t1 = now();
    ok(hr_schedule_check(s, NULL, NULL));
    double t2 = now();
    ok(hr_schedule_simulate(s, NULL, &figures));
    double t3 = now();
    r->actions = hr_schedule_actions(s);
    r->generate[i] = t1 - t0;
    r->check[i] = t2 - t1;
    r->simulate[i] = t3 - t2;
    r->both[i] = t3 - t1;
    hr_figures_destroy(figures);
    hr_schedule_destroy(s);
}

static void say(const char *key, const char *what, double value, const char *unit)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", key, what);
    bench_say(name, value, unit);
}

static void measure(const char *key, const char *name, const hr_generate_opts *opts,
                    int n)
{
    static rounds r;
    for (int i = 0; i < n; i++)
        one_round(name, opts, &r, i);
    double actions = (double)r.actions;
    say(key, "actions", actions, "actions");
    say(key, "generate", actions / bench_median(r.generate, n), "actions/s");
    say(key, "check", actions / bench_median(r.check, n), "actions/s");
    say(key, "simulate", actions / bench_median(r.simulate, n), "actions/s");
    say(key, "both", actions / bench_median(r.both, n), "actions/s");
}

static double peak_bytes(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)use.ru_maxrss * 1024;
}

int main(void)
{
    hr_generate_opts opts = {HR_INIT(hr_generate_opts), .ranks = 16,
                             .microbatches = 128};
    measure("1f1b", "1f1b", &opts, ROUNDS);
    measure("zb-h1", "zb-h1", &opts, ROUNDS);
    opts.chunks = 4;
    measure("interleaved", "interleaved", &opts, ROUNDS);
    measure("looped-bfs", "looped-bfs", &opts, ROUNDS);
    measure("interleaved-zb", "interleaved-zb", &opts, ROUNDS);
    opts.chunks = 2;
    measure("zbv", "zbv", &opts, ROUNDS);
    opts = (hr_generate_opts){HR_INIT(hr_generate_opts), .ranks = 512,
                              .microbatches = 4096};
    measure("large", "1f1b", &opts, LARGE_ROUNDS);
    bench_say("large.peak_bytes", peak_bytes(), "bytes");
    return 0;
}
