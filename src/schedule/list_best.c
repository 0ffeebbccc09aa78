/* The best of several list schedules. */
#include "schedule/list_schedule.h"

#include "base/try.h" /* HR_TRY */
#include "schedule/best.h"

enum { VARIANTS = 16 };

static hr__list_rules variant(const hr__list_rules *base, int k)
{
    hr__list_rules r = *base;
    r.wait = (k & 1) != 0;
    r.push = (k & 2) != 0;
    r.first_back = (k & 4) != 0;
    r.first_in = (k & 8) != 0;
    return r;
}

void hr__list_best(hr__build *b, const hr__list_rules *base)
{
    for (int k = 0; k < VARIANTS && b->st >= 0; k++) {
        if ((b->v == 1 && k > 3) || (base->fused && (k & 1)))
            continue; /* rules that have no part in it */
        hr__list_rules r = variant(base, k);
        hr_schedule *s = NULL;
        b->st = hr__like(b->s, &s);
        if (b->st >= 0 && !hr__list_schedule(s, &r))
            b->st = hr_fail(HR_ERR_NOMEM, NULL, "no memory to schedule by list");
        if (b->st >= 0)
            hr__keep_better(b, s);
        else
            hr_schedule_destroy(s);
    }
}
