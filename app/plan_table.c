/* The table of all schedules: those that can be used by makespan, then the others with the reason. */
#include "app_try.h"
#include "plan_costs.h"
#include "plan_row.h"
#include "profile.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 64 };

/* "1.50 GiB"; "-" where no bytes were given. */
static void put_bytes(int64_t bytes, char *out, size_t room)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)bytes;
    int u = 0;
    for (; v >= 1024 && u < 5; u++)
        v /= 1024;
    if (bytes == 0)
        snprintf(out, room, "-");
    else
        snprintf(out, room, "%.*f %s", u ? 2 : 0, v, units[u]);
}

static bool ranked(const plan_row *r)
{
    return !r->why[0] && !r->forward_only;
}

static int64_t least_memory(const plan_row *r)
{
    return r->act_bytes + r->param_bytes;
}

/* The faster first, then the one in less memory, then as they are listed. */
static int by_makespan(const void *a, const void *b)
{
    const plan_row *x = a, *y = b;
    if (ranked(x) != ranked(y))
        return ranked(y) - ranked(x);
    if (!ranked(x))
        return strcmp(x->name, y->name);
    int64_t s = x->figures->makespan, t = y->figures->makespan;
    if (s != t)
        return s < t ? -1 : 1;
    if (least_memory(x) != least_memory(y))
        return least_memory(x) < least_memory(y) ? -1 : 1;
    if (x->peak_act < y->peak_act || x->peak_act > y->peak_act)
        return x->peak_act < y->peak_act ? -1 : 1;
    return strcmp(x->name, y->name);
}

static double units(int64_t ticks)
{
    return (double)ticks / (double)HR_TICKS;
}

static void put_head(const plan_options *o)
{
    printf("%d ranks, %d microbatches; ", o->pp, o->microbatches);
    if (o->measured)
        printf("measured costs of %d layers, in milliseconds", o->measured->layers);
    else
        printf("of a rank and microbatch: F %g, I %g, W %g", o->cost_f, o->cost_i,
               o->cost_w);
    printf("; transfer %g", units(hr_app_plan_transfer(o)));
    if (hr_app_plan_latency(o) > 0)
        printf(", latency %g", units(hr_app_plan_latency(o)));
    printf("\n\n%4s  %-15s %6s %12s %12s %7s %7s %9s %12s %12s %12s  %s\n", "",
           "schedule", "chunks", "makespan", "bound", "gap", "bubble", "peak act",
           "act bytes", "param bytes", "span", "valid");
}

/* How far it is above what no order of the same work could be below. */
static double gap(const plan_row *r)
{
    int64_t over = r->figures->makespan - r->bound;
    return r->bound > 0 ? (double)over / (double)r->bound : 0;
}

/* `place` 0: stands above the ranked ones. */
static void put_row(int place, const plan_row *r)
{
    char act[32], param[32], number[16] = "";
    put_bytes(r->act_bytes, act, sizeof act);
    put_bytes(r->param_bytes, param, sizeof param);
    if (place > 0)
        snprintf(number, sizeof number, "%d", place);
    printf(
        "%4s  %-15s %6d %12.10g %12.10g %6.1f%% %6.1f%% %9.2f %12s %12s %12.10g  yes\n",
        number, r->name, r->chunks, units(r->figures->makespan), units(r->bound),
        100 * gap(r), 100 * r->bubble, r->peak_act, act, param,
        units(r->figures->span));
}

static void put_others(const plan_row *rows, int from, int n)
{
    if (from < n)
        printf("\nnot ranked\n");
    for (int i = from; i < n; i++) {
        const plan_row *r = &rows[i];
        printf("      %-15s %s\n", r->name,
               r->why[0] ? r->why : "valid, but without backward: for evaluation");
    }
}

static void put_notes(const plan_row *rows, int n)
{
    bool copies = false, pieces = false;
    for (int i = 0; i < n && ranked(&rows[i]); i++) {
        copies |= rows[i].copies > 1;
        pieces |= rows[i].pieces > 1;
    }
    fputs(
        "\nbound: a makespan that no order of the same work on the same ranks could be "
        "below; gap: how far\n"
        "       above it this one is.\n"
        "peak act: microbatches that the fullest rank holds, counted until their "
        "weight gradients are done.\n"
        "span: the longest that any one rank is at it, which only an optimiser step "
        "that is validated\n"
        "      afterwards could use: with one that waits for all ranks, the makespan "
        "counts.\n",
        stdout);
    if (copies)
        puts("dualpipe holds the parameters of two stages on each rank.");
    if (pieces)
        puts("seq-1f1b takes each microbatch in two pieces, at half its costs each.");
}

hr_status hr_app_plan_compare(const plan_options *o, const plan_row *best)
{
    static plan_row rows[MOST_ROWS]; /* with their sentences too large for a stack */
    int n = 0, place = 0;
    hr_status st = HR_OK;
    for (const char *name; n < MOST_ROWS && (name = hr_schedule_name(n)); n++) {
        APP_TRY_GOTO(
            st, hr_app_plan_row_make(o, name, hr_app_plan_chunks(o, name), &rows[n]),
            done);
        hr_schedule_destroy(rows[n].s); /* only its figures are wanted */
        rows[n].s = NULL;
    }
    qsort(rows, (size_t)n, sizeof rows[0], by_makespan);
    put_head(o);
    if (best)
        put_row(0, best);
    for (; place < n && ranked(&rows[place]); place++)
        put_row(place + 1, &rows[place]);
    put_others(rows, place, n);
    put_notes(rows, n);
    if (place == 0 && !best)
        st = hr_fail(HR_ERR_INVALID, "none",
                     "no schedule can do it; the table says of each why");
done:
    for (int i = 0; i < n; i++)
        hr_app_plan_row_fini(&rows[i]);
    return st;
}
