/* cause.h: the first failure of a job, as a process knows it. `failed` is written under the job's mutex;
 * `told` follows once all devices have failed with it, so that whoever is woken finds its own
 * failed already. */
#ifndef HR_CAUSE_H
#define HR_CAUSE_H
#include "headrace/base.h"
#include <pthread.h>
#include <stdatomic.h>

typedef struct hr__cause {
    atomic_int failed; /* hr_status */
    atomic_bool told;
    char text[768];     /* the mutex; "rank R: ..." */
    const char *reason; /* the mutex */
} hr__cause;

/* Under the mutex, where nothing has failed: `st` of `rank`, with what the calling thread said last (devices
 * begin with "rank R, ") and then `place`. */
void hr__cause_write(hr__cause *c, int rank, hr_status st, const char *place);
/* The failure, its sentence now the calling thread's last error; OK if there is none. */
hr_status hr__cause_status(hr__cause *c, pthread_mutex_t *mu);
/* Under the mutex: a reset. */
void hr__cause_clear(hr__cause *c);

#endif
