/* The calling thread and the threads of its device move to the CPUs nearest to that, or stay. Where
 * those are is found in affinity_near.c. */
#include "pipeline/affinity.h"

#include <errno.h>
#include <string.h>

#include "base/try.h"
#include "device/cpu_order.h"
#include "device/device_place.h"

enum { LIST = 128 };

/* What the launcher gave stays the limit. */
static hr_status near_gpu(const hr__affinity_from *from, const char *bus_id,
                          const cpu_set_t *may, cpu_set_t *out)
{
    cpu_set_t close_by;
    char here[LIST], there[LIST];
    HR_TRY(hr__affinity_near(from, bus_id, &close_by));
    CPU_AND(out, &close_by, may);
    if (CPU_COUNT(out) > 0)
        return HR_OK;
    hr__cpu_list_print(&close_by, there, sizeof there);
    hr__cpu_list_print(may, here, sizeof here);
    return hr_fail(HR_ERR_UNSUPPORTED, "affinity_elsewhere",
                   "the device at %s is near CPUs %s, and this thread may use %s: left "
                   "as it is",
                   bus_id, there, here);
}

/* A host device is where its cores are: each rank has a share of its own. */
static hr_status share_of_rank(const hr_device *dev, const cpu_set_t *may,
                               cpu_set_t *out)
{
    int usable = CPU_COUNT(may), cores = hr_device_cores(dev);
    int rank = hr_device_rank(dev);
    *out = *may;
    if (usable <= cores)
        return HR_OK; /* it has been given no more than that */
    if (rank >= usable / cores)
        return hr_fail(
            HR_ERR_UNSUPPORTED, "too_few_cpus",
            "rank %d: shares of %d CPUs, and this thread may use %d: left as "
            "it is",
            rank, cores, usable);
    hr__cpu_share(usable > 2 ? hr__cpu_order_get() : NULL, may, rank * cores, cores,
                  out);
    return HR_OK;
}

static hr_status refused(const char *what)
{
    return hr_fail(HR_ERR_DEVICE, "affinity_refused", "%s: %s", what, strerror(errno));
}

hr_status hr__affinity_set(hr_device *dev, const hr__affinity_from *from)
{
    cpu_set_t may, want;
    char bus_id[32];
    if (sched_getaffinity(0, sizeof may, &may) != 0)
        return refused("the system does not say which CPUs this thread may use");
    hr_status st = hr__device_pci_bus_id(dev, bus_id, sizeof bus_id);
    if (st >= 0)
        st = near_gpu(from, bus_id, &may, &want);
    else if (strcmp(hr_last_reason(), "no_pci") == 0)
        st = share_of_rank(dev, &may, &want);
    if (st < 0)
        return st;
    if (sched_setaffinity(0, sizeof want, &want) != 0)
        return refused("the system refuses to bind this thread");
    st = hr__device_bind(dev, &want);
    if (st < 0)
        (void)sched_setaffinity(0, sizeof may, &may);
    return st;
}

hr_status hr_set_ideal_affinity_for_current_gpu(void)
{
    static const hr__affinity_from here = {"/sys", "libnvidia-ml.so.1"};
    hr_device *dev = hr_device_current();
    if (dev == NULL)
        return hr_fail(HR_ERR_STATE, "no_device",
                       "hr_set_ideal_affinity_for_current_gpu: no current device");
    return hr__affinity_set(dev, &here);
}
