/* The one call of group_nccl.h that needs no NCCL. */
#include "device/device_ops.h" /* hr_device.apart */
#include "headrace/group_nccl.h"

bool hr_nccl_is_needed(const hr_device *dev)
{
    return dev && dev->apart;
}
