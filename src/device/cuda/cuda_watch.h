/* Who wants to be asked while the issuing thread waits for a CUDA device: an engine of groups, whose
 * transfers can hang, looks for errors and time limits there, and aborts them. */
#ifndef HR_CUDA_WATCH_H
#define HR_CUDA_WATCH_H
#include "headrace/device.h"

typedef struct hr__cuda_watch {
    void (*look)(void *ctx); /* some thousand times a second, and when a wait is over */
    void *ctx;
    struct hr__cuda_watch *next;
} hr__cuda_watch;

/* The watch is the caller's, and lives until it is taken off. Issuing thread. */
void hr__cuda_watch_add(hr_device *dev, hr__cuda_watch *w);
void hr__cuda_watch_remove(hr_device *dev, hr__cuda_watch *w);

#endif
