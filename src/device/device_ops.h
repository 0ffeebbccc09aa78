/* device_ops.h: what a device backend supplies, and the part of each object that the fronts
 * own. Internal to src/device. Fronts check arguments, keep clocks, memory and failures;
 * backends trust them and only queue, run and wait. Start reading at host/host_device.c.
 *
 * A backend's objects start with the struct of the front: hr_device, hr_stream, hr_event. The
 * front allocates `*_size` zeroed bytes (a device: at 64) and fills its part before `*_init`.
 */
#ifndef HR_DEVICE_OPS_H
#define HR_DEVICE_OPS_H
#include "device/device_fail.h"
#include "device/memory_pool.h"
#include "device/native_launch.h"
#include "device/order_clock.h"
#include "device/stream_check.h"
#include <sched.h>

/* One launch as the backend sees it; borrowed for the call. */
typedef struct hr__launch {
    const char *name;
    hr_kernel kernel;
    const void *args;
    size_t arg_bytes;
    hr_mark mark;  /* name NULL: issued under no mark */
    uint64_t node; /* which hr_span_begin() of the stream it belongs to; 0: none */
} hr__launch;

typedef struct hr_device_ops {
    const char *name;    /* the word hr_device_open() takes */
    int least, greatest; /* priorities, unless device_init sets those of the device */
    size_t device_size, stream_size, event_size;

    hr_status (*device_init)(hr_device *dev);
    void (*device_fini)(hr_device *dev); /* all streams are gone */

    /* Streams run in order. `drain` blocks until all that is queued has run; once the device
     * has failed, what is queued counts as run without running. */
    hr_status (*stream_init)(hr_stream *s);
    void (*stream_fini)(hr_stream *s); /* drained */
    void (*stream_drain)(hr_stream *s);
    bool (*stream_idle)(hr_stream *s);
    /* Optional. NULL: nobody can tell. Called by what runs on `s`: does anybody wait now, another
     * stream or a thread, for the stream to get past it? */
    bool (*stream_awaited)(const hr_stream *s);

    /* Optional, both or neither. NULL: there are no foreign streams. In place of stream_init. */
    hr_status (*stream_wrap)(hr_stream *s, const hr_stream_wrap_opts *o);
    void *(*stream_native)(const hr_stream *s);

    /* An event that the front has found recorded. `wait` enqueues on s. */
    void (*event_record)(hr_event *e, hr_stream *s);
    void (*event_wait)(hr_event *e, hr_stream *s);
    void (*event_drain)(hr_event *e);
    bool (*event_reached)(hr_event *e);
    /* Optional. NULL: it holds nothing. Waits already issued stay valid. */
    void (*event_fini)(hr_event *e);

    /* Each enqueues on s and returns at once, or blocks while the queue is full. */
    void (*launch)(hr_stream *s, const hr__launch *l);
    void (*copy)(hr_stream *s, void *dst, const void *src, size_t bytes);
    void (*fill)(hr_stream *s, const char *name, void *dst, int byte, size_t bytes);
    /* Optional. NULL: there is no other work than host kernels. See native_launch.h. */
    void (*launch_native)(hr_stream *s, const hr__native_launch *n);

    /* Whole slabs of memory, 64-byte aligned at least; NULL when there is none. */
    void *(*slab_reserve)(hr_device *dev, size_t bytes);
    void (*slab_release)(hr_device *dev, void *slab, size_t bytes);

    /* Optional. NULL: its name says all. In a few words, "CUDA 13.0, ...". */
    void (*describe)(hr_device *dev, char *out, size_t cap);
    /* Optional. NULL: there is one, 0. */
    int (*ordinal)(const hr_device *dev);
    /* Optional. NULL: it is on no PCI bus. "0000:3b:00.0" */
    hr_status (*pci_bus_id)(hr_device *dev, char *out, size_t cap);
    /* Optional. NULL: it has no threads. All of them keep to `cpus`, or none; streams are empty. */
    hr_status (*bind)(hr_device *dev, const cpu_set_t *cpus);
} hr_device_ops;

struct hr_device {
    const hr_device_ops *ops; /* this and the next line: set at open, then constant */
    int rank, cores;
    int least, greatest;   /* priorities */
    bool apart;            /* host kernels cannot touch its memory */
    bool blocking;         /* each launch has run before hr_launch() returns */
    hr_timeline *timeline; /* issuing thread */
    uint64_t nodes;        /* issuing thread; numbers of hr_span_begin() */
    uint64_t events_made;  /* issuing thread; numbers of events */
    hr__clock host;        /* issuing thread: what it has waited for */
    hr__fail fail;         /* any thread; its own lock */
    hr__pool pool;         /* issuing thread */
    hr__check *check;      /* issuing thread; NULL: off */
    hr_event *events;      /* issuing thread: all that live */
    hr_event *idle_events; /* issuing thread: for the next ones */
    int n_idle_events;
    hr_stream
        *streams[HR_MAX_STREAMS]; /* issuing thread; by id, 0 is the default one */
    hr_stream *comm; /* issuing thread; one of those, see comm_slot.h; NULL: none */

    /* Launches issued by all past streams of an id: a new one counts on from there, so that
     * a position of a dead stream always lies behind `host`. */
    uint64_t retired[HR_MAX_STREAMS];
};

struct hr_stream {
    hr_device *dev;
    int id, priority;
    char name[32];
    hr_lane *lane; /* set while the stream is empty; its thread reads it in a launch */
    bool foreign;  /* set at wrap: work that we do not see may lie between ours */
    uint64_t issued; /* issuing thread; position of the last launch */
    hr__clock after; /* issuing thread: what waits ordered before the next launch */
};

struct hr_event {
    hr_device *dev;
    hr_event *prev, *next; /* dev->events */
    uint64_t serial;       /* no other event of the device has had it */
    bool recorded;
    const hr_stream *on; /* that recorded it; for comparison only */
    hr__clock clock;     /* all that comes before the record */
};

extern const hr_device_ops hr__host_ops;
extern const hr_device_ops hr__cuda_ops; /* where the build has it: HR_WITH_CUDA */

/* Make a stream or an event without the probe seeing it. */
hr_status hr__stream_new(hr_device *dev, int priority, const char *name,
                         hr_stream **out);
hr_status hr__stream_wrap(hr_device *dev, const char *name,
                          const hr_stream_wrap_opts *foreign, hr_stream **out);
hr_status hr__event_new(hr_device *dev, hr_event **out);
void hr__events_free(hr_device *dev); /* at its close */

/* All that comes before the next launch of `s`, its own launches included. `out` has zeros, or held
 * a clock before. */
static inline void hr__stream_clock_into(const hr_stream *s, hr__clock *out)
{
    const uint64_t *after = s->after.at, *host = s->dev->host.at;
    for (int i = 0, n = hr__clock_ids(); i < n; i++)
        out->at[i] = after[i] > host[i] ? after[i] : host[i];
    out->at[s->id] = s->issued;
}

static inline hr__clock hr__stream_clock(const hr_stream *s)
{
    hr__clock c = {{0}};
    hr__stream_clock_into(s, &c);
    return c;
}

/* Wait until all streams are empty. Joins the host clock. */
void hr__device_drain(hr_device *dev);

/* Give `s` its lane of the device's timeline, or none. */
hr_status hr__stream_attach(hr_stream *s);

/* For `fill`: by a host kernel that is launched on `s`. */
void hr__fill_by_kernel(hr_stream *s, const char *name, void *dst, int byte,
                        size_t bytes);

/* The mark under which the calling thread launches on `s`. */
void hr__mark_fill(hr_stream *s, hr__launch *l);
/* That mark; if none is open, the one that ended last, and false. */
bool hr__mark_recent(const hr_stream *s, hr_mark *m);
/* May the calling thread still launch into this node of `s`? */
bool hr__mark_is_open(const hr_stream *s, uint64_t node);

/* For the close of what may be current. */
void hr__current_forget_device(const hr_device *dev);
void hr__current_forget_stream(const hr_stream *s);

#endif
