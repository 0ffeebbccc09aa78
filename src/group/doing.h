/* doing.h: what a member's operation is, for the sentences of those who wait for it in vain, and the
 * words of such sentences. Whoever runs the operation writes, a rank that has timed out reads while
 * it may change; what is stuck does not change, so that reading needs no lock and writing costs a few
 * stores. */
#ifndef HR_DOING_H
#define HR_DOING_H
#include "headrace/group.h"
#include <stdatomic.h>

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
/* One that failed is not over: it is where the rank got stuck. */
static inline void hr__doing_end(hr__doing *d, hr_status st)
{
    if (st >= 0)
        atomic_store_explicit(&d->inside, false, memory_order_release);
}

/* " [send forward, stage 1, chunk 0, microbatch 3]", or nothing. */
typedef struct hr__label_text {
    char text[96];
} hr__label_text;
hr__label_text hr__label_write(const hr_op_label *l);

/* "0,2,5"; ends in ",..." where it does not fit. */
void hr__list_rank(char *buf, size_t cap, int rank);
/* "0 (64 bytes), 2 (8 bytes)", likewise. */
void hr__list_missing(char *buf, size_t cap, int rank, int64_t bytes);

/* "all_reduce 3 of the group of ranks 0,1,2 [gradients, stage 1]"; the label may be NULL. `global`:
 * the global ranks of the n members. */
typedef struct hr__where {
    char text[256];
} hr__where;
hr__where hr__where_write(const int *global, int n, const char *op, uint64_t seq,
                          const hr_op_label *label);

/* Append "; rank 1 is in ...", what `d` says of a member of that group. */
void hr__doing_write(char *buf, size_t cap, const int *global, int n,
                     const hr__doing *d, int rank);
/* Append that the rank is in no operation, and which one was its last. */
void hr__doing_write_last(char *buf, size_t cap, const hr__doing *d, int rank);

#endif
