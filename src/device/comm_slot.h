/* Where a device keeps its communication stream, so that the choice lives and dies with the device.
 * For src/pipeline (hr_set_streams); issuing thread. */
#ifndef HR_COMM_SLOT_H
#define HR_COMM_SLOT_H
#include "headrace/device.h"

hr_stream *hr__device_comm_stream(const hr_device *dev); /* NULL: none chosen */
void hr__device_set_comm_stream(hr_device *dev, hr_stream *s);

#endif
