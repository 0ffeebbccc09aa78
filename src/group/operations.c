/* Operations of groups: the checks of arguments, once, before an engine gets them, and the order
 * of one operation after the other. */
#include "base/try.h"
#include "group/alone.h"
#include "group/group_ops.h"
#include "group/reduce.h"
#include "headrace/group.h"

const char *hr__op_name(hr__op_kind k)
{
    static const char *const names[] = {
        [HR__BARRIER] = "barrier",
        [HR__ALL_TO_ALL] = "all_to_all",
        [HR__ALL_REDUCE] = "all_reduce",
        [HR__ALL_GATHER] = "all_gather",
        [HR__REDUCE_SCATTER] = "reduce_scatter",
        [HR__BROADCAST] = "broadcast",
        [HR__ROWS_STORE] = "rows_store",
        [HR__ROWS_LOAD] = "rows_load",
    };
    return names[k];
}

hr__call_text hr__call_describe(const hr__call *c)
{
    static const char *const reduce[] = {"sum", "max", "min"};
    const char *name = hr__op_name(c->kind);
    hr__call_text w;
    switch (c->kind) {
    case HR__ALL_TO_ALL:
        snprintf(w.text, sizeof w.text, "%s (elements of %zu bytes)", name,
                 c->element_bytes);
        break;
    case HR__ALL_REDUCE:
    case HR__REDUCE_SCATTER:
        snprintf(w.text, sizeof w.text, "%s (%s of %lld %s)", name, reduce[c->reduce],
                 (long long)c->count, hr_dtype_name(c->dtype));
        break;
    case HR__ALL_GATHER:
        snprintf(w.text, sizeof w.text, "%s (%lld %s)", name, (long long)c->count,
                 hr_dtype_name(c->dtype));
        break;
    case HR__BROADCAST:
        snprintf(w.text, sizeof w.text, "%s (%lld bytes from member %d)", name,
                 (long long)c->count, c->root);
        break;
    case HR__BARRIER:
        snprintf(w.text, sizeof w.text, "%s", name);
        break;
    case HR__ROWS_STORE:
    case HR__ROWS_LOAD:
        snprintf(w.text, sizeof w.text, "%s (%lld rows of %zu bytes at %lld, %d parts)",
                 name, (long long)c->count, c->element_bytes,
                 (long long)c->window->offset + (long long)c->rows.at, c->rows.parts);
        break;
    }
    return w;
}

bool hr__call_same(const hr__call *a, const hr__call *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->reduce == b->reduce &&
           a->root == b->root && a->count == b->count &&
           a->element_bytes == b->element_bytes && a->window == b->window &&
           a->rows.at == b->rows.at && a->rows.parts == b->rows.parts;
}

/* ---- checks ---- */
hr_status hr__group_check_place(const hr_group *g, const hr_stream *s, const char *what)
{
    if (!g || !s)
        return hr_fail(HR_ERR_INVALID, NULL, "%s: no %s", what, g ? "stream" : "group");
    if (hr_stream_device(s) != g->dev)
        return hr_fail(HR_ERR_INVALID, "other_device",
                       "%s: stream '%s' is not of the group's device", what,
                       hr_stream_name(s));
    return HR_OK;
}

/* `count` elements at `buf`, repeated `times`: a size that exists, and memory if it is not 0. */
static hr_status check_buffer(const char *what, const char *name, const void *buf,
                              int64_t count, int times, size_t element_bytes)
{
    if (count < 0)
        return hr_fail(HR_ERR_INVALID, "count", "%s: %s count is %lld", what, name,
                       (long long)count);
    if (count > 0 && !buf)
        return hr_fail(HR_ERR_INVALID, "no_buffer", "%s: %s is NULL with %lld elements",
                       what, name, (long long)count);
    if ((uint64_t)count > (uint64_t)PTRDIFF_MAX / element_bytes / (unsigned)times)
        return hr_fail(HR_ERR_INVALID, "count",
                       "%s: %lld elements of %zu bytes do not fit memory", what,
                       (long long)count, element_bytes);
    return HR_OK;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a_bytes && b_bytes && x < y + b_bytes && y < x + a_bytes;
}

static hr_status check_dtype(const char *what, hr_dtype t, bool reduces)
{
    if ((int)t < HR_F32 || t > HR_U8)
        return hr_fail(HR_ERR_INVALID, "dtype", "%s: %d is no type", what, (int)t);
    if (reduces && !hr__reduce_takes(t))
        return hr_fail(HR_ERR_INVALID, "dtype",
                       "%s: %s cannot be reduced; f32, i32, i64", what,
                       hr_dtype_name(t));
    return HR_OK;
}

static hr_status check_reduce(const char *what, hr_reduce op)
{
    if ((int)op < HR_SUM || op > HR_MIN)
        return hr_fail(HR_ERR_INVALID, "reduce", "%s: %d is no reduction", what,
                       (int)op);
    return HR_OK;
}

/* Both buffers of a call of typed elements. `in_place` is where recv may coincide with send
 * byte for byte; any other overlap is refused. */
struct sides {
    int send_times, recv_times;
    const void *in_place_recv;
};

static const void *offset(const void *base, int64_t bytes)
{
    return base ? (const char *)base + bytes : NULL;
}

static hr_status check_sides(const hr__call *c, const struct sides *d)
{
    const char *what = hr__op_name(c->kind);
    size_t each = (size_t)c->count * c->element_bytes;
    if ((uintptr_t)c->send % c->element_bytes || (uintptr_t)c->recv % c->element_bytes)
        return hr_fail(HR_ERR_INVALID, "alignment", "%s: not aligned to %zu bytes",
                       what, c->element_bytes);
    if (c->recv != d->in_place_recv && overlap(c->send, each * (size_t)d->send_times,
                                               c->recv, each * (size_t)d->recv_times))
        return hr_fail(HR_ERR_INVALID, "overlap",
                       "%s: send and recv overlap without being in place", what);
    return HR_OK;
}

hr_status hr__group_issue(hr_group *g, const hr__call *c, hr_stream *s)
{
    HR_TRY(hr__order_check(&g->order, s, hr__op_name(c->kind)));
    HR_TRY(hr__alone_takes(g, c) ? hr__alone_collective(g, c, s)
                                 : g->ops->collective(g, c, s));
    hr__order_note(&g->order, s);
    return HR_OK;
}

/* ---- the operations ---- */
hr_status hr_group_batch(hr_group *g, const hr_p2p *ops, int n, hr_stream *s)
{
    HR_TRY(hr__group_check_place(g, s, "send_recv"));
    if (n < 0 || (n > 0 && !ops))
        return hr_fail(HR_ERR_INVALID, NULL, "send_recv: %d messages at %p", n,
                       (const void *)ops);
    for (int i = 0; i < n; i++) {
        if (ops[i].peer < 0 || ops[i].peer >= g->size)
            return hr_fail(HR_ERR_INVALID, "peer",
                           "send_recv: message %d is for member %d, outside 0..%d", i,
                           ops[i].peer, g->size - 1);
        if (ops[i].bytes && !ops[i].buf)
            return hr_fail(HR_ERR_INVALID, "no_buffer",
                           "send_recv: message %d is NULL with %zu bytes", i,
                           ops[i].bytes);
    }
    if (n == 0)
        return HR_OK;
    HR_TRY(hr__order_check(&g->order, s, "send_recv"));
    HR_TRY(g->ops->batch(g, ops, n, s));
    hr__order_note(&g->order, s);
    return HR_OK;
}

static hr_status check_parts(const hr_group *g, const char *name, const void *buf,
                             const int64_t *counts, size_t element_bytes, size_t *bytes)
{
    const char *what = hr__op_name(HR__ALL_TO_ALL);
    int64_t total = 0;
    if (!counts)
        return hr_fail(HR_ERR_INVALID, NULL, "%s: no %s counts", what, name);
    for (int r = 0; r < g->size; r++) {
        if (counts[r] < 0 || counts[r] > INT64_MAX - total)
            return hr_fail(HR_ERR_INVALID, "count", "%s: %s count of member %d is %lld",
                           what, name, r, (long long)counts[r]);
        total += counts[r];
    }
    HR_TRY(check_buffer(what, name, buf, total, 1, element_bytes));
    *bytes = (size_t)total * element_bytes;
    return HR_OK;
}

hr_status hr_all_to_all_v(hr_group *g, const void *send, const int64_t *send_counts,
                          void *recv, const int64_t *recv_counts, size_t element_bytes,
                          hr_stream *s)
{
    const char *what = hr__op_name(HR__ALL_TO_ALL);
    size_t out, in;
    HR_TRY(hr__group_check_place(g, s, what));
    if (element_bytes == 0)
        return hr_fail(HR_ERR_INVALID, "count", "%s: elements of 0 bytes", what);
    HR_TRY(check_parts(g, "send", send, send_counts, element_bytes, &out));
    HR_TRY(check_parts(g, "recv", recv, recv_counts, element_bytes, &in));
    if (overlap(send, out, recv, in))
        return hr_fail(HR_ERR_INVALID, "overlap", "%s: send and recv overlap", what);
    return hr__group_issue(g,
                           &(hr__call){.kind = HR__ALL_TO_ALL,
                                       .send = send,
                                       .recv = recv,
                                       .send_counts = send_counts,
                                       .recv_counts = recv_counts,
                                       .element_bytes = element_bytes},
                           s);
}

/* The three with typed elements and two buffers. */
static hr_status typed(hr_group *g, hr__call c, int send_times, int recv_times,
                       hr_stream *s)
{
    const char *what = hr__op_name(c.kind);
    HR_TRY(check_dtype(what, c.dtype, c.kind != HR__ALL_GATHER));
    HR_TRY(check_reduce(what, c.reduce));
    c.element_bytes = hr_dtype_bytes(c.dtype);
    HR_TRY(check_buffer(what, "send", c.send, c.count, send_times, c.element_bytes));
    HR_TRY(check_buffer(what, "recv", c.recv, c.count, recv_times, c.element_bytes));
    struct sides d = {send_times, recv_times, c.send};
    int64_t mine = g->rank * c.count * (int64_t)c.element_bytes;
    if (c.kind == HR__ALL_GATHER) /* send is my part of recv */
        d.in_place_recv = offset(c.recv, mine) == c.send ? c.recv : NULL;
    else if (c.kind == HR__REDUCE_SCATTER) /* recv is my part of send */
        d.in_place_recv = offset(c.send, mine);
    HR_TRY(check_sides(&c, &d));
    return hr__group_issue(g, &c, s);
}

hr_status hr_all_reduce(hr_group *g, const void *send, void *recv, int64_t count,
                        hr_dtype t, hr_reduce op, hr_stream *s)
{
    hr__call c = {.kind = HR__ALL_REDUCE,
                  .dtype = t,
                  .reduce = op,
                  .count = count,
                  .send = send,
                  .recv = recv};
    HR_TRY(hr__group_check_place(g, s, hr__op_name(c.kind)));
    return typed(g, c, 1, 1, s);
}

hr_status hr_all_gather(hr_group *g, const void *send, void *recv, int64_t count,
                        hr_dtype t, hr_stream *s)
{
    hr__call c = {
        .kind = HR__ALL_GATHER, .dtype = t, .count = count, .send = send, .recv = recv};
    HR_TRY(hr__group_check_place(g, s, hr__op_name(c.kind)));
    return typed(g, c, 1, g->size, s);
}

hr_status hr_reduce_scatter(hr_group *g, const void *send, void *recv, int64_t count,
                            hr_dtype t, hr_reduce op, hr_stream *s)
{
    hr__call c = {.kind = HR__REDUCE_SCATTER,
                  .dtype = t,
                  .reduce = op,
                  .count = count,
                  .send = send,
                  .recv = recv};
    HR_TRY(hr__group_check_place(g, s, hr__op_name(c.kind)));
    return typed(g, c, g->size, 1, s);
}

hr_status hr_broadcast(hr_group *g, void *buf, size_t bytes, int root, hr_stream *s)
{
    const char *what = hr__op_name(HR__BROADCAST);
    HR_TRY(hr__group_check_place(g, s, what));
    if (root < 0 || root >= g->size)
        return hr_fail(HR_ERR_INVALID, "peer", "%s: root is member %d, outside 0..%d",
                       what, root, g->size - 1);
    if (bytes > PTRDIFF_MAX)
        return hr_fail(HR_ERR_INVALID, "count", "%s: %zu bytes", what, bytes);
    HR_TRY(check_buffer(what, "buf", buf, (int64_t)bytes, 1, 1));
    return hr__group_issue(g,
                           &(hr__call){.kind = HR__BROADCAST,
                                       .recv = buf,
                                       .count = (int64_t)bytes,
                                       .element_bytes = 1,
                                       .root = root},
                           s);
}

hr_status hr_barrier(hr_group *g, hr_stream *s)
{
    HR_TRY(hr__group_check_place(g, s, hr__op_name(HR__BARRIER)));
    return hr__group_issue(g, &(hr__call){.kind = HR__BARRIER, .element_bytes = 1}, s);
}
