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
    /* Two CPUs are shared alike in any order, and need not wait for the machine to be read. */
    if (c->each > 0 && c->usable > 2)
        c->order = hr__cpu_order_get();
}

void hr__cores_bind(const hr__cores *c, int rank)
{
    if (c->each == 0)
        return;
    cpu_set_t share;
    hr__cpu_share(c->order, &c->all, rank * c->each, c->each, &share);
    (void)sched_setaffinity(0, sizeof share, &share);
}

void hr__cores_unbind(const hr__cores *c)
{
    if (c->each > 0)
        (void)sched_setaffinity(0, sizeof c->all, &c->all);
}
