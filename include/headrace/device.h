/* headrace/device.h: devices, streams, events, launches, stream-ordered memory.
 *
 * The calling thread only issues; work runs in issue order within a stream, and in no order
 * across streams unless an event orders it. These are CUDA's rules and every backend keeps
 * them. Backends: "host" (a stream is a thread with a queue), "cuda" (where build and machine have it).
 *
 *     hr_device_open("host", NULL, &dev);
 *     hr_device_set_current(dev);
 *     hr_stream_create(dev, &(hr_stream_opts){HR_INIT(hr_stream_opts), .name = "comm"}, &comm);
 *     hr_launch(hr_stream_current(), "fill", fill, &args, sizeof args, NULL, 0);
 *     hr_event_record(e, hr_stream_current());
 *     hr_event_wait(e, comm);             // what is queued on comm from here on
 *     hr_launch(comm, "send", ...);
 *     if (hr_stream_synchronize(comm) < 0)
 *         puts(hr_last_error());
 *
 * Failure: the domain is the device (one a rank). The first failure on whatever stream stores
 * one cause; later launches are skipped, events still complete. Launch, record and wait
 * return OK all the same; synchronise, query and hr_device_status() return the cause and copy
 * its sentence to the calling thread, until hr_device_reset().
 *
 * Threads: a device belongs to one issuing thread at a time, and so do its streams and events.
 */
#ifndef HR_DEVICE_H
#define HR_DEVICE_H
#include "headrace/base.h"
#include "headrace/trace.h"
HR_BEGIN_C

typedef struct hr_device hr_device;
typedef struct hr_stream hr_stream;
typedef struct hr_event hr_event;

enum { HR_MAX_STREAMS = 32, HR_LAUNCH_ARGS = 128 };

/* ---- device --------------------------------------------------------------------------- */
typedef struct hr_device_opts {
    size_t size;
    int rank;      /* for log, errors and lanes; default 0 */
    int cores;     /* how many a launch may use (its team); 0: 1 */
    size_t memory; /* bytes that may be live at once; 0: no limit (ERR_NOMEM past it) */
    /* Each launch has run before hr_launch() returns; also by HEADRACE_LAUNCH_BLOCKING=1. */
    int launch_blocking;
    /* Fill freed and fresh memory with bytes of 0xff, which are NaN as floats: -1 never, 1 always,
     * 0: in debug builds. */
    int poison;
    /* The stream checker; also by HEADRACE_CHECK=streams in the environment, a list of words with
     * commas between them. */
    int check;
} hr_device_opts;

/* Errors: ERR_UNSUPPORTED for a backend that is off, with the reason; ERR_INVALID for a name
 * that is none, and for a word in HEADRACE_CHECK that is no check; ERR_NOMEM, ERR_DEVICE. */
HR_API HR_RESULT hr_status hr_device_open(const char *backend,
                                          const hr_device_opts *opts, hr_device **out);

/* Blocks until its streams are empty. Streams and events that still live go with it; memory
 * that still lives is reported to the log (HR_LOG_WARN) and released. NULL is fine. */
HR_API void hr_device_close(hr_device *dev);

/* Of the calling thread; its default stream becomes current, too. NULL: none. */
HR_API void hr_device_set_current(hr_device *dev);
HR_API hr_device *hr_device_current(void);
HR_API const char *hr_device_backend(const hr_device *dev);
/* The same in some more words, such as versions: "CUDA on test double", "host". */
HR_API void hr_device_describe(hr_device *dev, char *out, size_t cap);
/* Which of the GPUs that the process sees, as CUDA counts them; 0 of "host". */
HR_API int hr_device_ordinal(const hr_device *dev);
HR_API int hr_device_rank(const hr_device *dev);
HR_API int hr_device_cores(const hr_device *dev);
HR_API hr_stream *hr_device_default_stream(hr_device *dev);

/* Numerically lower is more urgent; host: 0 and -5, as on most CUDA devices. */
HR_API void hr_device_priority_range(hr_device *dev, int *least, int *greatest);

/* Blocks until all its streams are empty. Returns the device's cause of failure, if any. */
HR_API HR_RESULT hr_status hr_device_synchronize(hr_device *dev);
HR_API HR_RESULT hr_status hr_device_status(hr_device *dev); /* at once */

/* Store a failure as the device's cause, unless it has one; the sentence is the calling
 * thread's last error. From any thread. Runs the hooks below once. */
HR_API void hr_device_fail(hr_device *dev, hr_status st);
/* Called once when the device fails, on the failing thread; must not block. ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_device_on_fail(hr_device *dev, void (*fn)(void *ctx),
                                             void *ctx);
HR_API void hr_device_off_fail(hr_device *dev, void (*fn)(void *ctx), void *ctx);
/* Blocks until its streams are empty, then forgets the failure. */
HR_API void hr_device_reset(hr_device *dev);

/* Lanes for all present and later streams of the device; NULL detaches. Blocks until its
 * streams are empty. Without a timeline a launch takes no time stamp. */
HR_API HR_RESULT hr_status hr_device_set_timeline(hr_device *dev, hr_timeline *t);

/* ---- streams -------------------------------------------------------------------------- */
typedef struct hr_stream_opts {
    size_t size;
    int priority; /* clamped to the device's range */
    /* Role of its lane: "compute", "communication", ...; copied (31 characters); NULL: "stream". */
    const char *name;
} hr_stream_opts;

/* Errors: ERR_INVALID past HR_MAX_STREAMS of a device, ERR_NOMEM, ERR_DEVICE. */
HR_API HR_RESULT hr_status hr_stream_create(hr_device *dev, const hr_stream_opts *opts,
                                            hr_stream **out);
/* Blocks until it is empty. NULL is fine. */
HR_API void hr_stream_destroy(hr_stream *s);
HR_API hr_device *hr_stream_device(const hr_stream *s);
HR_API const char *hr_stream_name(const hr_stream *s);
HR_API int hr_stream_priority(const hr_stream *s);

/* The calling thread's current stream: the current device's default one unless entered. */
HR_API hr_stream *hr_stream_current(void);
/* Make `s`, and with it its device, current (NULL leaves the current ones); exit makes `previous`
 * current again. */
HR_API void hr_stream_enter(hr_stream *s, hr_stream **previous);
HR_API void hr_stream_exit(hr_stream *s, hr_stream *previous);

/* Blocks until it is empty; query returns PENDING while work is left. Both return the device's
 * cause of failure, if any. */
HR_API HR_RESULT hr_status hr_stream_synchronize(hr_stream *s);
HR_API HR_RESULT hr_status hr_stream_query(hr_stream *s);

/* ---- events --------------------------------------------------------------------------- */
HR_API HR_RESULT hr_status hr_event_create(hr_device *dev, hr_event **out);
/* Waits already issued stay valid. NULL is fine. */
HR_API void hr_event_destroy(hr_event *e);

/* The event stands for all that is queued on `s` now. Enqueues nothing. */
HR_API HR_RESULT hr_status hr_event_record(hr_event *e, hr_stream *s);

/* Work queued on `s` from now on waits for the record that is current at this call; for
 * nothing if there was none. ERR_INVALID if they belong to different devices. */
HR_API HR_RESULT hr_status hr_event_wait(hr_event *e, hr_stream *s);
/* Blocks until it is reached; query returns PENDING until then. */
HR_API HR_RESULT hr_status hr_event_synchronize(hr_event *e);
HR_API HR_RESULT hr_status hr_event_query(hr_event *e);

/* ---- launches ------------------------------------------------------------------------- */
/* The threads that one launch may use: part(arg, i) for every i below n, in any order, each
 * once, back when all are done. The work is cut by `n`, never by the size of the team, so
 * that bits do not depend on it. Where parts fail, the failure of the lowest is returned. */
typedef struct hr_team hr_team;
typedef hr_status (*hr_team_part)(void *arg, int i);
HR_API HR_RESULT hr_status hr_team_run(hr_team *team, int n, hr_team_part part,
                                       void *arg);

typedef hr_status (*hr_kernel)(const void *args, hr_team *team);

typedef enum hr_access { HR_READ = 1, HR_WRITE = 2, HR_READ_WRITE = 3 } hr_access;
typedef struct hr_operand {
    const void *ptr;
    size_t bytes;
    hr_access access;
} hr_operand;

/* Enqueue `kernel(args)`, a function of the host, on `s`. `args` are copied (at most HR_LAUNCH_ARGS bytes, 16-aligned
 * when read); `name` is a literal or interned. `operands` say which memory the work touches:
 * for the stream checker, which costs nothing when it is off (hr_device_opts.check). It finds
 * what no event orders, uses after a free and frees that forget a stream; the first finding
 * goes to the log and fails the device: ERR_STATE "unordered", "stale_event", "unordered_alloc",
 * "use_after_free", "unguarded_free".
 * Blocks while the queue is full.
 * A kernel that returns an error fails the device with that thread's hr_last_error().
 * Errors: ERR_INVALID; ERR_UNSUPPORTED "host_kernel" where an operand is memory that the host cannot
 * reach (CUDA, unless it is managed). */
HR_API HR_RESULT hr_status hr_launch(hr_stream *s, const char *name, hr_kernel kernel,
                                     const void *args, size_t arg_bytes,
                                     const hr_operand *operands, int n_operands);

/* Bytes from `src` to `dst`, and the same byte everywhere. */
HR_API HR_RESULT hr_status hr_copy(hr_stream *s, void *dst, const void *src,
                                   size_t bytes);
HR_API HR_RESULT hr_status hr_fill(hr_stream *s, void *dst, int byte, size_t bytes);

/* ---- streams of other engines ------------------------------------------------------------
 * A stream that somebody else made, and puts work on, joins a device. Launches, copies, waits and
 * records lie between that work in the order in which they were issued; so a record there waits for
 * it, and it waits for what was issued before it, waits of ours included. */
typedef struct hr_stream_wrap_opts {
    size_t size;
    const char *name; /* as in hr_stream_opts; NULL "foreign" */
    void *native;     /* for hr_stream_native(); CUDA: the cudaStream_t itself */
    /* Host devices: see that fn(arg) runs once, after all that the executor was given before and
     * before what it is given later; on any thread, before post returns too. It may block on an
     * event. Negative, with hr_fail() saying why, if it takes no more: fn is not called then, and the
     * device fails. */
    hr_status (*post)(void *ctx, void (*fn)(void *arg), void *arg);
    void *ctx;
} hr_stream_wrap_opts;

/* Owner:   the foreign stream stays its owner's and must outlive *out, whose hr_stream_destroy()
 *          blocks until what is on it has run.
 * Errors:  ERR_INVALID "no_executor", and those of hr_stream_create(); ERR_UNSUPPORTED. */
HR_API HR_RESULT hr_status hr_stream_wrap(hr_device *dev,
                                          const hr_stream_wrap_opts *opts,
                                          hr_stream **out);
HR_API void *hr_stream_native(const hr_stream *s); /* NULL: none */

/* Declare work that the caller has put on `s` by other means, just now: `operands` for the stream
 * checker, as in hr_launch(); and memory that is freed later is handed out again only behind it.
 * Errors: ERR_INVALID. */
HR_API HR_RESULT hr_status hr_stream_touch(hr_stream *s, const char *name,
                                           const hr_operand *operands, int n_operands);

/* ---- spans: what the timeline calls a node ---------------------------------------------
 * Between begin and end, launches on `s` belong to the node; the span runs from the first to
 * the last of them. The mark holds for the calling thread's launches until the matching end.
 * Free when no timeline is attached. */
typedef struct hr_mark {
    const char *name; /* literal or interned; NULL: "node" */
    int layer, microbatch;
    hr_span_dir dir;
} hr_mark;
HR_API void hr_span_begin(hr_stream *s, const hr_mark *m);
HR_API void hr_span_end(hr_stream *s);
/* Layer and microbatch that later marks of this thread take where theirs are -1. */
HR_API void hr_mark_set(int layer, int microbatch);
HR_API void hr_mark_get(int *layer, int *microbatch);
/* For kernels: the lane of the stream that runs the calling thread; NULL without timeline. */
HR_API hr_lane *hr_kernel_lane(void);

/* ---- stream-ordered memory --------------------------------------------------------------
 * Addresses, live and peak bytes follow from issue order alone: a block is handed out again
 * only where events already issued order every use of it before the new one. Blocks are
 * 64-byte aligned. */

/* Memory for work queued on `s` from now on. `bytes` 0 gives NULL. ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_mem_alloc(hr_stream *s, size_t bytes, void **out);
/* `ptr` is used on `s` too: the block waits for what is queued there when it is freed. */
HR_API void hr_mem_record_stream(void *ptr, hr_stream *s);
/* Free after what is queued on `s` now (and on every recorded stream). NULL is fine. `s` NULL:
 * after what is queued on the stream of its alloc. */
HR_API void hr_mem_free(void *ptr, hr_stream *s);

/* What the stream checker calls these bytes; copied (31 characters). Gone with the block. Does
 * nothing unless the current device is checked. */
HR_API void hr_mem_set_name(const void *ptr, size_t bytes, const char *name);
/* Foreign memory went back to its allocator, whose business the order of its next use is: the
 * stream checker forgets what it knew. Of no use for blocks of hr_mem_alloc(). */
HR_API void hr_mem_forget(hr_device *dev, const void *ptr, size_t bytes);

typedef struct hr_mem_stats {
    size_t live_bytes, live_blocks; /* allocated and not freed */
    size_t peak_bytes;              /* of live_bytes, since the last reset */
    size_t reserved_bytes;          /* taken from the system */
} hr_mem_stats;
HR_API void hr_mem_get_stats(hr_device *dev, hr_mem_stats *out);
HR_API void hr_mem_reset_peak(hr_device *dev);

HR_END_C
#endif
