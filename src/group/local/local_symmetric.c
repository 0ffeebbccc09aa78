/* Symmetric memory of the local engine. A window is made in a meeting of the members on their own
 * threads, and its members' addresses stand in a list that all share. Rows move within a
 * collective (local_collective.c): what keeps a peer's window in place while others store into it
 * or load from it are the two meetings around the move. */
#include "group/local/local_symmetric.h"
#include "base/try.h"
#include <stdlib.h>
#include <string.h>

enum { WINDOW_ALIGN = 4096 }; /* of offsets */

/* ---- windows ---- */
/* For the last to arrive: all ask for the same; make it for all. */
static hr_status make_window(hr__channel *ch, hr__member *me)
{
    size_t bytes = ch->members[0].shown_bytes;
    for (int i = 1; i < ch->n; i++)
        if (ch->members[i].shown_bytes != bytes)
            return hr_fail(HR_ERR_MISMATCH, "window_mismatch",
                           "%s: rank %d asks for %zu bytes but rank %d for %zu",
                           hr__channel_where(ch, "window", 0, NULL).text, ch->global[0],
                           bytes, ch->global[i], ch->members[i].shown_bytes);
    hr__window *w = malloc(sizeof *w + (size_t)ch->n * sizeof w->base[0]);
    if (!w)
        return hr_fail(HR_ERR_NOMEM, NULL, "a window of %zu bytes", bytes);
    atomic_init(&w->members, ch->n);
    w->bytes = bytes;
    w->offset = ch->windows_end;
    for (int i = 0; i < ch->n; i++)
        w->base[i] = ch->members[i].shown;
    ch->windows_end +=
        (int64_t)((bytes + WINDOW_ALIGN - 1) / WINDOW_ALIGN * WINDOW_ALIGN);
    ch->window = w;
    return HR_OK;
}

hr_status hr__local_window_join(hr_group *g, void *base, size_t bytes, hr__window **out)
{
    hr__member *m = hr__member_of(g);
    hr__entry entry = {
        .op = "window", .bytes = (int64_t)bytes, .label = &m->base.label};
    HR_TRY(hr__job_status(m->ch->job));
    m->shown = base;
    m->shown_bytes = bytes;
    hr_status st = hr__channel_meet_host(m, &entry, make_window);
    if (st < 0) {
        hr__job_fail(m->ch->job, m->ch->global[m->me], st);
        return hr__job_status(m->ch->job);
    }
    *out = m->ch->window;
    return HR_OK;
}

void hr__local_window_leave(hr__window *w)
{
    if (atomic_fetch_sub(&w->members, 1) == 1)
        free(w);
}

/* ---- rows ---- */
static const hr_rows *rows_of(const void *ch, int member)
{
    return &((const hr__channel *)ch)->members[member].posted->call.rows;
}

hr_status hr__local_rows_check(hr__channel *ch, hr__where where)
{
    return hr__rows_check(
        &(hr__rows_view){.n = ch->n, .global = ch->global, .of = rows_of, .ctx = ch},
        where);
}
