/* CPUs in the order of the machine's tree, by hwloc; see cpu_order.h. */
#include "device/cpu_order.h"

#include <hwloc.h>
#include <pthread.h>

static void add(hr__cpu_order *o, cpu_set_t *seen, int cpu)
{
    if (cpu < 0 || cpu >= CPU_SETSIZE || CPU_ISSET(cpu, seen))
        return;
    CPU_SET(cpu, seen);
    o->cpu[o->n++] = cpu;
}

/* hwloc numbers the CPUs anew, in the order of the tree. */
static bool load(const char *described, hr__cpu_order *o, cpu_set_t *seen)
{
    hwloc_topology_t t;
    if (hwloc_topology_init(&t) != 0)
        return false;
    /* Binding is the caller's business, not the discovery's; what this process may not use today,
     * a mask may name tomorrow. */
    unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED |
                          HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
    bool ok = hwloc_topology_set_flags(t, flags) == 0 &&
              (!described || hwloc_topology_set_synthetic(t, described) == 0) &&
              hwloc_topology_load(t) == 0;
    for (hwloc_obj_t pu = NULL;
         ok && (pu = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_PU, pu)) != NULL;)
        if (pu->os_index < CPU_SETSIZE)
            add(o, seen, (int)pu->os_index);
    hwloc_topology_destroy(t);
    return ok && o->n > 0;
}

bool hr__cpu_order_read(const char *described, hr__cpu_order *out)
{
    cpu_set_t seen;
    CPU_ZERO(&seen);
    out->n = 0;
    bool ok = load(described, out, &seen);
    /* so that every CPU is somewhere */
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        add(out, &seen, cpu);
    return ok;
}

static hr__cpu_order this_machine;

static void read_this_machine(void)
{
    (void)hr__cpu_order_read(NULL, &this_machine);
}

const hr__cpu_order *hr__cpu_order_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_this_machine);
    return &this_machine;
}

void hr__cpu_share(const hr__cpu_order *o, const cpu_set_t *may, int first, int count,
                   cpu_set_t *share)
{
    int nth = 0;
    CPU_ZERO(share);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        int cpu = o ? o->cpu[i] : i;
        if (!CPU_ISSET(cpu, may))
            continue;
        if (nth >= first && nth < first + count)
            CPU_SET(cpu, share);
        nth++;
    }
}
