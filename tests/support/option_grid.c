/* option_grid.c: see option_grid.h. */
#include "support/option_grid.h"
#include "app_try.h"
#include "run_pipeline.h"
#include <stdlib.h>
#include <string.h>

/* With a prime stride rows that are as good as each other do not all start with the same values. */
enum { MICROBATCHES = 8, LAYERS = 8, MOST_VALUES = 32, STRIDE = 1987 };

/* ---- rows ---------------------------------------------------------------------------------- */

/* Does it have a backward, over whole sequences? */
static bool trains(const char *name)
{
    hr_generate_opts o = {HR_INIT(hr_generate_opts), .ranks = 2,
                          .microbatches = MICROBATCHES};
    hr_schedule *s;
    hr_schedule_shape h;
    if (hr_schedule_generate(name, &o, &s) < 0)
        return true; /* for the program to say */
    hr_schedule_get_shape(s, &h);
    hr_schedule_destroy(s);
    return !h.forward_only && h.pieces == 1;
}

/* The i-th of those that do, or NULL. */
static const char *schedule_name(int i)
{
    static const char *names[MOST_VALUES];
    static int n, seen;
    for (; hr_schedule_name(seen); seen++)
        if (trains(hr_schedule_name(seen)) && n < MOST_VALUES)
            names[n++] = hr_schedule_name(seen);
    return i < n ? names[i] : NULL;
}

int option_grid_values(int factor)
{
    int n = 0;
    if (factor != GRID_SCHEDULE)
        return 2;
    while (schedule_name(n))
        n++;
    return n;
}

int option_grid_rows(void)
{
    int n = 1;
    for (int f = 0; f < GRID_FACTORS; f++)
        n *= option_grid_values(f);
    return n;
}

int option_grid_value(int row, int factor)
{
    int bit = GRID_FACTORS - 1 - factor;
    return factor == GRID_SCHEDULE ? row >> (GRID_FACTORS - 1) : row >> bit & 1;
}

/* Few layers on the first, none on some and on the last; the layer ahead alone where there is room. */
static const char *uneven(int stages, int mtp)
{
    static const char *const texts[][2] = {
        {"Ettttt|tttL", "Ettttt|tttmL"},
        {"Et|ttt|tttt|L", "Ett|tttttt|m|L"},
        {"Et|tt||t|t|tt|t|L", "Et|tt||t|t|ttt|m|L"},
    };
    return texts[stages == 2 ? 0 : stages == 4 ? 1 : 2][mtp];
}

void option_grid_line(int row, char out[GRID_LINE])
{
    static const char *const off_on[] = {"off", "on"};
    int pp = option_grid_value(row, GRID_PP) ? 4 : 2;
    int vp = option_grid_value(row, GRID_VP) + 1;
    int ep = option_grid_value(row, GRID_EP) + 1;
    int dp = ep * (option_grid_value(row, GRID_DP) + 1);
    int mtp = option_grid_value(row, GRID_MTP);
    bool even = !option_grid_value(row, GRID_UNEVEN);
    snprintf(out, GRID_LINE,
             "--schedule %s --pp %d --vp %d --ep %d --dp %d --tie-embeddings %s "
             "--mtp %s --shard-optimizer %s --overlap %s --layers %d%s%s "
             "--global-batch-size %d",
             schedule_name(option_grid_value(row, GRID_SCHEDULE)), pp, vp, ep, dp,
             off_on[option_grid_value(row, GRID_TIED)], off_on[mtp],
             off_on[option_grid_value(row, GRID_SHARD)],
             off_on[option_grid_value(row, GRID_OVERLAP)], LAYERS,
             even ? "" : " --layout ", even ? "" : uneven(pp * vp, mtp),
             MICROBATCHES * dp);
}

/* ---- runs ---------------------------------------------------------------------------------- */

/* Each stage has the weight gradients of its microbatches in their order. */
static bool in_order(const pipeline *p)
{
    for (int r = 0; r < p->ranks; r++) {
        size_t n;
        const hr_action *a = hr_schedule_order(p->training, r, &n);
        for (int s = 0; s < p->stages; s++)
            for (size_t i = 0, next = 0; i < n; i++)
                if (a[i].stage == s &&
                    (a[i].kind == HR_ACTION_B || a[i].kind == HR_ACTION_W) &&
                    a[i].microbatch != (int)next++)
                    return false;
    }
    return true;
}

/* Is each gradient made in one place, and added there in the order of one rank? */
static bool adds_as_one_rank(const train_options *o, const pipeline *p)
{
    bool ahead = o->model.tie_embeddings || o->model.mtp; /* use one matrix twice */
    return o->dp == 1 && !ahead && in_order(p);
}

static hr_status plan(int row, train_options *o, bool *same_bits)
{
    char line[GRID_LINE];
    pipeline p;
    option_grid_line(row, line);
    APP_TRY(run_outcome_read(o, line));
    APP_TRY(hr_app_pipeline_make(o, &p));
    *same_bits = adds_as_one_rank(o, &p);
    hr_app_pipeline_fini(&p);
    return HR_OK;
}

hr_status option_grid_takes(int row)
{
    train_options o;
    bool same_bits;
    return plan(row, &o, &same_bits);
}

static hr_status run(const train_options *o, bool same_bits, run_outcome *out)
{
    const run_outcome *want = run_outcome_on_one_rank(o);
    APP_TRY(want ? HR_OK
                 : hr_fail(HR_ERR_MISMATCH, "option_grid", "on one rank: %s",
                           hr_last_error()));
    APP_TRY(run_outcome_steps(o, out));
    hr_status st = run_outcome_near(out, want, NULL);
    if (st >= 0 && same_bits && !run_outcome_same(out, want))
        st = hr_fail(HR_ERR_MISMATCH, "option_grid", "other bits than on one rank");
    if (st < 0)
        run_outcome_fini(out);
    return st;
}

hr_status option_grid_run(int row, run_outcome *out)
{
    train_options o;
    bool same_bits;
    APP_TRY(plan(row, &o, &same_bits));
    train_case_folder(&o);
    hr_status st = run(&o, same_bits, out);
    train_case_fini(&o);
    return st;
}

/* ---- cover --------------------------------------------------------------------------------- */

typedef bool met[GRID_FACTORS][MOST_VALUES][GRID_FACTORS][MOST_VALUES];

/* Pairs of values that are new in this row; with `keep` they are old from now on. */
static int meet(met *m, int row, bool keep)
{
    int n = 0;
    for (int f = 0; f < GRID_FACTORS; f++)
        for (int g = f + 1; g < GRID_FACTORS; g++) {
            bool *here =
                &(*m)[f][option_grid_value(row, f)][g][option_grid_value(row, g)];
            n += !*here;
            *here |= keep;
        }
    return n;
}

int option_grid_cover(const bool *taken, int *rows, int most)
{
    met *m = calloc(1, sizeof *m);
    int n = 0, all = option_grid_rows();
    while (m && n < most) {
        int best = -1, brings = 0;
        for (int k = 0; k < all; k++) {
            int row = (int)((int64_t)k * STRIDE % all);
            int here = taken[row] ? meet(m, row, false) : 0;
            if (here > brings) {
                brings = here;
                best = row;
            }
        }
        if (best < 0)
            break;
        meet(m, best, true);
        rows[n++] = best;
    }
    free(m);
    return n;
}
