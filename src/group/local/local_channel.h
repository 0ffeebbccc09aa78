/* A channel is what the members of one local group share; each member's hr_group is part of it.
 * It lives until all members have released theirs, or the job ends. */
#ifndef HR_LOCAL_CHANNEL_H
#define HR_LOCAL_CHANNEL_H
#include "group/group_ops.h"
#include "group/local/local_doing.h"
#include "group/local/local_job.h"
#include "group/post.h"

typedef struct hr__channel hr__channel;
typedef struct hr__member hr__member;

/* One message of a batch. Written by the issuing thread; when it is a send, `met_ns` is written
 * by the receiver before it counts the message as taken. */
typedef struct hr__msg {
    hr_p2p op;
    struct hr__msg *next; /* same direction and peer, later in the batch */
    bool lead;            /* first of its direction and peer */
    struct hr__msg *todo; /* of a lead receive: the next one to meet a send */
    int64_t sent_ns;      /* of a send: when its batch began */
    int64_t met_ns;       /* of a send: when the batch of its receiver began */
} hr__msg;

struct hr__member {
    hr_group base; /* first: an hr_group* is a member */
    hr__channel *ch;
    int me;
    hr__bell bell;          /* rung for this member alone: messages */
    atomic_int untaken;     /* sends of the running batch that no receiver has taken */
    hr__posts posts;        /* issuing thread */
    hr__msg **tails;        /* [2 * size], NULL between calls; issuing thread */
    const void **inputs;    /* [size]; kernel */
    const hr__post *posted; /* kernel writes, peers read between meetings */
    int64_t arrived_ns;     /* the same: when the kernel began */
    uint64_t issued;        /* issuing thread, checked: collectives */
    uint64_t ops, batches;  /* kernels count; those begun before are in the past */
    uint64_t draws;         /* kernels count: delays */
    hr__doing doing;        /* kernels write */
    hr__doing doing_host;   /* issuing thread writes: group_create(), window_join() */
    const int *asked;       /* group_create(): its list, for the last to arrive */
    int n_asked;
    void *shown; /* window_join(): its part, gather_host(): all; for the last one */
    size_t shown_bytes;
};

struct hr__channel {
    hr__job *job;
    hr__channel *next; /* job->mu */
    uint64_t serial;   /* no other channel of the job has had it */
    uint64_t key; /* of its delays: from the seed, the parent's and its number there */
    uint64_t children; /* for the last to arrive in group_create() */
    int n;
    int *global;         /* [n] */
    hr__member *members; /* [n] */
    hr__meet work;       /* kernels of collectives */
    hr__meet host;       /* group_create() */
    atomic_int touching; /* members that read what another one's kernel has lent */
    atomic_bool left;   /* one has failed and may have gone: nothing is lent any more */
    int64_t last_ns;    /* when the last member of the running operation arrived */
    hr__channel *made;  /* what the last group_create() made */
    hr__window *window; /* what the last window_join() made */
    int64_t windows_end;       /* of the symmetric space so far */
    _Atomic(hr__msg *) *heads; /* [from * n + to]: sends to meet, oldest first */
    pthread_mutex_t
        mail; /* a leaf; buffered: guards the lists of `heads` and their ends */
    hr__msg **mail_tails; /* [from * n + to]; NULL unless buffered */
    int open;             /* job->mu; handles that live */
};

static inline hr__member *hr__member_of(const hr_group *g)
{
    return (hr__member *)(uintptr_t)g;
}

/* Of a batch. */
static inline hr__msg *hr__msgs(const hr__post *p)
{
    return p->msgs;
}

static inline _Atomic(hr__msg *) *hr__head(hr__channel *ch, int from, int to)
{
    return &ch->heads[from * ch->n + to];
}

/* Added to the job; `global` is copied; `key` is for its delays. The handles are made by
 * hr__channel_join(). */
hr_status hr__channel_create(hr__job *job, uint64_t key, const int *global, int n,
                             hr__channel **out);
void hr__channel_destroy(hr__channel *ch); /* not in the job's list any more */
hr_group *hr__channel_join(hr__channel *ch, int me);
void hr__channel_leave(hr__member *m);   /* the last one destroys it */
void hr__channel_ring(hr__channel *ch);  /* all bells */
void hr__channel_clear(hr__channel *ch); /* hr_job_reset(): nothing runs */

/* What an operation names is lent to the other members until its kernel ends. One that fails quits
 * before it ends: then nobody reads what is lent here, and nobody will. False: this member
 * may read nothing, and the failure will come to it as well. Between the two it waits for nothing. */
static inline bool hr__channel_touch(hr__channel *ch)
{
    atomic_fetch_add(&ch->touching, 1);
    return !atomic_load(&ch->left);
}
static inline void hr__channel_untouch(hr__channel *ch) /* after a refusal, too */
{
    atomic_fetch_sub(&ch->touching, 1);
}
void hr__channel_quit(hr__channel *ch);

hr__where hr__channel_where(const hr__channel *ch, const char *op, uint64_t seq,
                            const hr_op_label *label);

/* Meet all members, whichever meeting of the channel it is. The last one runs `last` (may be
 * NULL) before it opens. When the job fails meanwhile, its cause; the caller's own
 * failure is the caller's to report. */
typedef hr_status (*hr__last_fn)(hr__channel *ch, hr__member *m);
hr_status hr__channel_meet(hr__member *m, hr__meet *meet, const hr__entry *entry,
                           hr__last_fn last);
/* The same on the members' issuing threads. */
hr_status hr__channel_meet_host(hr__member *m, const hr__entry *entry,
                                hr__last_fn last);

#endif
