/* The order of UNSHARD, RESHARD and REDUCE_GRAD around the actions that use a stage's weights. */
#include "schedule/action_text.h"
#include "schedule/check.h"

#include <stdlib.h>

typedef struct weights {
    bool gathered, reduced;
    bool gradient; /* one was made */
} weights;

/* NULL if the action may stand here. */
static const char *step(const hr_schedule *s, weights *w, const hr_action *a)
{
    bool makes = a->kind == HR_ACTION_B || a->kind == HR_ACTION_W;
    switch (a->kind) {
    case HR_ACTION_UNSHARD:
        if (w->gathered)
            return "its weights are gathered already";
        w->gathered = true;
        return NULL;
    case HR_ACTION_RESHARD:
        if (!w->gathered)
            return "its weights are not gathered";
        w->gathered = false;
        return NULL;
    case HR_ACTION_REDUCE_GRAD:
        if (w->reduced)
            return "its gradients are reduced already";
        w->reduced = true;
        return NULL;
    default:
        break;
    }
    if (!hr__computes(a->kind))
        return NULL;
    if (s->shards && !w->gathered)
        return "its weights are not gathered";
    if (makes && w->reduced)
        return "its gradients were reduced before";
    w->gradient |= makes;
    return NULL;
}

static hr_status check_rank(const hr_schedule *s, int rank, weights *w)
{
    char text[HR__ACTION_TEXT];
    const hr__order *o = &s->order[rank];
    for (size_t i = 0; i < o->n; i++) {
        const char *why = step(s, &w[o->a[i].stage], &o->a[i]);
        if (why != NULL)
            return hr_fail(HR_ERR_INVALID, "weights",
                           "rank %d, position %zu: %s, but %s", rank, i,
                           hr__action_print(&o->a[i], text), why);
    }
    for (size_t i = 0; i < o->n; i++) {
        weights *v = &w[o->a[i].stage];
        if (s->reduces && v->gradient && !v->reduced)
            return hr_fail(HR_ERR_INVALID, "weights",
                           "rank %d: the gradients of stage %d are never reduced", rank,
                           o->a[i].stage);
        *v = (weights){false, false, false};
    }
    return HR_OK;
}

hr_status hr__check_weights(const hr_schedule *s)
{
    if (!s->shards && !s->reduces)
        return HR_OK;
    weights *w = calloc((size_t)s->stages, sizeof *w);
    if (w == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to check %d stages", s->stages);
    hr_status st = HR_OK;
    for (int r = 0; r < s->ranks && st >= 0; r++)
        st = check_rank(s, r, w);
    free(w);
    return st;
}
