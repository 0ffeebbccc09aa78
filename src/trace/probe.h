/* The hot side of the probe: one load when it is off in all threads. */
#ifndef HR_PROBE_H
#define HR_PROBE_H
#include <stdatomic.h>

#include "headrace/trace.h"

extern atomic_int hr__probes; /* how many threads have one */

extern _Thread_local hr_probe_fn hr__probe_fn;
extern _Thread_local void *hr__probe_ctx;

#define HR_PROBE(...)                                                                  \
    do {                                                                               \
        if (atomic_load_explicit(&hr__probes, memory_order_relaxed) && hr__probe_fn)   \
            hr__probe_fn(hr__probe_ctx, &(hr_probe_record){__VA_ARGS__});              \
    } while (0)

#endif
