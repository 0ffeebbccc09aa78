/* What a schedule is made of. Internal to src/schedule. */
#ifndef HR_SCHEDULE_IMPL_H
#define HR_SCHEDULE_IMPL_H
#include "headrace/schedule.h"

enum {
    HR__MAX_STAGES = 65535,   /* hr_action.stage has 16 bits */
    HR__MAX_PAIR = 255,       /* hr_action.pair has 8 */
    HR__MAX_CELLS = 64 << 20, /* pairs of stage and microbatch */
    HR__MAX_TEXT = 64 << 20,
    HR__ACTION_TEXT = 40, /* an action in text, with its end */
};
#define HR__MAX_BYTES ((int64_t)1 << 36) /* so that no rank's sum overflows */
#define HR__MAX_COST  (1000000 * HR_TICKS)

typedef struct hr__order {
    hr_action *a;
    size_t n, cap;
} hr__order;

struct hr_schedule {
    int ranks, stages, microbatches;
    hr_placement placement;
    bool forward_only;
    int pieces;      /* of a sequence, at least 1 */
    bool lowered;    /* holds a send or a receive */
    bool shards;     /* holds an UNSHARD or RESHARD */
    bool reduces;    /* holds a REDUCE_GRAD */
    int *owner;      /* [stages] rank for microbatches below `half`; -1 none */
    int *owner_late; /* [stages] for the others; is `owner` unless bidirectional */
    int half;
    hr__order *order;    /* [ranks] */
    hr_stage_cost *cost; /* [stages] */
    int64_t comm;        /* ticks that a transfer holds its link */
    int64_t latency;     /* ticks more until it is there */
    int pair_discount;   /* percent */
};

static inline size_t hr__cells(const hr_schedule *s)
{
    return (size_t)s->stages * (size_t)s->microbatches;
}

static inline size_t hr__cell(const hr_schedule *s, int stage, int microbatch)
{
    return (size_t)stage * (size_t)s->microbatches + (size_t)microbatch;
}

static inline int hr__owner(const hr_schedule *s, int stage, int microbatch)
{
    return microbatch < s->half ? s->owner[stage] : s->owner_late[stage];
}

/* From the end of an action to its result on another rank. */
static inline int64_t hr__hop(const hr_schedule *s)
{
    return s->comm + s->latency;
}

static inline bool hr__has_microbatch(int kind)
{
    return kind < HR_ACTION_UNSHARD;
}

static inline bool hr__computes(int kind)
{
    return kind <= HR_ACTION_W;
}

/* Actions in the slot that starts with `a`. */
static inline int hr__slot(const hr_action *a)
{
    return a->pair ? a->pair : 1;
}

/* As hr_schedule_append(), for actions known to be in range; `pair` also for a pair of one. */
hr_status hr__append(hr_schedule *s, int rank, const hr_action *slot, int n, bool pair);

/* "rank of stage" of the placements that are rules. `map` has room for `stages`. */
void hr__place_loop(int ranks, int stages, int *map);
void hr__place_v(int ranks, int stages, int *map);

#endif
