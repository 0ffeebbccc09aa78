/* The threads of a host device, streams and helpers of its team, keep to some CPUs. */
#include <stdlib.h>
#include <string.h>

#include "device/host/host_device.h"

typedef struct bound {
    pthread_t thread;
    cpu_set_t before;
} bound;

static int gather(hr__host_device *d, bound *all)
{
    int n = 0, helpers = 0;
    for (int i = 0; i < HR_MAX_STREAMS; i++)
        if (d->base.streams[i] && !d->base.streams[i]->foreign)
            all[n++].thread = ((hr__host_stream *)d->base.streams[i])->thread;
    const pthread_t *helper = hr__team_helpers(d->team, &helpers);
    for (int i = 0; i < helpers; i++)
        all[n++].thread = helper[i];
    return n;
}

hr_status hr__host_bind(hr_device *dev, const cpu_set_t *cpus)
{
    hr__host_device *d = (hr__host_device *)dev;
    bound *all = calloc(HR_MAX_STREAMS + (size_t)dev->cores, sizeof *all);
    int done = 0, rc = 0;
    if (all == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to bind the threads of rank %d",
                       dev->rank);
    int n = gather(d, all);
    for (; done < n && rc == 0; done += rc == 0) {
        bound *b = &all[done];
        rc = pthread_getaffinity_np(b->thread, sizeof b->before, &b->before);
        if (rc == 0)
            rc = pthread_setaffinity_np(b->thread, sizeof *cpus, cpus);
    }
    while (rc && done-- > 0)
        (void)pthread_setaffinity_np(all[done].thread, sizeof all[done].before,
                                     &all[done].before);
    free(all);
    if (rc)
        return hr_fail(HR_ERR_DEVICE, "affinity_refused",
                       "rank %d: the system refuses to bind a stream's thread: %s",
                       dev->rank, strerror(rc));
    return HR_OK;
}
