/* Shares of CPUs; see local_cores.h. */
#include "group/local/local_cores.h"

void hr__cores_read(hr__cores *c, int ranks, const hr_local_opts *o)
{
    *c = (hr__cores){.usable = 1};
    if (sched_getaffinity(0, sizeof c->all, &c->all) != 0)
        return;
    c->usable = CPU_COUNT(&c->all);
    /* One that is told to use less shares the machine with somebody; where, it cannot know. */
    bool all = o->cores == 0 || o->cores >= c->usable;
    if (all && o->bind >= 0 && ranks > 1)
        c->each = c->usable / ranks;
}

void hr__cores_bind(const hr__cores *c, int rank)
{
    if (c->each == 0)
        return;
    cpu_set_t share;
    CPU_ZERO(&share);
    int nth = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &c->all))
            continue;
        if (nth / c->each == rank)
            CPU_SET(cpu, &share);
        nth++;
    }
    (void)sched_setaffinity(0, sizeof share, &share);
}

void hr__cores_unbind(const hr__cores *c)
{
    if (c->each > 0)
        (void)sched_setaffinity(0, sizeof c->all, &c->all);
}
