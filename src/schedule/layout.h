/* What a layout is made of. Internal to src/schedule. */
#ifndef HR_LAYOUT_H
#define HR_LAYOUT_H
#include "schedule/schedule_impl.h"

enum { HR__MAX_LAYERS = 1 << 20 };

/* The row of the model is counted from 0: embedding, layers, MTP layers, loss. */
struct hr_layout {
    int ranks, chunks, layers, mtp;
    hr_placement placement;
    int *first; /* [stages + 1] where in the row a stage begins */
};

static inline int hr__layout_row(int layers, int mtp)
{
    return layers + mtp + 2;
}

/* Refuses ranks, chunks and placements that cannot be. */
hr_status hr__layout_check(const hr_layout_opts *o);

/* Chunks, layers and mtp of `o` are set. The starts of the stages are the caller's to fill. */
hr_status hr__layout_create(const hr_layout_opts *o, hr_layout **out);

#endif
