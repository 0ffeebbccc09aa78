/* Slabs: what the pools take from the system, listed for the whole process. */
#include <pthread.h>
#include <stdlib.h>

#include "device/device_ops.h"

static pthread_mutex_t all_mu = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static hr__slab *all;                                      /* all_mu */

hr__slab *hr__slab_new(hr_device *dev, size_t bytes)
{
    hr__slab *slab = calloc(1, sizeof *slab);
    if (slab == NULL)
        return NULL;
    slab->dev = dev;
    slab->bytes = bytes;
    slab->base = dev->ops->slab_reserve(dev, bytes);
    if (slab->base == NULL) {
        free(slab);
        return NULL;
    }
    pthread_mutex_lock(&all_mu);
    slab->next = all;
    if (all)
        all->prev = slab;
    all = slab;
    pthread_mutex_unlock(&all_mu);
    return slab;
}

void hr__slab_free(hr__slab *slab)
{
    pthread_mutex_lock(&all_mu);
    if (slab->prev)
        slab->prev->next = slab->next;
    else
        all = slab->next;
    if (slab->next)
        slab->next->prev = slab->prev;
    pthread_mutex_unlock(&all_mu);
    slab->dev->ops->slab_release(slab->dev, slab->base, slab->bytes);
    free(slab);
}

hr_device *hr__slab_owner(const void *ptr)
{
    hr_device *dev = NULL;
    const char *p = ptr;
    pthread_mutex_lock(&all_mu);
    for (hr__slab *s = all; s && !dev; s = s->next)
        if (p >= s->base && p < s->base + s->bytes)
            dev = s->dev;
    pthread_mutex_unlock(&all_mu);
    return dev;
}
