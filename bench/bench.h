/* What the benchmarks in C share: no failure goes unseen, a line of JSON a figure, the middle of
 * several rounds. Each program prints lines {"name": ..., "value": ..., "unit": ...} that run.py
 * gathers. */
#ifndef BENCH_H
#define BENCH_H
#include "headrace/base.h"
#include <stdlib.h>

static inline void ok(hr_status st)
{
    if (st < 0) {
        fprintf(stderr, "%s: %s\n", hr_status_name(st), hr_last_error());
        exit(1);
    }
}

static inline int bench_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double bench_median(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, bench_order);
    return times[n / 2];
}

static inline void bench_say(const char *name, double value, const char *unit)
{
    char line[256];
    hr_json j;
    hr_json_begin(&j, line, sizeof line);
    hr_json_text(&j, "name", name);
    hr_json_real(&j, "value", value);
    hr_json_text(&j, "unit", unit);
    ok(hr_json_end(&j));
    puts(line);
    fflush(stdout);
}

#endif
