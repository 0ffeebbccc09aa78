/* The CUDA backend: a device is a GPU of the process, a stream and an event are CUDA's own.
 *
 * What is peculiar to it:
 *  - A host kernel is a host function of the stream. The runtime may run those of all streams on one
 *    thread: on hardware they must not wait for each other. Their arguments lie in a ring a stream.
 *  - Everything that waits asks again and again (cuda_wait.c), so that whoever watches over transfers
 *    is asked meanwhile.
 *  - Once the context has died CUDA skips host functions; what lies in the ring is then given up here.
 *  - Times of GPU work come from pairs of events that are read when the stream is empty (cuda_spans.c).
 */
#ifndef HR_CUDA_DEVICE_H
#define HR_CUDA_DEVICE_H
#include <stdatomic.h>

#include "device/cuda/cuda_watch.h"
#include "device/cuda/cudart.h"
#include "device/device_ops.h"
#include "device/kernel_spans.h"

enum { HR__CUDA_RING = 1024, HR__CUDA_IDLE_EVENTS = 256 };

/* CUDA events that wait for their next use; issuing thread. */
typedef struct hr__cuda_events {
    cudaEvent_t at[HR__CUDA_IDLE_EVENTS];
    int n;
    unsigned flags;
} hr__cuda_events;

typedef struct hr__gpu_device {
    hr_device base;
    const hr__cudart *rt;
    int ordinal;
    bool managed; /* memory is the host's too; then there is no pool */
    cudaMemPool_t pool;
    cudaStream_t side; /* for memory and for anchors of time; mostly empty */
    hr__cuda_events plain, timed;
    hr__cuda_fault *fault;
    hr__cuda_watch *watches; /* issuing thread */
} hr__gpu_device;

/* One piece of work in a timeline that is attached; those of a stream in issue order. */
typedef struct hr__cuda_span {
    struct hr__cuda_span *next;
    const char *name;
    hr_mark mark;
    uint64_t node;
    hr_span_kind kind;
    cudaEvent_t begin, end;   /* GPU work; else NULL and */
    int64_t begin_ns, end_ns; /* the host kernel's thread says; 0: it was skipped */
} hr__cuda_span;

typedef struct hr__cuda_spans {
    hr__cuda_span *first, **last, *idle;
    int n;
    hr__open_node open;
    cudaEvent_t anchor; /* NULL: none; reached at anchor_ns */
    int64_t anchor_ns;
} hr__cuda_spans;

/* A host kernel in the ring, or (DONE) room for one. Who gets it from QUEUED has it: CUDA's thread, or who gives it up. */
enum { HR__CALL_DONE, HR__CALL_QUEUED, HR__CALL_RUNS };
typedef struct hr__cuda_call {
    _Alignas(16) unsigned char args[HR_LAUNCH_ARGS];
    hr_stream *s;
    hr_kernel kernel;
    const char *name;
    hr_mark mark;
    hr__cuda_span *span; /* NULL: no timeline */
    atomic_int state;
} hr__cuda_call;

typedef struct hr__gpu_stream {
    hr_stream base;
    cudaStream_t native;
    hr__cuda_call *ring;
    uint64_t head;        /* issuing thread: host kernels queued */
    bool dead;            /* issuing thread: its context is gone */
    hr__cuda_spans spans; /* issuing thread */
    void *slot;
    void (*slot_free)(void *held);
} hr__gpu_stream;

typedef struct hr__gpu_event {
    hr_event base;
    cudaEvent_t native; /* NULL: not recorded yet */
} hr__gpu_event;

static inline hr__gpu_device *hr__cuda_device_of(const hr_stream *s)
{
    return (hr__gpu_device *)s->dev;
}

/* True for success. Else the device fails, with the stream (NULL: none), the call and the runtime's words
 * in its sentence. */
bool hr__cuda_ok(hr_device *dev, const hr_stream *s, cudaError_t e, const char *call);

/* Which GPU the calling thread means by what does not name a stream. */
void hr__cuda_enter(hr__gpu_device *d);

/* cuda_wait.c: ask until it is no longer cudaErrorNotReady. An error counts once it has come three times
 * in a row; one that goes away fails the device all the same. */
typedef cudaError_t (*hr__cuda_ask)(hr_stream *s, void *of);
cudaError_t hr__cuda_await(hr_device *dev, hr_stream *s, hr__cuda_ask ask, void *of,
                           const char *call);
/* Has a kernel left a fault? Then the device fails. */
void hr__cuda_look_for_fault(hr__gpu_device *d);

/* cuda_stream.c */
hr_status hr__cuda_stream_init(hr_stream *s);
void hr__cuda_stream_fini(hr_stream *s);
hr_status hr__cuda_stream_wrap(hr_stream *s, const hr_stream_wrap_opts *o);
void *hr__cuda_stream_native(const hr_stream *s);
void hr__cuda_stream_drain(hr_stream *s);
bool hr__cuda_stream_idle(hr_stream *s);

/* cuda_event.c */
cudaEvent_t hr__cuda_event_take(hr__gpu_device *d,
                                hr__cuda_events *from); /* NULL: failed */
void hr__cuda_event_put(hr__gpu_device *d, hr__cuda_events *to, cudaEvent_t e);
void hr__cuda_events_fini(hr__gpu_device *d, hr__cuda_events *of);
void hr__cuda_event_record(hr_event *e, hr_stream *s);
void hr__cuda_event_wait(hr_event *e, hr_stream *s);
void hr__cuda_event_drain(hr_event *e);
bool hr__cuda_event_reached(hr_event *e);
void hr__cuda_event_fini(hr_event *e);

/* cuda_launch.c */
void hr__cuda_launch(hr_stream *s, const hr__launch *l);
void hr__cuda_launch_native(hr_stream *s, const hr__native_launch *n);
void hr__cuda_copy(hr_stream *s, void *dst, const void *src, size_t bytes);
void hr__cuda_fill(hr_stream *s, const char *name, void *dst, int byte, size_t bytes);
void hr__cuda_give_up(hr__gpu_stream *c); /* host kernels that will never run */

/* cuda_spans.c: NULL without a timeline, or if there is no memory for it. */
hr__cuda_span *hr__cuda_span_host(hr__gpu_stream *c, const hr__launch *l);
hr__cuda_span *hr__cuda_span_begin(hr__gpu_stream *c, const char *name,
                                   hr_span_kind kind);
void hr__cuda_span_end(hr__gpu_stream *c, hr__cuda_span *span);
void hr__cuda_spans_read(hr__gpu_stream *c); /* into the lane; the stream is empty */
void hr__cuda_spans_fini(hr__gpu_stream *c);

/* cuda_memory.c */
hr_status hr__cuda_memory_init(hr__gpu_device *d);
void hr__cuda_memory_fini(hr__gpu_device *d);
void *hr__cuda_slab_reserve(hr_device *dev, size_t bytes);
void hr__cuda_slab_release(hr_device *dev, void *slab, size_t bytes);

#endif
