/* What becomes of recorded cases, for the runners of the recordings: a verdict a case, counted and
 * printed a file. */
#ifndef TALLY_H
#define TALLY_H
#include "headrace/base.h" /* HR_PRINTF */

typedef enum verdict { EQUAL, DIFFERENT, LEFT_OUT } verdict;

typedef struct outcome {
    const char *reason; /* of LEFT_OUT */
    char diff[700];
} outcome;

verdict out_left(outcome *o, const char *reason); /* a string that stays */
verdict out_differs(outcome *o, const char *fmt, ...) HR_PRINTF(2, 3);

enum { TALLY_REASONS = 16 };
typedef struct tally {
    int run, equal, left;
    int n_reasons;
    const char *reason[TALLY_REASONS];
    int count[TALLY_REASONS];
} tally;

/* Counts a case; the first that differ are printed. */
void tally_case(tally *t, const char *name, verdict v, const outcome *o);
/* The file's line, and why cases were left out. */
void tally_print(const tally *t, const char *file);

#endif
