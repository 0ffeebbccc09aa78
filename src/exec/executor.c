/* The executor: life, and what it is told about its rank. Start reading at step.c. */
#include "base/try.h"
#include "exec/exec_impl.h"

#include <stdlib.h>
#include <string.h>

static hr_status check_sizes(const hr_exec_opts *o)
{
    int dp = o->dp ? o->dp : 1, pp = hr_group_size(o->pp);
    int world = hr_group_size(o->world ? o->world : o->pp);
    if (o->dp < 0 || world % pp || world / pp % dp)
        return hr_fail(HR_ERR_INVALID, "exec_sizes",
                       "hr_exec_create: %d pipelines of %d ranks side by side do not "
                       "divide a world of %d",
                       dp, pp, world);
    return HR_OK;
}

static hr_status check_stages(const hr_exec_opts *o)
{
    for (int i = 0; i < o->n_stages; i++)
        HR_CHECK_OPTS(&o->stages[i], hr_exec_stage);
    for (int i = 0; i < o->n_stages; i++) {
        const hr_exec_stage *s = &o->stages[i];
        if (s->stage < 0 || !s->forward)
            return hr_fail(HR_ERR_INVALID, "exec_stage", "hr_exec_create: stage %d %s",
                           s->stage, s->stage < 0 ? "is none" : "has no forward");
        for (int j = 0; j < i; j++)
            if (o->stages[j].stage == s->stage)
                return hr_fail(HR_ERR_INVALID, "exec_stage",
                               "hr_exec_create: stage %d is given twice", s->stage);
    }
    return HR_OK;
}

static hr_status check_shapes(const hr_exec_opts *o)
{
    for (int i = 1; o->shapes && i < o->n_shapes; i++) {
        const hr_exec_shape *s = &o->shapes[i];
        bool bad = (int)s->dtype < HR_F32 || s->dtype > HR_U8 || s->ndim < 0 ||
                   s->ndim > HR_MAX_DIMS;
        for (int d = 0; !bad && d < s->ndim; d++)
            bad = s->dim[d] < 0;
        if (bad)
            return hr_fail(HR_ERR_INVALID, "exec_shapes",
                           "hr_exec_create: the input of stage %d has no shape", i);
    }
    return HR_OK;
}

static hr_status check_opts(const hr_exec_opts *o)
{
    if (o->n_stages < 0 || o->n_shapes < 0 || (o->n_stages > 0 && !o->stages))
        return hr_fail(HR_ERR_INVALID, "exec_stage", "hr_exec_create: %d stages at %p",
                       o->n_stages, (const void *)o->stages);
    HR_TRY(check_sizes(o));
    HR_TRY(check_stages(o));
    return check_shapes(o);
}

static int by_stage(const void *a, const void *b)
{
    return ((const hr_exec_stage *)a)->stage - ((const hr_exec_stage *)b)->stage;
}

static hr_status copy_lists(hr_exec *e, const hr_exec_opts *o)
{
    e->stage = calloc((size_t)o->n_stages + 1, sizeof *e->stage);
    e->made = calloc((size_t)e->ranks * (size_t)e->ranks, sizeof *e->made);
    if (o->shapes)
        e->shape = calloc((size_t)o->n_shapes + 1, sizeof *e->shape);
    if (!e->stage || !e->made || (o->shapes && !e->shape))
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for an executor");
    e->n_stages = o->n_stages;
    for (int i = 0; i < o->n_stages; i++)
        e->stage[i] = o->stages[i];
    qsort(e->stage, (size_t)e->n_stages, sizeof *e->stage, by_stage);
    e->n_shapes = o->shapes ? o->n_shapes : 0;
    for (int i = 1; i < e->n_shapes; i++)
        e->shape[i] = o->shapes[i];
    return HR_OK;
}

/* Of all that must be alike, whatever the program. */
static uint64_t fingerprint(const hr_exec *e, uint64_t given)
{
    uint64_t h = hr__mix(hr__mix(hr__mix(HR__NO_HASH, given), (uint64_t)e->dp),
                         (uint64_t)(e->shape ? e->n_shapes : HR__NONE));
    for (int i = 1; i < e->n_shapes; i++) {
        h = hr__mix(hr__mix(h, e->shape[i].dtype), (uint64_t)e->shape[i].ndim);
        for (int d = 0; d < e->shape[i].ndim; d++)
            h = hr__mix(h, (uint64_t)e->shape[i].dim[d]);
    }
    return h;
}

/* What this rank can do by itself. */
static hr_status set_up(hr_exec *e, const hr_exec_opts *o)
{
    HR_TRY(check_opts(o));
    HR_TRY(copy_lists(e, o));
    e->fingerprint = fingerprint(e, o->fingerprint);
    for (int i = 0; i < HR__SLOTS_BEHIND; i++)
        HR_TRY(hr_event_create(e->dev, &e->slot[i]));
    return HR_OK;
}

/* One rank's refusal `st` is that of all, so that nobody waits for it later. */
static hr_status open_together(hr_exec *e, hr_status st)
{
    hr__word w = {.deed = HR__OPENS, .ranks = e->ranks, .fingerprint = e->fingerprint};
    if (st < 0)
        hr__word_fail(&w, st);
    hr_status joined = hr__agree_init(e);
    return joined < 0 ? hr__agree_not(e->world, joined) : hr__agree(e, &w);
}

hr_status hr_exec_create(const hr_exec_opts *opts, hr_exec **out)
{
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "hr_exec_create: `out` is NULL");
    *out = NULL;
    if (!opts || !opts->pp)
        return hr_fail(HR_ERR_INVALID, "no_group", "hr_exec_create: no pipeline group");
    HR_CHECK_OPTS(opts, hr_exec_opts);
    hr_group *world = opts->world ? opts->world : opts->pp;
    hr_exec *e = calloc(1, sizeof *e);
    if (!e)
        return hr__agree_not(world,
                             hr_fail(HR_ERR_NOMEM, NULL, "no memory for an executor"));
    e->pp = hr_group_retain(opts->pp);
    e->world = hr_group_retain(world);
    e->dev = hr_group_device(e->pp);
    e->dp = opts->dp ? opts->dp : 1;
    e->rank = hr_group_rank(e->pp);
    e->ranks = hr_group_size(e->pp);
    hr_status st = open_together(e, set_up(e, opts));
    if (st < 0)
        hr_exec_destroy(e);
    else
        *out = e;
    return st;
}

void hr_exec_destroy(hr_exec *e)
{
    if (!e)
        return;
    hr__channels_fini(e);
    hr__agree_fini(e);
    for (int i = 0; i < HR__SLOTS_BEHIND; i++)
        hr_event_destroy(e->slot[i]);
    hr_group_release(e->world);
    hr_group_release(e->pp);
    free(e->stage);
    free(e->shape);
    free(e->made);
    free(e);
}

int hr__stage_of(const hr_exec *e, int stage)
{
    for (int i = 0; i < e->n_stages; i++)
        if (e->stage[i].stage == stage)
            return i;
    return HR__NONE;
}
