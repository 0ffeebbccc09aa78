/* The run of a schedule on paper, which both the check and the simulator stand on: each rank
 * takes its slots in order, as far as their inputs are there. Internal to src/schedule. */
#ifndef HR_REPLAY_H
#define HR_REPLAY_H
#include "schedule/schedule_impl.h"

typedef struct hr__rank_state {
    size_t at; /* the next action */
    int64_t clock, busy, first;
    int64_t computed; /* when its last slot ended; only once `first` is set */
    int64_t longest_gap;
    int gaps;
    hr_slot_time *time; /* of each action; NULL: not kept */
    size_t wants; /* the key it waits for, see hr__key(); HR__NOTHING if it does not */
    bool queued;
} hr__rank_state;

#define HR__NOTHING SIZE_MAX

typedef struct hr__replay {
    const hr_schedule *s;
    bool split_pairs;
    bool
        rendezvous; /* sends and receives of the schedule are run, each waits for the other */
    int64_t hop;             /* ticks from an output to another rank */
    struct hr__links *links; /* NULL: transfers do not wait for each other */
    /* Times plus one, 0 not yet: what a schedule does not hold costs no memory. See hr__at(). */
    int64_t *f_end, *b_end; /* [cells] when F, and B or I, ended */
    int64_t *f_in,
        *b_in; /* [cells] when it was received; only if `rendezvous` or `links` */
    int64_t (*lasts)[4]; /* [stages] duration of F, B, I, W */
    hr__rank_state *rank;
    int *stack; /* ranks that may go on */
    int stacked;
} hr__replay;

/* Every action has to be in range and on its stage's rank. A failed init needs no fini. */
hr_status hr__replay_init(hr__replay *r, const hr_schedule *s, bool split_pairs,
                          bool rendezvous);
void hr__replay_fini(hr__replay *r);

/* Before the run: let the transfers from one rank to another go one after the other. No effect on
 * a rendezvous, which holds both ranks anyway. A failure leaves the replay to be finished. */
hr_status hr__replay_queue(hr__replay *r);

/* Runs it as far as it goes; false if a rank is stuck. */
bool hr__replay_run(hr__replay *r);

/* After a run that got stuck: ERR_INVALID, the sentence says who waits for what. */
hr_status hr__stall_fail(const hr__replay *r);

/* Names an output: the F of a cell, or its B or I. */
static inline size_t hr__key(size_t cell, bool backward)
{
    return 2 * cell + backward;
}

/* The time in an entry of f_end and its like; -1 not yet. */
static inline int64_t hr__at(int64_t entry)
{
    return entry - 1;
}

/* What an action needs before it can start. */
typedef struct hr__input {
    bool backward; /* the B or I of `stage`, else its F */
    bool own;      /* made on the same rank */
    int stage;
    int64_t at; /* when it is there; -1 not yet */
} hr__input;

/* Into in[2]; returns how many. For actions that compute. */
static inline int hr__inputs(const hr__replay *r, int rank, const hr_action *a,
                             hr__input *in)
{
    const hr_schedule *s = r->s;
    int stage = a->stage;
    int n = 0;
    size_t cell = hr__cell(s, stage, a->microbatch);
    size_t m = (size_t)s->microbatches;
    if (a->kind == HR_ACTION_W) {
        in[0] = (hr__input){true, true, stage, hr__at(r->b_end[cell])};
        return 1;
    }
    if (a->kind != HR_ACTION_F)
        in[n++] = (hr__input){false, true, stage, hr__at(r->f_end[cell])};
    bool backward = a->kind != HR_ACTION_F;
    int from = backward ? stage + 1 : stage - 1;
    if (from < 0 || from == s->stages)
        return n;
    size_t source = backward ? cell + m : cell - m;
    int64_t at = hr__at(backward ? r->b_end[source] : r->f_end[source]);
    bool own = hr__owner(s, from, a->microbatch) == rank;
    if (!own && r->f_in != NULL)
        at = hr__at(backward ? r->b_in[cell] : r->f_in[cell]);
    else if (!own && at >= 0)
        at += r->hop;
    in[n++] = (hr__input){backward, own, from, at};
    return n;
}

/* For a send or receive: the action it meets on the other rank, and that rank. */
int hr__partner(const hr_schedule *s, const hr_action *a, hr_action *other);

#endif
