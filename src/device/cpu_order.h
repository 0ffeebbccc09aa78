/* The CPUs of this machine in the order of its tree: threads of a core side by side, cores that
 * share a cache side by side, then NUMA nodes, then sockets. A run of this order is the tightest
 * share of the machine; numbers of CPUs say little (threads of a core are often far apart). */
#ifndef HR_CPU_ORDER_H
#define HR_CPU_ORDER_H
#include <sched.h>
#include <stdbool.h>

typedef struct hr__cpu_order {
    int n;
    int cpu[CPU_SETSIZE];
} hr__cpu_order;

/* Read once a process, which takes milliseconds. By number where the system does not say. */
const hr__cpu_order *hr__cpu_order_get(void);

/* Of the machine that `described` says, in hwloc's words ("numa:2 core:4 pu:2"); NULL: of this one. false,
 * and by number, if that cannot be had. */
bool hr__cpu_order_read(const char *described, hr__cpu_order *out);

/* The CPUs of `may` from the `first`-th in that order on, `count` of them. `o` NULL: by number. */
void hr__cpu_share(const hr__cpu_order *o, const cpu_set_t *may, int first, int count,
                   cpu_set_t *share);

#endif
