/* Fronts of the slots that say where a device is; see device_place.h. */
#include "device/device_place.h"

#include "device/device_ops.h"

hr_status hr__device_pci_bus_id(hr_device *dev, char *out, size_t cap)
{
    if (dev->ops->pci_bus_id)
        return dev->ops->pci_bus_id(dev, out, cap);
    return hr_fail(HR_ERR_UNSUPPORTED, "no_pci", "a '%s' device is on no PCI bus",
                   dev->ops->name);
}

hr_status hr__device_bind(hr_device *dev, const cpu_set_t *cpus)
{
    if (dev->ops->bind == NULL)
        return HR_OK;
    hr__device_drain(dev); /* so that no launch starts a thread meanwhile */
    return dev->ops->bind(dev, cpus);
}
