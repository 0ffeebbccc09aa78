/* Groups: handles and what concerns the whole job. Operations are in operations.c. */
#include "headrace/group.h"
#include "base/try.h"
#include "group/group_ops.h"
#include <stdlib.h>

void hr__group_init(hr_group *g, const hr_group_ops *ops, int rank, int size,
                    const int *global, hr_device *dev)
{
    g->ops = ops;
    atomic_init(&g->refs, 1);
    g->rank = rank;
    g->size = size;
    g->global = global;
    g->dev = dev;
    hr_group_set_label(g, NULL);
}

void hr__group_fini(hr_group *g)
{
    if (g->dev)
        hr__order_drain(&g->order, g->dev);
    g->dev = NULL;
}

static hr_status no_group(const char *what)
{
    return hr_fail(HR_ERR_INVALID, NULL, "%s: no group", what);
}

/* ---- life ---- */
static hr_status check_members(const hr_group *parent, const int *ranks, int n)
{
    if (n < 1 || n > parent->size)
        return hr_fail(HR_ERR_INVALID, "group_members",
                       "hr_group_create: %d members of a parent of %d", n,
                       parent->size);
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= parent->size)
            return hr_fail(HR_ERR_INVALID, "group_members",
                           "hr_group_create: member %d is rank %d, outside 0..%d", i,
                           ranks[i], parent->size - 1);
        for (int j = 0; j < i; j++)
            if (ranks[j] == ranks[i])
                return hr_fail(HR_ERR_INVALID, "group_members",
                               "hr_group_create: rank %d is member %d and %d", ranks[i],
                               j, i);
    }
    return HR_OK;
}

static hr_status create_all(hr_group *parent, hr_group **out)
{
    int *all = calloc((size_t)parent->size, sizeof *all);
    if (!all)
        return hr_fail(HR_ERR_NOMEM, NULL, "a group of %d ranks", parent->size);
    for (int i = 0; i < parent->size; i++)
        all[i] = i;
    hr_status st = parent->ops->group_create(parent, all, parent->size, out);
    free(all);
    return st;
}

hr_status hr_group_create(hr_group *parent, const int *ranks, int n, hr_group **out)
{
    if (out)
        *out = NULL;
    if (!parent || !out)
        return no_group("hr_group_create");
    if (!ranks)
        return create_all(parent, out);
    HR_TRY(check_members(parent, ranks, n));
    return parent->ops->group_create(parent, ranks, n, out);
}

hr_group *hr_group_retain(hr_group *g)
{
    if (g)
        atomic_fetch_add(&g->refs, 1);
    return g;
}

void hr_group_release(hr_group *g)
{
    if (g && atomic_fetch_sub(&g->refs, 1) == 1)
        g->ops->group_destroy(g);
}

/* ---- questions ---- */
int hr_group_rank(const hr_group *g)
{
    return g ? g->rank : HR_NO_RANK;
}

int hr_group_size(const hr_group *g)
{
    return g ? g->size : 0;
}

int hr_group_global_rank(const hr_group *g, int rank)
{
    return g && rank >= 0 && rank < g->size ? g->global[rank] : HR_NO_RANK;
}

hr_device *hr_group_device(const hr_group *g)
{
    return g ? g->dev : NULL;
}

const char *hr_group_engine(const hr_group *g)
{
    if (!g)
        return "";
    return g->ops->engine ? g->ops->engine(g) : g->ops->name;
}

void hr_group_set_label(hr_group *g, const hr_op_label *label)
{
    static const hr_op_label none = {NULL, -1, -1, -1};
    if (g)
        g->label = label ? *label : none;
}

const char *hr_group_link_note(const hr_group *g)
{
    return g && g->ops->link_note ? g->ops->link_note(g) : "";
}

/* ---- the job ---- */
void hr_group_abort(hr_group *g, hr_status st)
{
    if (g)
        g->ops->abort(g, st < 0 ? st : HR_ERR_ABORTED);
}

hr_status hr_group_status(hr_group *g)
{
    return g ? g->ops->status(g) : no_group("hr_group_status");
}

void hr_group_where(const hr_group *g, char *buf, size_t cap)
{
    if (!buf || cap == 0)
        return;
    buf[0] = '\0';
    if (g)
        g->ops->where(g, buf, cap);
}

hr_status hr_job_reset(hr_group *world)
{
    if (!world)
        return no_group("hr_job_reset");
    if (!world->world)
        return hr_fail(HR_ERR_INVALID, "not_world",
                       "hr_job_reset: a group of %d that is not the world",
                       world->size);
    return world->ops->job_reset(world);
}
