/* A time that no order of the same slots on the same ranks can beat. A rank cannot start before its
 * first stage is reached, has to do all of its work, and after its last backward the stages before
 * still have to do theirs; and one microbatch has to go all the way. */
#include "base/try.h" /* HR_TRY */
#include "schedule/replay.h"

#include <stdlib.h>

typedef struct bound {
    const hr__replay *r;
    const hr_schedule *s;
    int percent;     /* of its costs that a slot lasts at least */
    bool *split;     /* [stages] some backward of it is an I and a W */
    int64_t *before; /* [ranks] least time from the start to a rank's first F */
    int64_t *after;  /* [ranks] least time from a rank's last action to the end */
    int64_t chain;   /* all that one microbatch has to go through */
} bound;

static void note_splits_and_pairs(bound *b)
{
    const hr_schedule *s = b->s;
    b->percent = 100;
    for (int k = 0; k < s->ranks; k++)
        for (size_t i = 0; i < s->order[k].n; i++) {
            const hr_action *a = &s->order[k].a[i];
            if (a->pair > 0)
                b->percent = 100 - s->pair_discount;
            if (a->kind == HR_ACTION_W)
                b->split[a->stage] = true;
        }
}

static int64_t lasts(const bound *b, int stage, int kind)
{
    return b->r->lasts[stage][kind] * b->percent / 100;
}

/* From the start of a backward until the stage before can have its gradient. */
static int64_t backward(const bound *b, int stage)
{
    return lasts(b, stage, b->split[stage] ? HR_ACTION_I : HR_ACTION_B);
}

static int64_t hop(const bound *b, const int *owner, int stage)
{
    return owner[stage] == owner[stage + 1] ? 0 : hr__hop(b->s);
}

static void lower_to(int64_t *least, int64_t value)
{
    if (*least < 0 || value < *least)
        *least = value;
}

/* Goes down the stages and back up, for the microbatches that `owner` holds for. */
static void walk(bound *b, const int *owner)
{
    const hr_schedule *s = b->s;
    int last = s->stages - 1;
    int64_t at = 0;
    for (int i = 0; i <= last; i++) {
        lower_to(&b->before[owner[i]], at);
        at += lasts(b, i, HR_ACTION_F) + (i < last ? hop(b, owner, i) : 0);
    }
    int64_t all = at;
    int64_t rest = 0;
    for (int k = 0; k <= last; k++) {
        int i = s->forward_only ? last - k : k;
        lower_to(&b->after[owner[i]], b->split[i] ? 0 : rest);
        if (!s->forward_only)
            rest += backward(b, i) + (i < last ? hop(b, owner, i) : 0);
        else
            rest += lasts(b, i, HR_ACTION_F) + (i > 0 ? hop(b, owner, i - 1) : 0);
    }
    if (!s->forward_only)
        all += rest + (b->split[0] ? lasts(b, 0, HR_ACTION_W) : 0);
    if (all > b->chain)
        b->chain = all;
}

static int64_t of_all(bound *b)
{
    const hr_schedule *s = b->s;
    note_splits_and_pairs(b);
    for (int k = 0; k < s->ranks; k++)
        b->before[k] = b->after[k] = -1;
    walk(b, s->owner);
    if (s->owner_late != s->owner)
        walk(b, s->owner_late);
    int64_t most = b->chain;
    for (int k = 0; k < s->ranks; k++) {
        int64_t rank = b->before[k] + b->r->rank[k].busy + b->after[k];
        if (b->before[k] >= 0 && rank > most)
            most = rank;
    }
    return most;
}

hr_status hr_schedule_bound(const hr_schedule *s, int64_t *out)
{
    HR_NEED(out);
    *out = 0;
    HR_TRY(hr_schedule_check(s, NULL, NULL));
    hr__replay r;
    HR_TRY(hr__replay_init(&r, s, false, false));
    hr_status st = HR_OK;
    bound b = {.r = &r,
               .s = s,
               .split = calloc((size_t)s->stages, sizeof *b.split),
               .before = calloc((size_t)s->ranks, sizeof *b.before),
               .after = calloc((size_t)s->ranks, sizeof *b.after)};
    if (b.split == NULL || b.before == NULL || b.after == NULL)
        st = hr_fail(HR_ERR_NOMEM, NULL, "no memory for the bound of %d ranks",
                     s->ranks);
    else if (!hr__replay_run(&r))
        st = hr__stall_fail(&r);
    else
        *out = of_all(&b);
    free(b.split);
    free(b.before);
    free(b.after);
    hr__replay_fini(&r);
    return st;
}
