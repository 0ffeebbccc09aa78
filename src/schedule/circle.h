/* The smallest circle in a graph: which few ranks of a deadlock to tell of. Internal to src/schedule. */
#ifndef HR_CIRCLE_H
#define HR_CIRCLE_H
#include "headrace/base.h"

/* Node k leads to to[first[k]] up to, but not with, to[first[k + 1]]. */
typedef struct hr__graph {
    int nodes;
    const int *first; /* [nodes + 1] */
    const int *to;
} hr__graph;

typedef struct hr__circle {
    int length; /* 0: there is none */
    int *way;   /* [nodes] room of the caller's; its nodes in order, the lowest first */
    bool smallest; /* false: the search was given up, a smaller one may be there */
} hr__circle;

/* The search is given up after about `most` steps along an edge. ERR_NOMEM. */
hr_status hr__circle_find(const hr__graph *g, int64_t most, hr__circle *out);

#endif
