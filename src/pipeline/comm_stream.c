/* The compute and the communication stream. The latter is state of the device: ranks as threads
 * have one each, and it goes with the device. */
#include "base/try.h"
#include "device/comm_slot.h"
#include "headrace/pipeline.h"

static hr_status make_stream(hr_device *dev, bool high_priority, hr_stream **out)
{
    hr_stream_opts opts = {HR_INIT(hr_stream_opts), .name = "communication"};
    int least, greatest;
    if (high_priority) {
        hr_device_priority_range(dev, &least, &greatest);
        opts.priority = greatest;
    }
    return hr_stream_create(dev, &opts, out);
}

hr_status hr_set_streams(hr_stream *comm, bool high_priority)
{
    hr_device *dev = hr_device_current();
    hr_stream *s = comm;
    if (dev == NULL)
        return hr_fail(HR_ERR_STATE, "no_device", "hr_set_streams: no current device");
    if (comm && hr_stream_device(comm) != dev)
        return hr_fail(HR_ERR_INVALID, "wrong_device",
                       "hr_set_streams: stream '%s' is of another device than the "
                       "current one",
                       hr_stream_name(comm));
    if (hr__device_comm_stream(dev))
        return HR_OK;
    if (s == NULL)
        HR_TRY(make_stream(dev, high_priority, &s));
    hr__device_set_comm_stream(dev, s);
    return HR_OK;
}

hr_stream *hr_get_comp_stream(void)
{
    return hr_stream_current();
}

hr_stream *hr_get_comm_stream(void)
{
    hr_device *dev = hr_device_current();
    return dev ? hr__device_comm_stream(dev) : NULL;
}
