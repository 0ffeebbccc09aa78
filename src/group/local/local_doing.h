/* local_doing.h: what a member's operation is, for the sentences of those who wait for it in vain.
 * Whoever runs the operation writes, a rank that has timed out reads while it may change; what is
 * stuck does not change, so that reading needs no lock and writing costs a few stores. */
#ifndef HR_LOCAL_DOING_H
#define HR_LOCAL_DOING_H
#include "headrace/group.h"
#include <stdatomic.h>

struct hr__channel;

typedef struct hr__doing {
    _Atomic(const char *) op; /* NULL: none yet */
    atomic_bool inside;       /* begun and not ended */
    _Atomic int64_t bytes;    /* < 0: none to speak of */
    _Atomic uint64_t seq;
    _Atomic uint64_t
        peers; /* of messages: bit i is member i, as far as there are bits */
    _Atomic(const char *) what;
    atomic_int stage, chunk, microbatch;
} hr__doing;

typedef struct hr__entry {
    const char *op;
    uint64_t seq;
    int64_t bytes; /* < 0: none to speak of */
    uint64_t peers;
    const hr_op_label *label;
} hr__entry;

void hr__doing_begin(hr__doing *d, const hr__entry *e);
static inline void hr__doing_bytes(hr__doing *d, int64_t bytes)
{
    atomic_store_explicit(&d->bytes, bytes, memory_order_relaxed);
}
static inline void hr__doing_end(hr__doing *d)
{
    atomic_store_explicit(&d->inside, false, memory_order_release);
}

/* " [send forward, stage 1, chunk 0, microbatch 3]", or nothing. */
typedef struct hr__label_text {
    char text[96];
} hr__label_text;
hr__label_text hr__label_write(const hr_op_label *l);

/* Append where the rank is, over all channels of its job: "; rank 1 is in ...", or that it is in
 * no operation and which one of `ch` was its last. */
void hr__doing_list(char *buf, size_t cap, struct hr__channel *ch, int member);

#endif
