/* Split backwards on one chunk a rank, within a limit of activations. The known orders go in turns
 * of an input gradient, a weight gradient where the limit asks for it, and a forward. A rank runs
 * ahead by twice its distance from the end (H2), if the limit allows it, or the limit
 * less its distance from the start (with a limit of p that is 1F1B's own lead: H1). List schedules are better
 * where there are few microbatches. */
#include "schedule/build/zb_turns.h"

#include "schedule/best.h"
#include "schedule/list_schedule.h"

typedef struct turns {
    hr__build *b;
    int rank;
    int f, i, w; /* done */
} turns;

static void put(turns *t, hr_action_kind kind)
{
    int *count = kind == HR_ACTION_F ? &t->f : kind == HR_ACTION_I ? &t->i : &t->w;
    hr__put(t->b, t->rank, kind, t->rank, (*count)++);
}

static void order(hr__build *b, int rank, bool stepped)
{
    turns t = {.b = b, .rank = rank};
    int room = b->o.max_act - (stepped ? rank : 0);
    room = room > 1 ? room : 1;
    int ahead = hr__min(hr__min(2 * (b->p - rank) - 1, room), b->m);
    bool tight = b->o.max_act < b->p;
    while (t.f < ahead)
        put(&t, HR_ACTION_F);
    while (t.i < b->m) {
        put(&t, HR_ACTION_I);
        if (t.f - t.w == b->o.max_act || t.f == b->m || tight)
            put(&t, HR_ACTION_W);
        if (t.f < b->m)
            put(&t, HR_ACTION_F);
    }
    while (t.w < b->m)
        put(&t, HR_ACTION_W);
}

static void try_turns(hr__build *b, bool stepped)
{
    hr__build own = *b;
    b->st = hr__like(b->s, &own.s);
    if (b->st < 0)
        return;
    for (int r = 0; r < b->p; r++)
        order(&own, r, stepped);
    b->st = own.st;
    if (b->st >= 0)
        hr__keep_better(b, own.s);
    else
        hr_schedule_destroy(own.s);
}

void hr__zb_orders(hr__build *b)
{
    for (int k = 0; k < 2 && b->st >= 0; k++)
        try_turns(b, k == 0);
    if (b->st >= 0 && !b->rule)
        hr__list_best(b, &(hr__list_rules){.limit = b->o.max_act});
}
