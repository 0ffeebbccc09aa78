/* state_pieces.c: see state_pieces.h. Of copies over the pipeline the first rank writes. Of what data-parallel ranks
 * have alike they take turns, for writing goes as fast as there are ranks that write; of moments that are
 * sharded over them each writes its own. */
#include "state_pieces.h"
#include <stdlib.h>

void hr_app_state_name(const state_piece *p, char name[STATE_NAME])
{
    static const char *const suffix[STATE_KINDS] = {"", ".adam_m", ".adam_v"};
    snprintf(name, STATE_NAME, "%s%s", p->whole->name, suffix[p->kind]);
}

static bool first_copy(const train_rank *r, const hr_app_param *q)
{
    return hr_group_rank(r->groups.pp) == r->groups.owner[q->entry];
}

/* Of experts each data-parallel rank that has the same part holds them, of the rest all. */
static bool has_turn(const train_rank *r, const hr_app_param *q)
{
    const hr_group *alike = q->region == EXPERT ? r->groups.expert_dp : r->groups.dp;
    return hr_group_rank(alike) == q->entry % hr_group_size(alike);
}

static state_piece weight(const train_rank *r, const hr_app_param *q)
{
    return (state_piece){.whole = &r->model->catalog->list[q->entry].spec,
                         .kind = STATE_WEIGHT,
                         .first = q->first,
                         .count = hr_app_param_count(q),
                         .flat = r->model->params.w[q->region],
                         .at = q->offset,
                         .writes = first_copy(r, q) && has_turn(r, q)};
}

static state_piece moment(const train_rank *r, const hr_app_kept *k, state_kind kind)
{
    const hr_app_moments *t = &r->moments;
    const hr_app_param *q = k->of;
    bool sharded = r->job->opts->shard_optimizer;
    return (state_piece){.whole = &r->model->catalog->list[q->entry].spec,
                         .kind = kind,
                         .first = q->first + k->first,
                         .count = k->count,
                         .flat =
                             kind == STATE_MOMENT1 ? t->m[q->region] : t->v[q->region],
                         .at = k->at,
                         .writes = first_copy(r, q) && (sharded || has_turn(r, q))};
}

hr_status hr_app_state_pieces(const train_rank *r, state_piece **out, int *n)
{
    const hr_app_params *p = &r->model->params;
    const hr_app_moments *t = &r->moments;
    state_piece *list = calloc((size_t)p->n + 2 * (size_t)t->n + 1, sizeof *list);
    *out = list;
    *n = 0;
    if (!list)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to list %d pieces of state",
                       p->n + 2 * t->n);
    for (int i = 0; i < p->n; i++)
        list[(*n)++] = weight(r, &p->list[i]);
    for (state_kind kind = STATE_MOMENT1; kind <= STATE_MOMENT2; kind++)
        for (int i = 0; i < t->n; i++)
            list[(*n)++] = moment(r, &t->kept[i], kind);
    return HR_OK;
}
