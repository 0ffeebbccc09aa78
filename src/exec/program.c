/* Programs: from a schedule to what this rank does, agreed upon by all. */
#include "base/try.h"
#include "exec/exec_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- what cannot be run -------------------------------------------------------------------- */
static bool has_shards(const hr_schedule *s, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        size_t n;
        const hr_action *a = hr_schedule_order(s, r, &n);
        for (size_t i = 0; i < n; i++)
            if (a[i].kind == HR_ACTION_UNSHARD || a[i].kind == HR_ACTION_RESHARD)
                return true;
    }
    return false;
}

static hr_status check_can_run(const hr_exec *e, const hr_schedule *s)
{
    hr_schedule_shape shape;
    hr_schedule_get_shape(s, &shape);
    if (has_shards(s, shape.ranks))
        return hr_fail(HR_ERR_UNSUPPORTED, "exec_shards",
                       "the schedule gathers weights (UNSHARD), which no stage does");
    if (shape.pieces > 1)
        return hr_fail(
            HR_ERR_UNSUPPORTED, "exec_sequence",
            "the schedule goes over parts of sequences (%d ranks, %d stages, "
            "%d parts, %d a sequence), which is for planning only: attention "
            "would have to carry its keys from part to part; run 1f1b instead",
            shape.ranks, shape.stages, shape.microbatches, shape.pieces);
    if (e->shape && e->n_shapes != shape.stages)
        return hr_fail(HR_ERR_INVALID, "exec_shapes",
                       "the schedule has %d stages, shapes are given for %d",
                       shape.stages, e->n_shapes);
    return HR_OK;
}

static hr_status check_ranks(const hr_exec *e, const hr_schedule *s)
{
    hr_schedule_shape shape;
    if (!s)
        return hr_fail(HR_ERR_INVALID, "no_schedule", "hr_exec_load: no schedule");
    hr_schedule_get_shape(s, &shape);
    if (shape.ranks != e->ranks)
        return hr_fail(HR_ERR_INVALID, "exec_ranks",
                       "the schedule is for %d ranks (%d stages, %d microbatches), the "
                       "pipeline has %d",
                       shape.ranks, shape.stages, shape.microbatches, e->ranks);
    return HR_OK;
}

/* ---- laying out ---------------------------------------------------------------------------- */
static uint64_t hash_of(const hr_schedule *s, const hr_schedule_shape *shape)
{
    uint64_t h = hr__mix(HR__NO_HASH, (uint64_t)shape->placement);
    for (int r = 0; r < shape->ranks; r++) {
        size_t n;
        const hr_action *a = hr_schedule_order(s, r, &n);
        h = hr__mix(h, n);
        for (size_t i = 0; i < n; i++)
            h = hr__mix(
                hr__mix(h, (uint64_t)a[i].microbatch << 32 | (uint64_t)a[i].stage),
                (uint64_t)a[i].kind << 8 | a[i].pair);
    }
    return h;
}

static hr_status fill(hr_program *p, const hr_schedule *s, bool *need)
{
    hr_schedule_shape shape;
    hr_schedule_get_shape(s, &shape);
    p->ranks = shape.ranks;
    p->stages = shape.stages;
    p->microbatches = shape.microbatches;
    p->forward_only = shape.forward_only;
    p->hash = hash_of(s, &shape);
    HR_TRY(check_can_run(p->e, s));
    HR_TRY(hr__channels_prepare(p->e, s, need));
    return hr__program_lay_out(p, s);
}

/* What this rank can do by itself. */
static hr_status prepare(hr_program *p, const hr_schedule *s, bool *need)
{
    hr_schedule *lowered = NULL;
    HR_TRY(check_ranks(p->e, s));
    if (hr_schedule_is_lowered(s)) {
        HR_TRY(hr_schedule_check(s, NULL, NULL));
        return fill(p, s, need);
    }
    HR_TRY(hr_schedule_lower(s, NULL, &lowered));
    hr_status st = fill(p, lowered, need);
    hr_schedule_destroy(lowered);
    return st;
}

static hr_status agree(hr_program *p, hr_status st)
{
    hr__word w = {.deed = HR__LOADS,
                  .ranks = p->ranks,
                  .stages = p->stages,
                  .microbatches = p->microbatches,
                  .forward_only = p->forward_only,
                  .hash = p->hash,
                  .fingerprint = p->e->fingerprint};
    if (st < 0)
        hr__word_fail(&w, st);
    return hr__agree(p->e, &w);
}

/* Either all ranks have the new channels afterwards, or none: after a reset they have to agree on
 * which are still to be made. */
static hr_status join(hr_program *p, const bool *need)
{
    hr_exec *e = p->e;
    hr_status st = hr__channels_join(e, need);
    st = st < 0 ? hr__agree_not(e->world, st) : agree(p, HR_OK);
    if (st >= 0)
        hr__channels_keep(e, need);
    return st;
}

hr_status hr_exec_load(hr_exec *e, const hr_schedule *s, hr_program **out)
{
    HR_NEED(out);
    *out = NULL;
    HR_NEED(e);
    hr_program *p = calloc(1, sizeof *p);
    bool *need = calloc((size_t)e->ranks * (size_t)e->ranks, sizeof *need);
    if (!p || !need) {
        free(p);
        free(need);
        return hr__agree_not(e->world,
                             hr_fail(HR_ERR_NOMEM, NULL, "no memory for a program"));
    }
    p->e = e;
    hr_status st = agree(p, prepare(p, s, need));
    if (st >= 0)
        st = join(p, need);
    hr__channels_forget(e);
    free(need);
    if (st < 0)
        hr_program_destroy(p);
    else
        *out = p;
    return st;
}

void hr_program_destroy(hr_program *p)
{
    if (!p)
        return;
    for (int i = 0; p->cell && i < p->n_cells; i++) {
        hr__drop_cell(p, i);
        hr_event_destroy(p->cell[i].there);
    }
    for (int i = 0; p->left && i < p->n_left; i++)
        hr_event_destroy(p->left[i]);
    free(p->cell);
    free(p->left);
    free(p->op);
    free(p->act);
    free(p->tokens);
    free(p);
}
