/* For the tests of the device room: gates (kernels that block until the test opens them),
 * a log of what ran in which order, and a device in a fixture. */
#ifndef DEVICE_KIT_H
#define DEVICE_KIT_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "headrace/device.h"
#include "support/backend.h"

#define OK(expr) assert_int_equal((expr), HR_OK)

/* A launch of pass_gate on a stream holds it until open_gate. */
typedef struct gate {
    pthread_mutex_t mu;
    pthread_cond_t cv;
    bool open, entered; /* mu */
} gate;

#define GATE_INIT                                                                      \
    {                                                                                  \
        .mu = PTHREAD_MUTEX_INITIALIZER, .cv = PTHREAD_COND_INITIALIZER                \
    }

static inline hr_status pass_gate(const void *args, hr_team *team)
{
    gate *g = *(gate *const *)args;
    pthread_mutex_lock(&g->mu);
    g->entered = true;
    pthread_cond_broadcast(&g->cv);
    while (!g->open)
        pthread_cond_wait(&g->cv, &g->mu);
    pthread_mutex_unlock(&g->mu);
    return HR_OK;
}

static inline void open_gate(gate *g)
{
    pthread_mutex_lock(&g->mu);
    g->open = true;
    pthread_cond_broadcast(&g->cv);
    pthread_mutex_unlock(&g->mu);
}

/* Until the kernel has reached the gate. */
static inline void await_gate(gate *g)
{
    pthread_mutex_lock(&g->mu);
    while (!g->entered)
        pthread_cond_wait(&g->cv, &g->mu);
    pthread_mutex_unlock(&g->mu);
}

static inline void launch_gate(hr_stream *s, gate *g)
{
    OK(hr_launch(s, "gate", pass_gate, &g, sizeof g, NULL, 0));
}

/* Numbers in the order in which kernels ran. */
typedef struct run_log {
    atomic_int n;
    atomic_int value[4096];
} run_log;

struct note_args {
    run_log *log;
    int value;
};

static inline hr_status run_note(const void *args, hr_team *team)
{
    const struct note_args *a = args;
    atomic_store(&a->log->value[atomic_fetch_add(&a->log->n, 1)], a->value);
    return HR_OK;
}

static inline void launch_note(hr_stream *s, run_log *log, int value)
{
    struct note_args a = {log, value};
    OK(hr_launch(s, "note", run_note, &a, sizeof a, NULL, 0));
}

static inline hr_status run_failure(const void *args, hr_team *team)
{
    return hr_fail(HR_ERR_CALLBACK, "broken", "part %d is broken", *(const int *)args);
}

static inline void launch_failure(hr_stream *s, int part)
{
    OK(hr_launch(s, "breaker", run_failure, &part, sizeof part, NULL, 0));
}

static inline hr_device *open_device(const hr_device_opts *opts)
{
    hr_device *dev;
    OK(hr_device_open(test_backend(), opts, &dev));
    hr_device_set_current(dev);
    return dev;
}

static inline hr_stream *new_stream(hr_device *dev, const char *name)
{
    hr_stream *s;
    OK(hr_stream_create(dev, &(hr_stream_opts){HR_INIT(hr_stream_opts), .name = name},
                        &s));
    return s;
}

static inline hr_event *new_event(hr_device *dev)
{
    hr_event *e;
    OK(hr_event_create(dev, &e));
    return e;
}

#endif
