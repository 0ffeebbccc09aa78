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
    size_t bytes = ch->members[0].window_bytes;
    for (int i = 1; i < ch->n; i++)
        if (ch->members[i].window_bytes != bytes)
            return hr_fail(HR_ERR_MISMATCH, "window_mismatch",
                           "%s: rank %d asks for %zu bytes but rank %d for %zu",
                           hr__channel_where(ch, "window", 0, NULL).text, ch->global[0],
                           bytes, ch->global[i], ch->members[i].window_bytes);
    hr__window *w = malloc(sizeof *w + (size_t)ch->n * sizeof w->base[0]);
    if (!w)
        return hr_fail(HR_ERR_NOMEM, NULL, "a window of %zu bytes", bytes);
    atomic_init(&w->members, ch->n);
    w->bytes = bytes;
    w->offset = ch->windows_end;
    for (int i = 0; i < ch->n; i++)
        w->base[i] = ch->members[i].window_base;
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
    m->window_base = base;
    m->window_bytes = bytes;
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
static int64_t count_of(const hr__call *c, int n, int from, int part)
{
    return c->rows.counts[(int64_t)from * n * c->rows.parts + part];
}

static hr_status check_pair(hr__channel *ch, hr__where where, int i, int from, int part)
{
    const hr__call *first = &ch->members[0].posted->call;
    int64_t a = count_of(first, ch->n, from, part);
    int64_t b = count_of(&ch->members[i].posted->call, ch->n, from, part);
    int to = part / first->rows.parts;
    if (a != b)
        return hr_fail(
            HR_ERR_MISMATCH, "count_mismatch",
            "%s: of rank %d for part %d of rank %d, rank %d counts %lld rows "
            "but rank %d %lld",
            where.text, ch->global[from], part % first->rows.parts, ch->global[to],
            ch->global[0], (long long)a, ch->global[i], (long long)b);
    if (a < 0)
        return hr_fail(HR_ERR_INVALID, "count",
                       "%s: of rank %d for part %d of rank %d: %lld rows", where.text,
                       ch->global[from], part % first->rows.parts, ch->global[to],
                       (long long)a);
    return HR_OK;
}

hr_status hr__rows_check(hr__channel *ch, hr__where where)
{
    const int parts = ch->n * ch->members[0].posted->call.rows.parts;
    for (int from = 0; from < ch->n; from++) {
        const hr__call *c = &ch->members[from].posted->call;
        int64_t sent = 0;
        for (int part = 0; part < parts; part++) {
            for (int i = 0; i < ch->n; i++)
                HR_TRY(check_pair(ch, where, i, from, part));
            sent += count_of(c, ch->n, from, part);
        }
        if (sent > c->rows.plain_rows)
            return hr_fail(HR_ERR_INVALID, "count",
                           "%s: rank %d has room for %lld rows, but the counts say "
                           "%lld",
                           where.text, ch->global[from], (long long)c->rows.plain_rows,
                           (long long)sent);
    }
    return HR_OK;
}

/* Rows between plain memory and the peer's window; those past its end are left out. */
static void move_part(const hr__call *c, int peer, int64_t row, char *plain,
                      int64_t count)
{
    size_t rb = c->rows.row_bytes;
    int64_t room = row < c->rows.window_rows ? c->rows.window_rows - row : 0;
    int64_t fits = count < room ? count : room;
    char *remote = (char *)c->window->base[peer] + c->rows.at + row * (int64_t)rb;
    if (fits > 0 && c->kind == HR__ROWS_STORE)
        memcpy(remote, plain, (size_t)fits * rb);
    else if (fits > 0)
        memcpy(plain, remote, (size_t)fits * rb);
    if (count > fits && c->kind == HR__ROWS_LOAD)
        memset(plain + fits * (int64_t)rb, 0, (size_t)(count - fits) * rb);
}

void hr__rows_move(hr__member *m, const hr__post *p)
{
    const hr__call *c = &p->call;
    int n = m->ch->n;
    char *plain = c->rows.plain;
    for (int peer = 0; peer < n; peer++) {
        int64_t row = 0; /* of the peer's window */
        for (int l = 0; l < c->rows.parts; l++) {
            int part = peer * c->rows.parts + l;
            for (int from = 0; from < n; from++) {
                int64_t count = count_of(c, n, from, part);
                if (from == m->me && count > 0) {
                    move_part(c, peer, row, plain, count);
                    plain += count * (int64_t)c->rows.row_bytes;
                }
                row += count;
            }
        }
    }
}

int64_t hr__rows_bytes(const hr__member *m, const hr__post *p)
{
    const hr__call *c = &p->call;
    int n = m->ch->n, parts = c->rows.parts;
    int64_t out = 0, in = 0;
    for (int peer = 0; peer < n; peer++)
        for (int l = 0; peer != m->me && l < parts; l++) {
            out += count_of(c, n, m->me, peer * parts + l);
            in += count_of(c, n, peer, m->me * parts + l);
        }
    return (out > in ? out : in) * (int64_t)c->rows.row_bytes;
}

int hr__rows_declare(const hr__post *p, int n, hr_operand *o)
{
    const hr_rows *r = &p->call.rows;
    bool store = p->call.kind == HR__ROWS_STORE;
    size_t cells = (size_t)n * (size_t)n * (size_t)r->parts;
    char *mine = (char *)p->call.window->base[p->me->me] + r->at;
    o[0] = (hr_operand){r->counts, cells * sizeof *r->counts, HR_READ};
    o[1] = (hr_operand){mine, (size_t)r->window_rows * r->row_bytes,
                        store ? HR_WRITE : HR_READ};
    o[2] = (hr_operand){r->plain, (size_t)r->plain_rows * r->row_bytes,
                        store ? HR_READ : HR_WRITE};
    return 3;
}
