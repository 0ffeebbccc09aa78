/* Which CPUs belong to which rank. A job that may use all CPUs of its process, and has one at least for
 * each rank, gives every rank its own share: then a rank's compute stream is never queued behind
 * another's while a CPU is idle, which schedulers let happen for milliseconds. Shares follow the
 * machine's tree: threads of a core, then cores of a cache, then a NUMA node stay together. */
#ifndef HR_LOCAL_CORES_H
#define HR_LOCAL_CORES_H
#include "device/cpu_order.h"
#include "headrace/group.h"

typedef struct hr__cores {
    cpu_set_t all;              /* of the calling thread when it was asked */
    int usable;                 /* how many there are; 1 if the system does not say */
    int each;                   /* of a rank; 0: ranks are not bound */
    const hr__cpu_order *order; /* NULL: by number */
} hr__cores;

void hr__cores_read(hr__cores *c, int ranks, const hr_local_opts *o);

/* Bind the calling thread, and the threads that it makes from now on, to the share of `rank`. A system
 * that refuses leaves it as it was. */
void hr__cores_bind(const hr__cores *c, int rank);
/* Back to all of them. */
void hr__cores_unbind(const hr__cores *c);

#endif
