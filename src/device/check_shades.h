/* check_shades.h: the uses of memory that a later use could still conflict with, by bytes.
 *
 * A shade is a run of bytes with one history: the last write, and the last read of each stream
 * since. That is all a later use has to be compared with: where every write so far was ordered
 * after what came before it, who is ordered after the last write is ordered after the rest.
 */
#ifndef HR_CHECK_SHADES_H
#define HR_CHECK_SHADES_H
#include "device/order_clock.h"

/* One use of memory, by a launch, an alloc or a free. Names outlive their stream. */
typedef struct hr__use {
    int id;            /* of the stream */
    uint64_t position; /* on it; 0: no use */
    hr_access kind;
    bool behind; /* the mark's node was over: it is what the thread issued last */
    const char *launch, *stream; /* launch NULL: none */
    hr_mark mark;                /* name NULL: none */
} hr__use;

typedef struct hr__shade {
    const char *begin, *end;
    hr__use write;
    hr__use *reads;
    int n_reads, room;
} hr__shade;

/* By address, without overlap. All zero is empty. */
typedef struct hr__shades {
    hr__shade *at;
    size_t n, room;
    size_t crowded; /* size at which settling pays again */
} hr__shades;

void hr__shades_fini(hr__shades *set);

/* The first of `n` runs by address, without overlap, that ends behind `p`; `end_of` tells where
 * the i-th of `runs` ends. */
static inline size_t hr__first_behind(const void *runs, size_t n, const char *p,
                                      const char *(*end_of)(const void *runs, size_t i))
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (end_of(runs, mid) > p)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* Remember `use` of begin..end. Without memory for it, it is forgotten. */
void hr__shades_add(hr__shades *set, const char *begin, const char *end,
                    const hr__use *use);
/* Forget all uses of begin..end. */
void hr__shades_clear(hr__shades *set, const char *begin, const char *end);
/* A use of begin..end that conflicts with one of this kind on the stream `id` (-1: of no
 * stream), and that `now` does not order before it; NULL: none. `*at` is where it meets. */
const hr__use *hr__shades_conflict(const hr__shades *set, const char *begin,
                                   const char *end, hr_access kind, int id,
                                   const hr__clock *now, const char **at);

static inline bool hr__shades_crowded(const hr__shades *set)
{
    return set->n >= 64 && set->n >= set->crowded;
}

/* Forget the uses that everything to come is ordered after, so that sets do not grow. */
void hr__shades_settle(hr__shades *set, const hr__clock *known);

#endif
