/* The one cause of a device's failure, and who is told. See device_fail.c. */
#ifndef HR_DEVICE_FAIL_H
#define HR_DEVICE_FAIL_H
#include <pthread.h>
#include <stdatomic.h>

#include "headrace/device.h"

typedef struct hr__fail_hook {
    void (*fn)(void *ctx);
    void *ctx;
} hr__fail_hook;

typedef struct hr__fail {
    atomic_bool failed; /* set last (release) under mu: a quick look for the streams */
    pthread_mutex_t mu; /* guards cause, reason, text */
    hr_status cause;    /* the first wins, until reset */
    const char *reason; /* a literal */
    char text[512];     /* the sentence */
    pthread_mutex_t hooks_mu; /* guards hooks; held while they run; never under mu */
    hr__fail_hook *hooks;
    int n_hooks;
} hr__fail;

void hr__fail_init(hr__fail *f);
void hr__fail_fini(hr__fail *f);

static inline bool hr__failed(hr__fail *f)
{
    return atomic_load_explicit(&f->failed, memory_order_acquire);
}

#endif
