/* moe/zero_copy_buffer.h: the buffers of the symmetric dispatcher as objects with a state, and what one
 * dispatcher has of them. The states are those of the issuing thread: what they say holds for work
 * that is issued from here on. The story is in headrace/moe.h. */
#ifndef HR_ZERO_COPY_BUFFER_H
#define HR_ZERO_COPY_BUFFER_H
#include "headrace/moe.h"
#include "moe/moe_kernels.h"

typedef enum hr__buffer_state {
    HR__FREE,
    HR__RESERVED,
    HR__LANDING,  /* peers store */
    HR__LANDED,   /* a gradient is there */
    HR__RECEIVED, /* tokens are there */
    HR__STAGED,   /* something to be sent is there */
    HR__INFLIGHT  /* peers load */
} hr__buffer_state;

typedef struct hr__buffer {
    char name[8]; /* "F", "B", "P3" */
    hr__buffer_state state;
    hr_window *window;
    hr_tensor *rows, *weights; /* [R,C], [R] f32; F has no weights */
    size_t weights_at;         /* where they begin in the window */
    int idle_claims;           /* on the storage, when only this object holds it */
    const void *owner;         /* the route that staged something; to compare with */
    hr_event *last;            /* after what used it last */
    struct hr__buffer *next;   /* of the P */
} hr__buffer;

typedef struct hr__zero_copy {
    hr_group *g; /* of the dispatcher */
    int64_t capacity, width, max_tokens;
    hr_dtype type;  /* of rows */
    double per_row; /* capacity factor of one row */
    bool poison;
    hr__buffer *f, *b, *p; /* p: a list, oldest first */
    int n_p;
    /* In device memory of the counts stream; counts of the rank's experts follow. */
    hr__overflow_record *overflow;
} hr__zero_copy;

/* Makes F, B and the record. Collective. `opts` are checked. */
hr_status hr__zero_copy_create(const hr_dispatcher_opts *opts, hr__zero_copy **out);
void hr__zero_copy_destroy(hr__zero_copy *zc); /* NULL is fine */
void hr__zero_copy_reset(hr__zero_copy *zc);   /* nothing is under way: all are FREE */

/* A P that nobody holds any more, or a new one (collective), RESERVED. */
hr_status hr__buffer_reserve(hr__zero_copy *zc, hr__buffer **out);
void hr__buffer_unreserve(
    hr__buffer *b); /* of a route that comes to nothing; NULL is fine */

/* `b` is in `from`, and is in `to` from here on; what the current stream is given next comes after what
 * used it last. Else ERR_STATE "buffer_state"; `call` names who asks. */
hr_status hr__buffer_step(hr__buffer *b, hr__buffer_state from, hr__buffer_state to,
                          const char *call);
/* The current stream has been given all that this use takes. */
hr_status hr__buffer_used(hr__buffer *b);
/* The same, its contents being consumed: poison, and FREE. */
hr_status hr__buffer_consumed(const hr__zero_copy *zc, hr__buffer *b, const char *call);

bool hr__buffer_holds(const hr__buffer *b, const hr_tensor *t); /* `t` lies in it */

/* Launch on the current stream (that of the counts): the limits of my experts' rows from counts
 * [P][E], and what overflows into the record. */
hr_status hr__limits_launch(const hr_dispatcher *d, const int32_t *counts,
                            hr_tensor *limits);

#endif
