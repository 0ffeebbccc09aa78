/* Each slot gets the columns of its time: the letter first, then the microbatch, then dashes. A schedule
 * too long for that gets letters alone. */
#include "plan_lanes.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BANDS = 12 };

static char letter(const timed_slot *s)
{
    static const char letters[] = "FBIW";
    return s->n > 1 ? '+' : letters[s->a->kind & 3];
}

static int digits(int number)
{
    return snprintf(NULL, 0, "%d", number);
}

/* Columns that the shortest slot wants for its letter and the longest number. */
static int wanted(const slot_times *t)
{
    int most = 0;
    for (int k = 0; k < t->ranks; k++)
        for (size_t i = 0; i < t->n[k]; i++) {
            const timed_slot *s = &t->slot[t->first[k] + i];
            if (s->n == 1 && s->a->microbatch > most)
                most = s->a->microbatch;
        }
    return 1 + digits(most);
}

static void put_slot(const timed_slot *s, int from, int to, bool numbers, char *line)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%c%d", letter(s), s->a->microbatch);
    bool plain = s->n > 1 || !numbers;
    for (int x = from; x < to; x++)
        line[x] = plain ? letter(s) : x - from < n ? text[x - from] : '-';
}

/* All of time at `per_tick` columns, cut into bands of `columns` that stand below each other. */
static void put_bands(const slot_times *t, const char *lines, int all, int columns,
                      FILE *to)
{
    for (int from = 0; from < all; from += columns) {
        int n = all - from < columns ? all - from : columns;
        for (int k = 0; k < t->ranks; k++)
            fprintf(to, "%4d |%.*s|\n", k, n, lines + (size_t)k * (size_t)all + from);
        fputc('\n', to);
    }
}

hr_status hr_app_plan_lanes(const slot_times *t, int columns, FILE *to)
{
    double most = (double)MOST_BANDS * columns, shortest = (double)t->shortest;
    double roomy = t->shortest > 0 ? wanted(t) / shortest * (double)t->makespan : 0;
    bool numbers = roomy <= most;
    int all = (int)((numbers ? roomy : most) + 0.5);
    double per_tick = t->makespan > 0 ? all / (double)t->makespan : 0;
    size_t bytes = (size_t)t->ranks * (size_t)all;
    char *lines = malloc(bytes + 1);
    if (!lines)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for lines of %d columns", all);
    memset(lines, '.', bytes);
    for (int k = 0; k < t->ranks; k++)
        for (size_t i = 0; i < t->n[k]; i++) {
            const timed_slot *s = &t->slot[t->first[k] + i];
            put_slot(s, (int)((double)s->begin * per_tick + 0.5),
                     (int)((double)s->end * per_tick + 0.5), numbers,
                     lines + (size_t)k * (size_t)all);
        }
    int cut = numbers ? columns - columns % wanted(t) : columns; /* between slots */
    put_bands(t, lines, all, cut > 0 ? cut : columns, to);
    free(lines);
    fputs("F forward, B backward, I for the input, W for the weights, + a pair, "
          ". idle\n",
          to);
    return HR_OK;
}
