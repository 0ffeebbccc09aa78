/* Where a device is on the machine, and the CPUs that its threads keep to. */
#ifndef HR_DEVICE_PLACE_H
#define HR_DEVICE_PLACE_H
#include "headrace/device.h"
#include <sched.h>

/* "0000:3b:00.0"; ERR_UNSUPPORTED "no_pci" for a device that is on no bus. */
hr_status hr__device_pci_bus_id(hr_device *dev, char *out, size_t cap);

/* All threads that the device has, and those they make, keep to `cpus`; after a failure none does
 * (ERR_DEVICE "affinity_refused", ERR_NOMEM). Blocks until its streams are empty. */
hr_status hr__device_bind(hr_device *dev, const cpu_set_t *cpus);

#endif
