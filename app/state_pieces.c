/* state_pieces.c: see state_pieces.h. Today a rank that holds a weight holds both its moments, whole; of copies
 * over the pipeline the first rank writes, and the data-parallel ranks take turns, for writing goes as fast
 * as there are ranks that write. */
#include "state_pieces.h"
#include <stdlib.h>

void hr_app_state_name(const state_piece *p, char name[STATE_NAME])
{
    static const char *const suffix[STATE_KINDS] = {"", ".adam_m", ".adam_v"};
    snprintf(name, STATE_NAME, "%s%s", p->whole->name, suffix[p->kind]);
}

static hr_tensor *flat_of(const hr_app_params *p, hr_app_region region, state_kind kind)
{
    hr_tensor *const *by_kind[STATE_KINDS] = {p->w, p->m, p->v};
    return by_kind[kind][region];
}

/* Of experts each data-parallel rank that has the same part holds them, of the rest all. */
static bool writes(const train_rank *r, const hr_app_param *q)
{
    const rank_groups *g = &r->groups;
    const hr_group *alike = q->region == EXPERT ? g->expert_dp : g->dp;
    return hr_group_rank(g->pp) == g->owner[q->entry] &&
           hr_group_rank(alike) == q->entry % hr_group_size(alike);
}

hr_status hr_app_state_pieces(const train_rank *r, state_piece **out, int *n)
{
    const hr_app_params *p = &r->model->params;
    *n = STATE_KINDS * p->n;
    *out = calloc((size_t)*n + 1, sizeof **out);
    if (!*out)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to list %d pieces of state", *n);
    for (int i = 0; i < *n; i++) {
        const hr_app_param *q = &p->list[i % p->n];
        state_kind kind = (state_kind)(i / p->n);
        (*out)[i] = (state_piece){.whole = &r->model->catalog->list[q->entry].spec,
                                  .kind = kind,
                                  .first = q->first,
                                  .count = hr_app_param_count(q),
                                  .flat = flat_of(p, q->region, kind),
                                  .at = q->offset,
                                  .writes = writes(r, q)};
    }
    return HR_OK;
}
