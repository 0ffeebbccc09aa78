/* The steps that DualPipe and DualPipe-V share. Internal to src/schedule/build. */
#ifndef HR_DUALPIPE_H
#define HR_DUALPIPE_H
#include "schedule/build/builder.h"

/* One rank's two directions: 0 is the one whose microbatches reach it first. */
typedef struct hr__dual {
    int stage[2];
    int first[2]; /* the first microbatch of a direction */
    int ranks;    /* of a direction's half: the ranks that see it early */
    int at;       /* this rank's place among them */
    int count;    /* microbatches of a direction */
} hr__dual;

void hr__dual_order(hr__build *b, int rank, const hr__dual *d);

#endif
