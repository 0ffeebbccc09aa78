/* Every two options of schedule, ranks and model meet in a run whose gradients are those of one rank: a
 * set of few runs, made by the test; `make soak` has them all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/option_grid.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 60, MOST_RUNS = 60, AGAIN_EVERY = 8, FEW_ROWS = 10 };

static bool *taken; /* [option_grid_rows()] what the program does not refuse */
static int rows[MOST_ROWS], n_rows, n_runs;

static int open_rows(void **state)
{
    int all = option_grid_rows();
    taken = calloc((size_t)all, sizeof *taken);
    if (!taken)
        return -1;
    for (int row = 0; row < all; row++)
        taken[row] = option_grid_takes(row) >= 0;
    n_rows = option_grid_cover(taken, rows, MOST_ROWS);
    return 0;
}

static int close_rows(void **state)
{
    run_outcome_forget();
    free(taken);
    return 0;
}

/* ---- the set ------------------------------------------------------------------------------- */

struct two {
    int f, v, g, w; /* factors and their values */
};

static bool has(int row, struct two t)
{
    return option_grid_value(row, t.f) == t.v && option_grid_value(row, t.g) == t.w;
}

static bool in_set(struct two t)
{
    for (int i = 0; i < n_rows; i++)
        if (has(rows[i], t))
            return true;
    return false;
}

static bool in_product(struct two t)
{
    for (int row = 0; row < option_grid_rows(); row++)
        if (taken[row] && has(row, t))
            return true;
    return false;
}

/* A schedule may have another number of chunks, or no forward beside a backward. */
static bool may_be_refused(struct two t)
{
    return t.f == GRID_SCHEDULE &&
           (t.g == GRID_VP || (t.g == GRID_OVERLAP && t.w == 1));
}

static void check_two(struct two t)
{
    if (in_set(t))
        return;
    if (!in_product(t) && may_be_refused(t))
        return;
    fail_msg("value %d of factor %d and value %d of factor %d never meet%s", t.v, t.f,
             t.w, t.g, in_product(t) ? "" : ": all rows with them are refused");
}

static void every_two_values_meet_in_the_set(void **state)
{
    struct two t;
    for (t.f = 0; t.f < GRID_FACTORS; t.f++)
        for (t.g = t.f + 1; t.g < GRID_FACTORS; t.g++)
            for (t.v = 0; t.v < option_grid_values(t.f); t.v++)
                for (t.w = 0; t.w < option_grid_values(t.g); t.w++)
                    check_two(t);
}

/* ---- the runs ------------------------------------------------------------------------------ */

static void expect_near(int row, run_outcome *out)
{
    char line[GRID_LINE];
    option_grid_line(row, line);
    print_message("%s\n", line);
    if (option_grid_run(row, out) < 0)
        fail_msg("%s: %s", line, hr_last_error());
    n_runs++;
}

static void expect_same(int row, const run_outcome *want)
{
    char line[GRID_LINE];
    run_outcome got;
    expect_near(row, &got);
    option_grid_line(row, line);
    if (!run_outcome_same(&got, want))
        fail_msg("%s: other bits than before", line);
    run_outcome_fini(&got);
}

/* Pairs as the schedule has them, and one action after the other. */
static bool has_serial_twin(int row)
{
    char line[GRID_LINE];
    option_grid_line(row, line);
    return strstr(line, "--schedule combined ") || strstr(line, "--schedule dualpipe");
}

static void run_row(int i)
{
    run_outcome out;
    expect_near(rows[i], &out);
    if (i % AGAIN_EVERY == 0)
        expect_same(rows[i], &out);
    if (has_serial_twin(rows[i]))
        expect_same(rows[i] ^ 1, &out);
    run_outcome_fini(&out);
}

/* Sanitizers take their time, and ten of them. */
static void each_row_has_the_gradients_of_one_rank(void **state)
{
#ifdef HR_TEST_FEW
    for (int k = 0; k < FEW_ROWS; k++)
        run_row(k * n_rows / FEW_ROWS);
#else
    for (int i = 0; i < n_rows; i++)
        run_row(i);
#endif
    print_message("%d rows of %d; %d runs\n", n_rows, option_grid_rows(), n_runs);
    assert_true(n_runs <= MOST_RUNS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_two_values_meet_in_the_set),
        cmocka_unit_test(each_row_has_the_gradients_of_one_rank),
    };
    return cmocka_run_group_tests(tests, open_rows, close_rows);
}
