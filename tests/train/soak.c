/* soak: every combination of the option grid, held to one rank; minutes. A row and the one behind it differ
 * in overlap alone, and must come to the same bits.
 *
 *     soak            all
 *     soak 7          every seventh pair of rows, over the whole grid
 */
#include "support/option_grid.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct tally {
    int agree, refused, failed, done, all;
    int64_t begin_ns, said_ns;
} tally;

static void say(tally *t, bool end)
{
    int64_t now = hr_now_ns(), pause = 10000000000;
    if (!end && now - t->said_ns < pause)
        return;
    t->said_ns = now;
    printf("soak: %d of %d, %.0f s: %d agree, %d refused, %d failed\n", t->done, t->all,
           (double)(now - t->begin_ns) / 1e9, t->agree, t->refused, t->failed);
    fflush(stdout);
}

static void fail(tally *t, int row, const char *why)
{
    char line[GRID_LINE];
    option_grid_line(row, line);
    printf("soak: FAILED %s: %s\n", line, why);
    t->failed++;
}

/* *out is empty unless the row agrees. */
static void run_row(tally *t, int row, run_outcome *out)
{
    *out = (run_outcome){0};
    t->done++;
    if (option_grid_takes(row) < 0)
        t->refused++;
    else if (option_grid_run(row, out) < 0)
        fail(t, row, hr_last_error());
    else
        t->agree++;
}

static void run_two(tally *t, int row)
{
    run_outcome serial, paired;
    run_row(t, row, &serial);
    run_row(t, row + 1, &paired);
    if (serial.state.n && paired.state.n && !run_outcome_same(&serial, &paired)) {
        t->agree--;
        fail(t, row + 1, "other bits than without overlap");
    }
    run_outcome_fini(&serial);
    run_outcome_fini(&paired);
}

int main(int argc, char **argv)
{
    int every = argc > 1 ? atoi(argv[1]) : 1, rows = option_grid_rows();
    tally t = {.begin_ns = hr_now_ns()};
    t.said_ns = t.begin_ns;
    if (every < 1 || !freopen("/dev/null", "w", stderr)) /* the runs' progress */
        return 2;
    t.all = 2 * ((rows / 2 + every - 1) / every);
    for (int row = 0; row < rows; row += 2 * every) {
        run_two(&t, row);
        say(&t, false);
    }
    run_outcome_forget();
    say(&t, true);
    return t.failed > 0;
}
