/* Rows between plain memory and windows: what all engines with symmetric memory do alike. The engine sees
 * to it that all members are there before the move, and through with it after. */
#include "group/rows.h"
#include "base/try.h"
#include <string.h>

static int64_t count_of(const hr_rows *r, int n, int from, int part)
{
    return r->counts[(int64_t)from * n * r->parts + part];
}

static hr_status check_pair(const hr__rows_view *v, hr__where where, int i, int from,
                            int part)
{
    const hr_rows *first = v->of(v->ctx, 0);
    int64_t a = count_of(first, v->n, from, part);
    int64_t b = count_of(v->of(v->ctx, i), v->n, from, part);
    int to = part / first->parts;
    if (a != b)
        return hr_fail(
            HR_ERR_MISMATCH, "count_mismatch",
            "%s: of rank %d for part %d of rank %d, rank %d counts %lld rows "
            "but rank %d %lld",
            where.text, v->global[from], part % first->parts, v->global[to],
            v->global[0], (long long)a, v->global[i], (long long)b);
    if (a < 0)
        return hr_fail(HR_ERR_INVALID, "count",
                       "%s: of rank %d for part %d of rank %d: %lld rows", where.text,
                       v->global[from], part % first->parts, v->global[to],
                       (long long)a);
    return HR_OK;
}

hr_status hr__rows_check(const hr__rows_view *v, hr__where where)
{
    const int parts = v->n * v->of(v->ctx, 0)->parts;
    for (int from = 0; from < v->n; from++) {
        const hr_rows *r = v->of(v->ctx, from);
        int64_t sent = 0;
        for (int part = 0; part < parts; part++) {
            for (int i = 0; i < v->n; i++)
                HR_TRY(check_pair(v, where, i, from, part));
            sent += count_of(r, v->n, from, part);
        }
        if (sent > r->plain_rows)
            return hr_fail(HR_ERR_INVALID, "count",
                           "%s: rank %d has room for %lld rows, but the counts say "
                           "%lld",
                           where.text, v->global[from], (long long)r->plain_rows,
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

void hr__rows_move(const hr__call *c, int n, int me)
{
    char *plain = c->rows.plain;
    for (int peer = 0; peer < n; peer++) {
        int64_t row = 0; /* of the peer's window */
        for (int l = 0; l < c->rows.parts; l++) {
            int part = peer * c->rows.parts + l;
            for (int from = 0; from < n; from++) {
                int64_t count = count_of(&c->rows, n, from, part);
                if (from == me && count > 0) {
                    move_part(c, peer, row, plain, count);
                    plain += count * (int64_t)c->rows.row_bytes;
                }
                row += count;
            }
        }
    }
}

int64_t hr__rows_bytes(const hr__call *c, int n, int me)
{
    int parts = c->rows.parts;
    int64_t out = 0, in = 0;
    for (int peer = 0; peer < n; peer++)
        for (int l = 0; peer != me && l < parts; l++) {
            out += count_of(&c->rows, n, me, peer * parts + l);
            in += count_of(&c->rows, n, peer, me * parts + l);
        }
    return (out > in ? out : in) * (int64_t)c->rows.row_bytes;
}

int hr__rows_declare(const hr__call *c, int n, int me, hr_operand *o)
{
    const hr_rows *r = &c->rows;
    bool store = c->kind == HR__ROWS_STORE;
    size_t cells = (size_t)n * (size_t)n * (size_t)r->parts;
    char *mine = (char *)c->window->base[me] + r->at;
    o[0] = (hr_operand){r->counts, cells * sizeof *r->counts, HR_READ};
    o[1] = (hr_operand){mine, (size_t)r->window_rows * r->row_bytes,
                        store ? HR_WRITE : HR_READ};
    o[2] = (hr_operand){r->plain, (size_t)r->plain_rows * r->row_bytes,
                        store ? HR_READ : HR_WRITE};
    return 3;
}
