/* Drafts from schedules, and copies. */
#include "schedule/optimise_draft.h"

#include "headrace/base.h" /* hr_fail */

#include <stdlib.h>
#include <string.h>

/* Whole backwards alone are the same as split ones with the weight gradient next, but for the
 * gradient that is sent earlier. */
static hr__turn turn_of(const hr_action *slot, int n, bool split)
{
    hr__turn t = {.n = (uint8_t)n};
    memcpy(t.a, slot, (size_t)n * sizeof *slot);
    t.a[0].pair = t.a[1].pair = 0;
    if (n == 1 && split && t.a[0].kind == HR_ACTION_B)
        t.a[0].kind = HR_ACTION_I;
    return t;
}

static hr_status fill(hr__line *line, const hr__order *o, const hr__draft_rules *rules)
{
    for (size_t i = 0; i < o->n;) {
        int n = rules->pairs ? hr__slot(&o->a[i]) : 1;
        if (n > 2)
            return hr_fail(HR_ERR_UNSUPPORTED, NULL, "a slot of %d actions", n);
        if (o->a[i].kind != HR_ACTION_W)
            line->turn[line->n++] = turn_of(&o->a[i], n, rules->split);
        else if (rules->pinned && line->n > 0)
            line->turn[line->n - 1].pins++;
        i += (size_t)n;
    }
    return HR_OK;
}

hr_status hr__draft_init(hr__draft *d, const hr_schedule *s,
                         const hr__draft_rules *rules)
{
    *d = (hr__draft){.of = s, .line = calloc((size_t)s->ranks, sizeof *d->line)};
    hr_status st = HR_OK;
    for (int r = 0; d->line && r < s->ranks && st >= 0; r++) {
        hr__line *line = &d->line[r];
        line->room = (int)s->order[r].n;
        line->turn = calloc(s->order[r].n + 1, sizeof *line->turn);
        st = line->turn ? fill(line, &s->order[r], rules) : HR_ERR_NOMEM;
    }
    if (d->line == NULL || st == HR_ERR_NOMEM)
        st = hr_fail(HR_ERR_NOMEM, NULL, "no memory for a draft of %zu actions",
                     hr_schedule_actions(s));
    if (st < 0)
        hr__draft_fini(d);
    return st;
}

void hr__draft_fini(hr__draft *d)
{
    for (int r = 0; d->line && r < d->of->ranks; r++)
        free(d->line[r].turn);
    free(d->line);
    d->line = NULL;
}

void hr__draft_copy(hr__draft *to, const hr__draft *from)
{
    for (int r = 0; r < from->of->ranks; r++) {
        hr__line *a = &to->line[r];
        const hr__line *b = &from->line[r];
        memcpy(a->turn, b->turn, (size_t)b->n * sizeof *b->turn);
        a->n = b->n;
        a->slack = b->slack;
    }
}
