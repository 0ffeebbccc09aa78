/* headrace/trace.h: ranges (what a profiler shows), a recorded timeline with a lane a stream,
 * and the probe through which a test sees every public step of the library.
 *
 * Threads: ranges and the probe belong to the calling thread. A lane has one writer at a time
 * (the thread of its stream); reading a timeline wants its writers idle, that is, after
 * hr_device_synchronize() of every device attached to it.
 */
#ifndef HR_TRACE_H
#define HR_TRACE_H
#include "headrace/base.h"
HR_BEGIN_C

/* Named ranges of the calling thread (Megatron: nvtx_range_push, nvtx_range_pop). */
HR_API void hr_range_push(const char *name);
HR_API void hr_range_pop(void); /* nothing to pop is not an error */
HR_API int hr_range_depth(void);
HR_API void hr_range_enable(bool on); /* of the calling thread; default on */

/* ---- the probe ------------------------------------------------------------------------
 * Called at the public functions, before anything is elided, on the thread that calls them.
 * NULL turns it off; off in all threads costs one load. What `a` and `b` point to is borrowed
 * and may be dead already: compare addresses, do not follow them. */
typedef enum hr_probe_kind {
    HR_PROBE_WAIT,          /* a event, b stream: hr_event_wait */
    HR_PROBE_RECORD,        /* a event, b stream: hr_event_record */
    HR_PROBE_PUSH,          /* text */
    HR_PROBE_POP,           /* */
    HR_PROBE_ENTER,         /* a stream: it becomes current */
    HR_PROBE_EXIT,          /* a stream: it was current */
    HR_PROBE_VIEWLESS,      /* a view, b what was made */
    HR_PROBE_DETACH,        /* a tensor, b what was made */
    HR_PROBE_REQUIRES_GRAD, /* a tensor, value 0 or 1 */
    HR_PROBE_RUN_BACKWARD, /* list: 2*value tensors, first the roots, then their gradients */
    HR_PROBE_RECORD_STREAM, /* a tensor, b stream */
    HR_PROBE_SYMMETRIC,     /* a tensor, value: the answer */
    HR_PROBE_FREE,          /* a tensor whose storage gives up its bytes */
    HR_PROBE_COPY,          /* a destination tensor, b source tensor */
    HR_PROBE_NEW_STREAM,    /* a stream, value: priority */
    HR_PROBE_PRIORITY_RANGE /* value: least, extra: greatest */
} hr_probe_kind;

typedef struct hr_probe_record {
    hr_probe_kind kind;
    const void *a, *b;
    const void *const *list;
    long value, extra;
    const char *text;
} hr_probe_record;

typedef void (*hr_probe_fn)(void *ctx, const hr_probe_record *r);
HR_API void hr_probe_set(hr_probe_fn fn, void *ctx);

/* ---- the timeline --------------------------------------------------------------------- */
typedef enum hr_span_kind {
    HR_SPAN_NODE,     /* a schedule node, from its first launch to its last */
    HR_SPAN_BUSY,     /* one launch running */
    HR_SPAN_TRANSFER, /* communication: arrival of the last member to end of transfer */
    HR_SPAN_PEERS     /* communication: own arrival to arrival of the last member */
} hr_span_kind;

typedef enum hr_span_dir {
    HR_DIR_NONE,
    HR_DIR_FORWARD,
    HR_DIR_BACKWARD,
    HR_DIR_WGRAD
} hr_span_dir;

typedef struct hr_span {
    int64_t begin_ns, end_ns; /* of hr_now_ns() */
    const char *name; /* lives as long as the program: a literal or hr_intern() */
    int16_t layer, microbatch; /* -1: none */
    uint8_t kind, dir;         /* hr_span_kind, hr_span_dir */
} hr_span;

/* The same characters at the same address for ever; for names that are built at run time. */
HR_API const char *hr_intern(const char *text);

typedef struct hr_timeline hr_timeline;
typedef struct hr_lane hr_lane;

/* `spans_per_lane` is fixed memory; what does not fit is dropped and counted. */
HR_API HR_RESULT hr_status hr_timeline_create(size_t spans_per_lane, hr_timeline **out);
HR_API void hr_timeline_destroy(hr_timeline *t);

/* A lane for one stream. `role` is "compute", "communication", "counts", ...; several lanes of
 * a rank may share it. Copied.
 * Owner:   the lane lives as long as the timeline.
 * Threads: any, also while others go through the lanes there are. */
HR_API HR_RESULT hr_status hr_timeline_lane(hr_timeline *t, int rank, const char *role,
                                            hr_lane **out);
HR_API void hr_lane_add(hr_lane *lane, const hr_span *span); /* NULL lane: nothing */
/* Spans go, lanes stay: those of one rank, or of all if `rank` is -1. */
HR_API void hr_timeline_clear(hr_timeline *t, int rank);

HR_API int hr_timeline_lanes(const hr_timeline *t);
HR_API hr_lane *hr_timeline_lane_at(const hr_timeline *t, int i);
HR_API int hr_lane_rank(const hr_lane *lane);
HR_API const char *hr_lane_role(const hr_lane *lane);
/* In order of end; borrowed. */
HR_API const hr_span *hr_lane_spans(const hr_lane *lane, size_t *n);
HR_API size_t hr_timeline_dropped(const hr_timeline *t); /* spans that did not fit */

/* The lanes of one rank as bytes, for a timeline in another process of the same program; and back, into lanes
 * of their own, with `add_ns` added to all times: clocks of two hosts do not begin together.
 *
 * Owner:   *out is the caller's, for free().
 * Errors:  ERR_NOMEM; ERR_PARSE "timeline_pack" for bytes that are none, of which some lanes may be in. */
HR_API HR_RESULT hr_status hr_timeline_pack(const hr_timeline *t, int rank, void **out,
                                            size_t *bytes);
HR_API HR_RESULT hr_status hr_timeline_unpack(hr_timeline *t, const void *bytes,
                                              size_t n, int64_t add_ns);

/* How much of a rank's communication ran while it computed, over all its spans. Waiting for peers
 * is no communication, and neither is arithmetic on a communication stream. */
typedef struct hr_overlap {
    int64_t comm_ns;    /* union of TRANSFER spans on "communication" lanes */
    int64_t hidden_ns;  /* the part of it during which a "compute" lane is BUSY */
    int64_t compute_ns; /* union of BUSY spans on "compute" lanes */
    int64_t peers_ns;   /* union of PEERS spans on "communication" lanes */
    int64_t span_ns;    /* first begin to last end of anything */
} hr_overlap;
HR_API HR_RESULT hr_status hr_timeline_overlap(const hr_timeline *t, int rank,
                                               hr_overlap *out);

/* Chrome trace events (opens in Perfetto and chrome://tracing): a process a rank, a thread a
 * lane, times in microseconds from the first span. `note` (may be NULL) goes into the
 * metadata, for instance that the link is imitated.
 * Errors: ERR_IO; see hr_file_begin(). */
HR_API HR_RESULT hr_status hr_timeline_write_json(const hr_timeline *t,
                                                  const char *path, const char *note);

HR_END_C
#endif
