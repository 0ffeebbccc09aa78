/* The eight steps of DualPipe: a rank serves two directions; in the steady state the forward of one
 * shares a slot with the backward of the other. Towards the end backwards are split, and
 * the weight gradients, first in first out, fill the gaps. */
#include "schedule/build/dualpipe.h"

#include "headrace/base.h" /* hr_fail */

#include <stdlib.h>

typedef struct state {
    hr__build *b;
    int rank;
    const hr__dual *d;
    int f[2], back[2]; /* done, by direction */
    hr_action *stash;  /* weight gradients put off: [next, end) */
    int next, end;
} state;

static hr_action action(const state *t, hr_action_kind kind, int direction, int k)
{
    return (hr_action){.microbatch = t->d->first[direction] + k,
                       .stage = (uint16_t)t->d->stage[direction],
                       .kind = (uint8_t)kind};
}

static void put(state *t, hr_action a)
{
    hr__put(t->b, t->rank, (hr_action_kind)a.kind, a.stage, a.microbatch);
}

static void forward(state *t, int direction)
{
    put(t, action(t, HR_ACTION_F, direction, t->f[direction]++));
}

static void backward(state *t, int direction, bool split)
{
    int k = t->back[direction]++;
    put(t, action(t, split ? HR_ACTION_I : HR_ACTION_B, direction, k));
    if (split)
        t->stash[t->end++] = action(t, HR_ACTION_W, direction, k);
}

static void weight(state *t)
{
    put(t, t->stash[t->next++]);
}

static void both(state *t, int f, int back)
{
    hr_action a = action(t, HR_ACTION_F, f, t->f[f]++);
    hr_action c = action(t, HR_ACTION_B, back, t->back[back]++);
    hr__put_pair(t->b, t->rank, HR_ACTION_F, a.stage, a.microbatch, HR_ACTION_B,
                 c.stage, c.microbatch);
}

static void start(state *t, int after, int before)
{
    for (int k = 0; k < 2 * after; k++)
        forward(t, 0);
    for (int k = 0; k < before; k++) {
        forward(t, 0);
        forward(t, 1);
    }
    for (int k = 0; k < after; k++) {
        backward(t, 1, true);
        weight(t);
        forward(t, 1);
    }
}

static void steady(state *t, int after, int before)
{
    int turns = t->d->count - 2 * t->d->ranks + before;
    for (int k = 0; k < turns; k++) {
        if (k == 0 && after == 0) { /* the turning point: apart, the gap is smaller */
            forward(t, 0);
            backward(t, 1, false);
        } else {
            both(t, 0, 1);
        }
        both(t, 1, 0);
    }
    for (int k = 0; k < after; k++) {
        backward(t, 1, false);
        both(t, 1, 0);
    }
}

/* From the half on backwards are split; on odd places both of them, on even the second. */
static void finish(state *t, int after, int before)
{
    bool split = false;
    bool odd = t->d->at % 2 == 1;
    for (int k = 0; k < before; k++) {
        bool half = k == before / 2;
        split |= half && odd;
        backward(t, 1, split);
        split |= half;
        backward(t, 0, split);
    }
    for (int k = 0; k < after; k++) {
        weight(t);
        backward(t, 0, true);
    }
    while (t->next < t->end)
        weight(t);
}

void hr__dual_order(hr__build *b, int rank, const hr__dual *d)
{
    int after = d->ranks - 1 - d->at;
    int before = d->at + 1;
    state t = {.b = b, .rank = rank, .d = d};
    t.stash = malloc(4 * (size_t)(d->ranks + 1) * sizeof *t.stash);
    if (t.stash == NULL) {
        b->st = hr_fail(HR_ERR_NOMEM, NULL, "no memory for weight gradients put off");
        return;
    }
    start(&t, after, before);
    steady(&t, after, before);
    finish(&t, after, before);
    free(t.stash);
}
