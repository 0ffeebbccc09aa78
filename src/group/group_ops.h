/* What an engine of groups supplies, and the part of a group that all engines share.
 *
 * The contract is the strictest of the engines, so that a plan that passes over threads does
 * not hang over another transport: no tags; per ordered pair, sends meet receives in issue
 * order; a send may block until its receive is posted; collectives come in one order.
 * Fronts (group.c, operations.c) check arguments; engines trust them. */
#ifndef HR_GROUP_OPS_H
#define HR_GROUP_OPS_H
#include "group/group_order.h"
#include "headrace/group.h"
#include <stdatomic.h>

typedef enum hr__op_kind {
    HR__BARRIER,
    HR__ALL_TO_ALL,
    HR__ALL_REDUCE,
    HR__ALL_GATHER,
    HR__REDUCE_SCATTER,
    HR__BROADCAST,
    HR__ROWS_STORE,
    HR__ROWS_LOAD
} hr__op_kind;

/* What the members of a window share: whoever leaves last frees it. */
typedef struct hr__window {
    atomic_int members;
    size_t bytes;
    int64_t offset;
    void *engine; /* the engine's own */
    void *base[]; /* [size of the group] */
} hr__window;

/* One collective, as it was called. `count` is that of the header, per rank where the header
 * says so; a broadcast has bytes as elements of one byte. */
typedef struct hr__call {
    hr__op_kind kind;
    hr_dtype dtype;
    hr_reduce reduce;
    int root; /* rank in the group */
    int64_t count;
    size_t element_bytes;
    const void *send;
    void *recv;
    const int64_t *send_counts, *recv_counts; /* all-to-all only; engines copy them */
    hr_rows
        rows; /* of rows only; `count` is its window_rows, `element_bytes` its row_bytes */
    const hr__window *window;
} hr__call;

typedef struct hr_group_ops {
    const char *name; /* "local" */

    /* Host-side, collective over the parent; *out is NULL for who is not in the list. */
    hr_status (*group_create)(hr_group *parent, const int *ranks, int n,
                              hr_group **out);
    void (*group_destroy)(hr_group *g); /* waits for what is queued */

    /* Each enqueues on `s` and returns at once; buffers are borrowed until it ran. In a job that
     * has failed they do nothing and return OK. `s` may differ from one call to the next:
     * the front has seen to it that the later is ordered after the earlier. */
    hr_status (*collective)(hr_group *g, const hr__call *c, hr_stream *s);
    hr_status (*batch)(hr_group *g, const hr_p2p *ops, int n, hr_stream *s);

    /* From any thread; neither blocks. */
    void (*abort)(hr_group *g, hr_status st);
    hr_status (*status)(hr_group *g);
    /* Likewise: append what of the rank's operations is under way. */
    void (*where)(const hr_group *g, char *buf, size_t cap);

    hr_status (*job_reset)(hr_group *world);

    /* Optional; rows too need them. NULL: no symmetric memory. `join` is
     * host-side and collective; `leave` is not, and nothing that uses it is queued. */
    hr_status (*window_join)(hr_group *g, void *base, size_t bytes, hr__window **out);
    void (*window_leave)(hr__window *w);
    /* Optional, in place of `window_join`, where memory of a device cannot be reached by peers: the
     * engine has the memory itself, base[rank], for whose end it gets window_delete(window, memory). */
    hr_status (*window_make)(hr_group *g, size_t bytes, hr__window **out);
    void (*window_delete)(void *window, void *memory);
    /* Optional, both or neither: for an engine that stands on this one. All members, on their issuing
     * threads, show each other `bytes` each, all[i] is member i's; `op` is for failures. And from any thread:
     * the member has returned from its function, and all that it was in has ended. */
    hr_status (*gather_host)(hr_group *g, const char *op, void *all, size_t bytes);
    bool (*gone)(const hr_group *g, int member);
    /* Optional. NULL: `name`. */
    const char *(*engine)(const hr_group *g);
    /* Optional. NULL: the link is real, the note is "". */
    const char *(*link_note)(const hr_group *g);
} hr_group_ops;

/* An engine's group starts with this. */
struct hr_group {
    const hr_group_ops *ops;
    atomic_int refs;
    int rank, size;
    const int *global; /* [size], the engine's; global ranks of the members */
    bool world;
    hr_device *dev;
    hr__order order;   /* issuing thread */
    hr_op_label label; /* issuing thread: of what is issued next */
};

/* For engines: fill in the shared part; and undo it, which waits for what is queued. Undoing
 * what was never filled in is fine. */
void hr__group_init(hr_group *g, const hr_group_ops *ops, int rank, int size,
                    const int *global, hr_device *dev);
void hr__group_fini(hr_group *g);

/* For fronts: `g` and `s` are there and belong together; and hand a checked call to the engine, in
 * order after the group's last one. */
hr_status hr__group_check_place(const hr_group *g, const hr_stream *s,
                                const char *what);
hr_status hr__group_issue(hr_group *g, const hr__call *c, hr_stream *s);

const char *hr__op_name(hr__op_kind k); /* "all_reduce": literals, for spans */
/* "all_reduce (sum of 3 f32)" */
typedef struct hr__call_text {
    char text[80];
} hr__call_text;
hr__call_text hr__call_describe(const hr__call *c);
/* Both would do the same thing. Counts of an all-to-all are not looked at. */
bool hr__call_same(const hr__call *a, const hr__call *b);

#endif
