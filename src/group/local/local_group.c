/* Groups of the local engine: the table, and creation, which is a meeting of the parent's
 * members on their own threads. */
#include "group/local/local_group.h"
#include "base/try.h"
#include "group/local/local_channel.h"
#include "group/local/local_collective.h"
#include "group/local/local_manner.h"
#include "group/local/local_symmetric.h"
#include <stdlib.h>
#include <string.h>

static bool same_list(const hr__member *a, const hr__member *b)
{
    return a->n_asked == b->n_asked &&
           memcmp(a->asked, b->asked, (size_t)a->n_asked * sizeof *a->asked) == 0;
}

static void write_list(const hr__member *m, char *buf, size_t cap)
{
    buf[0] = '\0';
    for (int i = 0; i < m->n_asked; i++)
        hr__list_rank(buf, cap, m->asked[i]);
}

/* For the last to arrive: all ask for the same; make it for all. */
static hr_status make_channel(hr__channel *ch, hr__member *me)
{
    const hr__member *first = &ch->members[0];
    for (int i = 1; i < ch->n; i++) {
        char a[96], b[96];
        if (same_list(first, &ch->members[i]))
            continue;
        write_list(first, a, sizeof a);
        write_list(&ch->members[i], b, sizeof b);
        return hr_fail(HR_ERR_MISMATCH, "group_mismatch",
                       "%s: rank %d asks for members %s but rank %d for %s",
                       hr__channel_where(ch, "creation", 0, NULL).text, ch->global[0],
                       a, ch->global[i], b);
    }
    int *global = calloc((size_t)first->n_asked, sizeof *global);
    if (!global)
        return hr_fail(HR_ERR_NOMEM, NULL, "a group of %d ranks", first->n_asked);
    for (int i = 0; i < first->n_asked; i++)
        global[i] = ch->global[first->asked[i]];
    hr_status st = hr__channel_create(ch->job, hr__manner_mix(ch->key, ch->children++),
                                      global, first->n_asked, &ch->made);
    free(global);
    return st;
}

static hr_status group_create(hr_group *parent, const int *ranks, int n, hr_group **out)
{
    hr__member *m = hr__member_of(parent);
    hr__entry entry = {.op = "group_create", .bytes = -1, .label = &m->base.label};
    *out = NULL;
    HR_TRY(hr__job_status(m->ch->job));
    m->asked = ranks;
    m->n_asked = n;
    hr_status st = hr__channel_meet_host(m, &entry, make_channel);
    if (st < 0) {
        hr__job_fail(m->ch->job, m->ch->global[m->me], st);
        return hr__job_status(m->ch->job);
    }
    for (int i = 0; i < n; i++)
        if (ranks[i] == m->me)
            *out = hr__channel_join(m->ch->made, i);
    return HR_OK;
}

/* For the last to arrive: what each shows goes to all. */
static hr_status show_all(hr__channel *ch, hr__member *me)
{
    size_t bytes = me->shown_bytes;
    for (int i = 0; i < ch->n; i++)
        for (int j = 0; j < ch->n; j++)
            if (i != j)
                memcpy((char *)ch->members[i].shown + (size_t)j * bytes,
                       (char *)ch->members[j].shown + (size_t)j * bytes, bytes);
    return HR_OK;
}

static hr_status gather_host(hr_group *g, const char *op, void *all, size_t bytes)
{
    hr__member *m = hr__member_of(g);
    hr__entry entry = {.op = op, .bytes = -1, .label = &m->base.label};
    HR_TRY(hr__job_status(m->ch->job));
    m->shown = all;
    m->shown_bytes = bytes;
    hr_status st = hr__channel_meet_host(m, &entry, show_all);
    if (st < 0) {
        hr__job_fail(m->ch->job, m->ch->global[m->me], st);
        return hr__job_status(m->ch->job);
    }
    return HR_OK;
}

static bool has_gone(const hr_group *g, int member)
{
    const hr__channel *ch = hr__member_of(g)->ch;
    return hr__job_gone(ch->job, ch->global[member]);
}

hr_group *hr__channel_join(hr__channel *ch, int me)
{
    hr__member *m = &ch->members[me];
    hr__group_init(&m->base, &hr__local_group_ops, me, ch->n, ch->global,
                   ch->job->ranks[ch->global[me]].dev);
    return &m->base;
}

static void group_destroy(hr_group *g)
{
    hr__channel_leave(hr__member_of(g));
}

static void group_abort(hr_group *g, hr_status st)
{
    hr__member *m = hr__member_of(g);
    hr__job_fail(m->ch->job, m->ch->global[m->me], st);
}

static hr_status group_status(hr_group *g)
{
    return hr__job_status(hr__member_of(g)->ch->job);
}

static void group_where(const hr_group *g, char *buf, size_t cap)
{
    const hr__member *m = hr__member_of(g);
    hr__doing_under_way(buf, cap, m->ch, m->me);
}

static hr_status job_reset(hr_group *world)
{
    hr__member *m = hr__member_of(world);
    return hr__job_reset(m->ch->job, m->ch->global[m->me]);
}

static const char *engine(const hr_group *g)
{
    return hr__member_of(g)->ch->job->manner->name;
}

static const char *link_note(const hr_group *g)
{
    return hr__member_of(g)->ch->job->link_note;
}

const hr_group_ops hr__local_group_ops = {
    .name = "local",
    .group_create = group_create,
    .group_destroy = group_destroy,
    .collective = hr__local_collective,
    .batch = hr__local_batch,
    .abort = group_abort,
    .status = group_status,
    .where = group_where,
    .job_reset = job_reset,
    .window_join = hr__local_window_join,
    .window_leave = hr__local_window_leave,
    .gather_host = gather_host,
    .gone = has_gone,
    .engine = engine,
    .link_note = link_note,
};
