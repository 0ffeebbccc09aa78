/* What the optimiser gains: the makespan of the best generator over that of what is found, with the default
 * number of steps and within the same limit of activations. The set is of sizes that other projects'
 * tables were recorded for: 4 and 8 ranks, 8 and 32 microbatches, one stage a rank and two, a half,
 * three quarters and all of the activations of 1F1B, equal costs and skewed ones. Says the worst, the
 * median, the best, and the longest time that one of them took. */
#include "headrace/schedule.h"

#include "bench.h"

#include <time.h>

static const hr_stage_cost equal = {.f = HR_TICKS, .i = HR_TICKS, .w = HR_TICKS};
static const hr_stage_cost skewed = {
    .f = HR_TICKS, .i = 12 * HR_TICKS / 10, .w = 8 * HR_TICKS / 10};

enum { CASES = 2 * 2 * 2 * 3 * 2 };

static hr_optimise_opts case_of(int k)
{
    int ranks = k % 2 ? 8 : 4, chunks = 1 + k / 4 % 2;
    bool skew = k / 24 > 0;
    return (hr_optimise_opts){HR_INIT(hr_optimise_opts),
                              .ranks = ranks,
                              .microbatches = k / 2 % 2 ? 32 : 8,
                              .chunks = chunks,
                              .max_act = ranks * chunks * (2 + k / 8 % 3) / 4,
                              .cost = skew ? &skewed : &equal,
                              .costs = 1,
                              .comm = skew ? HR_TICKS / 10 : 0};
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(void)
{
    double gain[CASES], longest = 0;
    int shorter = 0;
    for (int k = 0; k < CASES; k++) {
        hr_optimise_opts o = case_of(k);
        hr_optimise_report r;
        hr_schedule *s;
        double begin = now();
        ok(hr_schedule_optimise(&o, &s, &r));
        double took = now() - begin;
        hr_schedule_destroy(s);
        longest = took > longest ? took : longest;
        shorter += r.searched;
        gain[k] = (double)r.generator_makespan / (double)r.makespan;
    }
    bench_say("search.median", bench_median(gain, CASES), "times"); /* sorts them */
    bench_say("search.worst", gain[0], "times");
    bench_say("search.best", gain[CASES - 1], "times");
    bench_say("search.shorter", shorter, "cases");
    bench_say("search.cases", CASES, "cases");
    bench_say("search.longest_s", longest, "s");
    return 0;
}
