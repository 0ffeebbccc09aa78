/* post.h: an operation as it was issued, until its kernel is through. Each member of a group has a ring
 * of them, so that in steady state issuing allocates nothing. */
#ifndef HR_POST_H
#define HR_POST_H
#include "group/group_ops.h"

typedef struct hr__post {
    struct hr__post *next;   /* ring of a member's posts, oldest after newest */
    atomic_bool busy;        /* set at issue, cleared when the kernel is through */
    hr_group *of;            /* the member's */
    const hr_stream *stream; /* that it was issued on */
    hr_op_label label;       /* the group's at issue */
    hr__call call;           /* its count arrays are those below */
    int64_t *send_counts, *recv_counts; /* [size], elements */
    void *msgs;                         /* [cap], n in use: a batch; the engine's own */
    hr_operand *operands;               /* [cap] */
    int n, cap;
} hr__post;

/* The ring; all zeros is an empty one. Issuing thread. */
typedef struct hr__posts {
    hr__post *newest;
} hr__posts;

void hr__posts_free(hr__posts *r);
void hr__posts_clear(hr__posts *r); /* a reset: the kernels of some were skipped */

/* A post for the next operation of `of` on `s`; grows the ring if all are in use. */
hr_status hr__post_take(hr__posts *r, hr_group *of, const hr_stream *s, hr__post **out);
/* Room for a batch of `n` messages, each `msg_bytes` of the engine's own. */
hr_status hr__post_reserve(hr__post *p, int n, size_t msg_bytes);

/* Note the collective, its counts copied, and launch it. */
hr_status hr__post_collective(hr__post *p, const hr__call *c, hr_kernel kernel,
                              hr_stream *s);
/* The same for the batch of `ops`, whose messages the engine has noted. */
hr_status hr__post_batch(hr__post *p, const char *name, const hr_p2p *ops, int n,
                         hr_kernel kernel, hr_stream *s);
static inline void hr__post_done(hr__post *p)
{
    atomic_store_explicit(&p->busy, false, memory_order_release);
}

#endif
