/* Which CPUs are near a GPU; what is looked at can be replaced, for tests. */
#ifndef HR_AFFINITY_H
#define HR_AFFINITY_H
#include "headrace/pipeline.h"
#include <sched.h>

typedef struct hr__affinity_from {
    const char *sysfs; /* "/sys" */
    const char *nvml;  /* the library's name */
} hr__affinity_from;

/* A list of CPUs as the kernel writes it: "0-3,8,10-11\n", ascending; an empty one is none. ERR_PARSE
 * "cpu_list" for anything else, and for CPUs beyond CPU_SETSIZE. */
hr_status hr__cpu_list_parse(const char *text, cpu_set_t *out);
/* The same way back, for sentences; cut short where it does not fit. */
void hr__cpu_list_print(const cpu_set_t *cpus, char *out, size_t cap);

/* CPUs near the device at that PCI address: by sysfs, else hwloc, else NVML. ERR_PARSE "pci_bus_id";
 * ERR_UNSUPPORTED "affinity_unknown" says why none of them knew. */
hr_status hr__affinity_near(const hr__affinity_from *from, const char *bus_id,
                            cpu_set_t *out);

/* hr_set_ideal_affinity_for_current_gpu() of `dev`. */
hr_status hr__affinity_set(hr_device *dev, const hr__affinity_from *from);

#endif
