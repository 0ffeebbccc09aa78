/* Symmetric memory: windows, and the checks of the two operations that reach into them. Moving rows
 * is the engine's. */
#include "base/try.h"
#include "group/group_ops.h"
#include <stdlib.h>

struct hr_window {
    hr_group *g;    /* retained */
    hr_storage *st; /* this member's part; one claim */
    hr__window *shared;
};

/* ---- windows ---- */
static hr_status join(hr_window *w, size_t bytes, hr_stream *home)
{
    HR_TRY(hr_storage_create(home, bytes, &w->st));
    hr_storage_set_symmetric(w->st, true);
    return w->g->ops->window_join(w->g, hr_storage_data(w->st), bytes, &w->shared);
}

static hr_status make(hr_window *w, size_t bytes, hr_stream *home)
{
    const hr_group_ops *ops = w->g->ops;
    HR_TRY(ops->window_make(w->g, bytes, &w->shared));
    void *mine = w->shared->base[w->g->rank];
    hr_status st =
        hr_storage_wrap(home, mine, bytes, ops->window_delete, w->shared, &w->st);
    if (st < 0) {
        ops->window_delete(w->shared, mine);
        return st;
    }
    hr_storage_set_symmetric(w->st, true);
    return HR_OK;
}

hr_status hr_window_create(hr_group *g, size_t bytes, hr_stream *home, hr_window **out)
{
    static const char what[] = "hr_window_create";
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "%s: `out` is NULL", what);
    *out = NULL;
    HR_TRY(hr__group_check_place(g, home, what));
    if (!g->ops->window_join && !g->ops->window_make)
        return hr_fail(HR_ERR_UNSUPPORTED, "no_symmetric",
                       "%s: engine '%s' has no symmetric memory", what, g->ops->name);
    if (bytes == 0 || bytes > PTRDIFF_MAX)
        return hr_fail(HR_ERR_INVALID, "count", "%s: %zu bytes", what, bytes);
    hr_window *w = calloc(1, sizeof *w);
    if (!w)
        return hr_fail(HR_ERR_NOMEM, NULL, "a window of %zu bytes", bytes);
    w->g = hr_group_retain(g);
    hr_status st = g->ops->window_make ? make(w, bytes, home) : join(w, bytes, home);
    if (st < 0) {
        hr_window_destroy(w);
        return st;
    }
    *out = w;
    return HR_OK;
}

void hr_window_destroy(hr_window *w)
{
    if (!w)
        return;
    hr__order_drain(&w->g->order, w->g->dev);
    if (w->shared)
        w->g->ops->window_leave(w->shared);
    hr_storage_release(w->st);
    hr_group_release(w->g);
    free(w);
}

hr_storage *hr_window_storage(const hr_window *w)
{
    return w ? w->st : NULL;
}

int64_t hr_window_offset(const hr_window *w)
{
    return w ? w->shared->offset : -1;
}

void *hr_window_peer(const hr_window *w, int rank)
{
    return w && rank >= 0 && rank < w->g->size ? w->shared->base[rank] : NULL;
}

/* ---- rows ---- */
static hr_status check_window(const char *what, const hr_group *g, const hr_rows *r)
{
    if (!r->window || r->window->g != g)
        return hr_fail(HR_ERR_INVALID, "window", "%s: %s", what,
                       r->window ? "the window belongs to another group" : "no window");
    size_t bytes = r->window->shared->bytes;
    if (r->window_rows < 0 || r->at > bytes ||
        (uint64_t)r->window_rows > (bytes - r->at) / r->row_bytes)
        return hr_fail(HR_ERR_INVALID, "bounds",
                       "%s: %lld rows of %zu bytes at %zu of a window of %zu", what,
                       (long long)r->window_rows, r->row_bytes, r->at, bytes);
    return HR_OK;
}

static hr_status check_rows(const char *what, const hr_group *g, const hr_rows *r)
{
    if (!r || !r->counts)
        return hr_fail(HR_ERR_INVALID, "null", "%s: no %s", what,
                       r ? "counts" : "rows");
    HR_CHECK_OPTS(r, hr_rows);
    if (r->parts < 1 || r->parts > INT32_MAX / g->size || r->row_bytes == 0)
        return hr_fail(HR_ERR_INVALID, "count", "%s: %d parts, rows of %zu bytes", what,
                       r->parts, r->row_bytes);
    HR_TRY(check_window(what, g, r));
    if (r->plain_rows < 0 || (uint64_t)r->plain_rows > PTRDIFF_MAX / r->row_bytes)
        return hr_fail(HR_ERR_INVALID, "count", "%s: %lld plain rows of %zu bytes",
                       what, (long long)r->plain_rows, r->row_bytes);
    if (r->plain_rows > 0 && !r->plain)
        return hr_fail(HR_ERR_INVALID, "no_buffer", "%s: plain is NULL with %lld rows",
                       what, (long long)r->plain_rows);
    return HR_OK;
}

static hr_status move(hr_group *g, const hr_rows *r, hr__op_kind kind, hr_stream *s)
{
    const char *what = hr__op_name(kind);
    HR_TRY(hr__group_check_place(g, s, what));
    HR_TRY(check_rows(what, g, r));
    hr_storage_record_stream(r->window->st, s);
    return hr__group_issue(g,
                           &(hr__call){.kind = kind,
                                       .count = r->window_rows,
                                       .element_bytes = r->row_bytes,
                                       .rows = *r,
                                       .window = r->window->shared},
                           s);
}

hr_status hr_rows_store(hr_group *g, const hr_rows *rows, hr_stream *s)
{
    return move(g, rows, HR__ROWS_STORE, s);
}

hr_status hr_rows_load(hr_group *g, const hr_rows *rows, hr_stream *s)
{
    return move(g, rows, HR__ROWS_LOAD, s);
}
