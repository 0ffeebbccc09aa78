/* The compute and the communication stream. The latter is state of the device and has to go
 * with it, without a table that would outlive it and answer for the next device at the same
 * address. So it hangs on the device itself: a hook for failures that does nothing, and whose
 * argument is the stream. */
#include "base/try.h"
#include "device/device_ops.h" /* hr_device: its hooks */
#include "headrace/pipeline.h"

static void comm_stream_of_device(void *stream)
{
    (void)stream;
}

static hr_stream *chosen(hr_device *dev)
{
    hr_stream *found = NULL;
    pthread_mutex_lock(&dev->fail.hooks_mu);
    for (int i = 0; i < dev->fail.n_hooks && !found; i++)
        if (dev->fail.hooks[i].fn == comm_stream_of_device)
            found = dev->fail.hooks[i].ctx;
    pthread_mutex_unlock(&dev->fail.hooks_mu);
    return found;
}

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
    if (chosen(dev))
        return HR_OK;
    if (s == NULL)
        HR_TRY(make_stream(dev, high_priority, &s));
    hr_status st = hr_device_on_fail(dev, comm_stream_of_device, s);
    if (st < 0 && comm == NULL)
        hr_stream_destroy(s);
    return st;
}

hr_stream *hr_get_comp_stream(void)
{
    return hr_stream_current();
}

hr_stream *hr_get_comm_stream(void)
{
    hr_device *dev = hr_device_current();
    return dev ? chosen(dev) : NULL;
}
