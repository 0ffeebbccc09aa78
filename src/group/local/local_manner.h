/* local_manner.h: in which manner the local engine moves bytes. All manners keep the rules of
 * groups; each goes to another end of what the rules leave open, so that code which relies on more
 * than them is caught:
 *
 *     local             an operation ends when its peers have met it, as soon as it can
 *     local-rendezvous  the same, promised: no send ends before its receive has taken the bytes
 *     local-buffered    a send is copied at once and ends without its receive
 *     local-delays      operations begin, read and end after delays that follow from a seed
 *     local-late        an operation begins, and so reads its sources, when somebody waits for it
 *
 * What begins late has let everything run that is not ordered behind it: a source that is
 * overwritten, or released and handed out again, too early is read with the wrong bytes. */
#ifndef HR_LOCAL_MANNER_H
#define HR_LOCAL_MANNER_H
#include "group/local/local_channel.h"

typedef struct hr__manner {
    const char *name; /* of the engine */
    bool buffered, delays, late;
    double longest_us; /* default of hr_local_opts.delay_us */
} hr__manner;

/* NULL: HEADRACE_GROUP_ENGINE, else "local". ERR_INVALID "group_engine" with the list of names. */
hr_status hr__manner_find(const char *name, const hr__manner **out);

/* A number that follows from both and is like chance. */
uint64_t hr__manner_mix(uint64_t a, uint64_t b);
/* The n-th delay of a member of a channel: 0..longest. */
int64_t hr__manner_delay(uint64_t key, int member, uint64_t n, int64_t longest_ns);

/* In kernels: the operation begins (and may be put off), or is at a place where it may be delayed.
 * Free in manners that do not. Negative: the job has failed, its cause. */
hr_status hr__manner_put_off(hr__member *m, const hr__post *p);
hr_status hr__manner_pause(hr__member *m);

/* Where the job's operations begin: called for every one, so the rest is out of line. */
static inline hr_status hr__manner_begin(hr__member *m, const hr__post *p)
{
    const hr__manner *how = m->ch->job->manner;
    if (how->delays)
        return hr__manner_pause(m);
    return how->late ? hr__manner_put_off(m, p) : HR_OK;
}
static inline hr_status hr__manner_delay_here(hr__member *m)
{
    return m->ch->job->manner->delays ? hr__manner_pause(m) : HR_OK;
}

#endif
