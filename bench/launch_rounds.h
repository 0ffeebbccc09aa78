/* How every peer of stream.launch is measured: so many empty tasks are handed to one serial
 * worker and waited for; tasks a second, the median of several rounds. */
#ifndef LAUNCH_ROUNDS_H
#define LAUNCH_ROUNDS_H
#include "bench.h"

enum { LAUNCH_ROUNDS = 15 };

/* `run` hands over `tasks` empty tasks and returns when all have run. */
static inline void launch_measure(const char *name, void (*run)(int tasks), int tasks)
{
    double rate[LAUNCH_ROUNDS];
    run(tasks / 10);
    for (int i = 0; i < LAUNCH_ROUNDS; i++) {
        int64_t start = hr_now_ns();
        run(tasks);
        rate[i] = 1e9 * tasks / (double)(hr_now_ns() - start);
    }
    bench_say(name, bench_median(rate, LAUNCH_ROUNDS), "tasks/s");
}

#endif
