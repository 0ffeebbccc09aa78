/* The host backend: a device is memory of the process and a team of threads, a stream is a
 * thread with a ring of launches, an event is a stream's counter and a value of it.
 *
 * A stream counts what it has queued (`queued`, the issuing thread writes) and what it has
 * worked off (`done`, its thread writes). Entry n of the ring is at n modulo RING. Both
 * counters live in the device and go on when a stream's id is used again, so that an event
 * outlives its stream: its value was reached when the stream went.
 *
 *           done          queued
 *     ......|#############|......      # written by the issuing thread, read by the stream's
 */
#ifndef HR_HOST_DEVICE_H
#define HR_HOST_DEVICE_H
#include <pthread.h>

#include "device/device_ops.h"
#include "device/host/host_counter.h"
#include "device/kernel_spans.h"

enum { HR__RING = 1024 };

typedef struct hr__host_wait {
    hr__counter *counter;
    uint64_t value;
} hr__host_wait;

/* A launch; without a kernel a wait; without a counter the stream's end. Entries travel from
 * core to core by cache lines: what most of them use lies in the first one. */
typedef struct hr__entry {
    _Alignas(64) hr_kernel kernel;
    const char *name;
    hr_mark mark;
    uint64_t node;
    union {
        hr__host_wait wait;
        _Alignas(16) unsigned char args[HR_LAUNCH_ARGS];
    };
} hr__entry;

typedef struct hr__host_lane {
    hr__counter queued, done;
} hr__host_lane;

typedef struct hr__host_device {
    hr_device base;
    hr_team *team;                       /* NULL: one core */
    hr__host_lane lanes[HR_MAX_STREAMS]; /* by id of stream */
} hr__host_device;

typedef struct hr__foreign hr__foreign;

typedef struct hr__host_stream {
    hr_stream base;
    hr__foreign *foreign; /* NULL: a thread of its own, `thread` */
    hr__counter *queued, *done;
    hr__entry *ring;
    hr_team *team;
    pthread_t thread;
    uint64_t head;      /* issuing thread: entries queued */
    uint64_t done_seen; /* issuing thread: `done` at the last look */
    /* Its thread while it works; the issuing thread while `done` is `head`. */
    hr__open_node open;
} hr__host_stream;

typedef struct hr__host_event {
    hr_event base;
    hr__host_wait point;
} hr__host_event;

/* host_stream.c */
hr_status hr__host_stream_init(hr_stream *s);
void hr__host_stream_fini(hr_stream *s);
void hr__host_stream_drain(hr_stream *s);
bool hr__host_stream_idle(hr_stream *s);
bool hr__host_stream_awaited(const hr_stream *s);
void hr__host_event_record(hr_event *e, hr_stream *s);
void hr__host_event_wait(hr_event *e, hr_stream *s);
void hr__host_event_drain(hr_event *e);
bool hr__host_event_reached(hr_event *e);
void hr__host_launch(hr_stream *s, const hr__launch *l);
hr_status hr__host_ring_init(hr_stream *s);
void hr__host_mark(hr__host_stream *h); /* queue an entry that does nothing */

/* host_worker.c: what the stream's thread does. */
void *hr__host_worker(void *stream);
/* Work off entry `at`; false: it was the end of the stream. */
bool hr__host_work(hr__host_stream *s, uint64_t at);

/* host_team.c. NULL, which is a team of one, if there are fewer cores than two. */
hr_status hr__team_create(int cores, int rank, hr_team **out);
void hr__team_destroy(hr_team *team);
/* The threads that it has started so far; while no launch runs. */
const pthread_t *hr__team_helpers(const hr_team *team, int *n);

/* host_bind.c */
hr_status hr__host_bind(hr_device *dev, const cpu_set_t *cpus);

#endif
