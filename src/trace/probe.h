/* The hot side of the probe: one thread-local load when it is off. */
#ifndef HR_PROBE_H
#define HR_PROBE_H
#include "base/hot_tls.h"
#include "headrace/trace.h"

extern _Thread_local hr_probe_fn hr__probe_fn HR__HOT_TLS;
extern _Thread_local void *hr__probe_ctx HR__HOT_TLS;

#define HR_PROBE(...)                                                                  \
    do {                                                                               \
        if (hr__probe_fn)                                                              \
            hr__probe_fn(hr__probe_ctx, &(hr_probe_record){__VA_ARGS__});              \
    } while (0)

#endif
