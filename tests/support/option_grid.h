/* option_grid.h: every combination of schedule, ranks and model that a step is held to one rank with, by
 * number, and a small set of them in which every two values meet.
 *
 *     for (int row = 0; row < option_grid_rows(); row++)
 *         if (option_grid_takes(row) >= 0)
 *             HR_TRY(option_grid_run(row, &outcome));
 */
#ifndef HR_TEST_OPTION_GRID_H
#define HR_TEST_OPTION_GRID_H
#include "support/run_outcome.h"

enum { GRID_LINE = 320 };

/* In the order of the factors of a row; overlap is the last, so rows 2n and 2n + 1 differ in it alone. */
enum grid_factor {
    GRID_SCHEDULE,
    GRID_PP,
    GRID_VP,
    GRID_EP,
    GRID_DP,
    GRID_TIED,
    GRID_UNEVEN,
    GRID_MTP,
    GRID_SHARD,
    GRID_OVERLAP,
    GRID_FACTORS
};

int option_grid_rows(void);
int option_grid_values(int factor); /* that it has */
int option_grid_value(int row, int factor);

/* As on the command line. */
void option_grid_line(int row, char out[GRID_LINE]);

/* OK, or what the program says against the row: it runs nothing. */
hr_status option_grid_takes(int row);

/* Runs it and holds it to one rank: within 1e-5, and to the bit where nothing is added in another order.
 * *out is the caller's after OK. */
hr_status option_grid_run(int row, run_outcome *out);

/* Rows, each one of those that bring the most pairs of values together that no row before it has,
 * until there are none. `taken` says which rows can be had. Returns how many, at most `most`. */
int option_grid_cover(const bool *taken, int *rows, int most);

#endif
