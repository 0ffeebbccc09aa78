/* See tally.h. */
#include "tally.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 5 };

verdict out_left(outcome *o, const char *reason)
{
    o->reason = reason;
    return LEFT_OUT;
}

verdict out_differs(outcome *o, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(o->diff, sizeof o->diff, fmt, args);
    va_end(args);
    return DIFFERENT;
}

static void count_reason(tally *t, const char *reason)
{
    int i = 0;
    while (i < t->n_reasons && strcmp(t->reason[i], reason) != 0)
        i++;
    if (i == TALLY_REASONS)
        return;
    if (i == t->n_reasons) {
        t->reason[t->n_reasons++] = reason;
        t->count[i] = 0;
    }
    t->count[i]++;
}

void tally_case(tally *t, const char *name, verdict v, const outcome *o)
{
    if (v == LEFT_OUT) {
        t->left++;
        count_reason(t, o->reason);
        return;
    }
    t->run++;
    t->equal += v == EQUAL;
    if (v == DIFFERENT && t->run - t->equal <= SHOWN)
        printf("  differs: %s: %s\n", name, o->diff);
}

void tally_print(const tally *t, const char *file)
{
    printf("%s run %d equal %d left-out %d\n", file, t->run, t->equal, t->left);
    for (int k = 0; k < t->n_reasons; k++)
        printf("  left out %d: %s\n", t->count[k], t->reason[k]);
}
