/* Collectives: one step in which every member says to every other what it was called with, and the bytes
 * go where they belong. Sums are taken here, in rank order, from the bytes of all: no reduction of MPI
 * promises an order.
 *
 * all_reduce cuts the elements by member: each reduces its own part from all sources, and a second step,
 * which needs no words any more, brings the parts to all. So does a long broadcast, whose root sends each
 * member its part: no link carries the whole more than twice, however many members there are. */
#include "base/try.h"
#include "group/group_spans.h"
#include "group/mpi/mpi_symmetric.h"
#include "group/reduce.h"
#include <stdlib.h>
#include <string.h>

typedef struct collective {
    hr__mpi_member *m;
    const hr__post *p;
    const hr__call *c;
    hr__mpi_exchange *x;
    int n, me;
    size_t eb;
} collective;

/* ---- agreement ---- */
static hr__where where_of(const hr__mpi_member *m, const hr__head *head)
{
    const hr_op_label label = {head->what[0] ? head->what : NULL, head->stage,
                               head->chunk, head->microbatch};
    return hr__where_write(m->global, m->base.size, "operation", m->ops, &label);
}

static bool same(const hr__head *a, const hr__head *b)
{
    return hr__call_same(&a->call, &b->call) && a->window_offset == b->window_offset;
}

static hr_status check(hr__mpi_exchange *x, const hr__leg *leg, const hr__head *head)
{
    const int *global = x->m->global;
    if (!same(head, &x->mine))
        return HR_PENDING; /* until all have said what they do */
    if ((size_t)head->bytes == leg->bytes)
        return HR_OK;
    return hr_fail(HR_ERR_MISMATCH, "count_mismatch",
                   "%s: rank %d sends %lld elements to rank %d, which expects %lld",
                   where_of(x->m, head).text, global[leg->peer],
                   (long long)head->elements, global[x->m->base.rank],
                   (long long)leg->elements);
}

static hr__call_text describe(const hr__head *head)
{
    hr__call c = head->call;
    hr__window *w = calloc(1, sizeof *w);
    hr__call_text text = {""};
    if (!w)
        return text;
    w->offset = head->window_offset;
    c.window = w;
    text = hr__call_describe(&c);
    free(w);
    return text;
}

static hr_status disagree(const collective *k, const hr__head *first,
                          const hr__head *other, int i)
{
    return hr_fail(HR_ERR_MISMATCH, "call_mismatch",
                   "%s: rank %d calls %s but rank %d calls %s",
                   where_of(k->m, first).text, k->m->global[0], describe(first).text,
                   k->m->global[i], describe(other).text);
}

/* Member 0's, once all heads are here. */
static const hr__head *first_head(const collective *k)
{
    for (int i = 0; i < k->x->n; i++)
        if (!k->x->legs[i].send && k->x->legs[i].peer == 0)
            return hr__exchange_head(k->x, &k->x->legs[i]);
    return &k->x->mine;
}

/* All heads are here: the same sentence on whoever finds it. */
static hr_status check_all(const collective *k)
{
    const hr__head *first = first_head(k);
    bool held = false;
    for (int i = 0; i < k->x->n; i++)
        held = held || k->x->legs[i].stage == HR__LEG_HELD;
    for (int i = 0; held && i < k->x->n; i++) {
        const hr__leg *leg = &k->x->legs[i];
        if (!leg->send && !same(first, hr__exchange_head(k->x, leg)))
            return disagree(k, first, hr__exchange_head(k->x, leg), leg->peer);
    }
    return held ? disagree(k, first, &k->x->mine, k->me) : HR_OK;
}

static void write_head(const collective *k)
{
    hr__head *h = &k->x->mine;
    const hr_op_label *l = &k->p->label;
    *h = (hr__head){.call = *k->c,
                    .stage = l->stage,
                    .chunk = l->chunk,
                    .microbatch = l->microbatch};
    if (l->what)
        snprintf(h->what, sizeof h->what, "%s", l->what);
    if (h->call.window)
        h->window_offset = h->call.window->offset;
    h->call.send = h->call.recv = NULL;
    h->call.window = NULL;
    h->call.rows.window = NULL;
    h->call.rows.plain = NULL;
    h->call.rows.counts = NULL;
}

/* ---- which bytes go where ---- */
static char *at(const void *base, int64_t element, size_t element_bytes)
{
    return base ? (char *)(uintptr_t)base + element * (int64_t)element_bytes : NULL;
}

static hr_status reserve(hr__mpi_member *m, size_t bytes)
{
    if (bytes <= m->scratch_bytes)
        return HR_OK;
    free(m->scratch);
    m->scratch = malloc(bytes);
    m->scratch_bytes = m->scratch ? bytes : 0;
    return m->scratch ? HR_OK
                      : hr_fail(HR_ERR_NOMEM, NULL, "%zu bytes to reduce", bytes);
}

/* Where member r's part begins; the whole for r = n. */
static int64_t part_begin(int64_t count, int n, int r)
{
    int64_t rest = count % n;
    return count / n * r + (r < rest ? r : rest);
}

/* Of a broadcast: it is worth a second step. Over shared memory all read from the root at once, and what
 * is short is through before the members have met again. */
static bool in_parts(const collective *k)
{
    enum { FEW_BYTES = 262144, FEW_MEMBERS = 3 };
    return k->c->kind == HR__BROADCAST && k->n > FEW_MEMBERS && k->c->count > FEW_BYTES;
}

static int64_t part_count(const collective *k, int r)
{
    if (k->c->kind == HR__REDUCE_SCATTER)
        return k->c->count;
    return part_begin(k->c->count, k->n, r + 1) - part_begin(k->c->count, k->n, r);
}

/* Where part r is in the sources of a reduction. */
static char *part_of(const collective *k, const void *base, int r)
{
    int64_t begin = k->c->kind == HR__REDUCE_SCATTER ? r * k->c->count
                                                     : part_begin(k->c->count, k->n, r);
    return at(base, begin, k->eb);
}

/* Of rows: how many counts there are. */
static int64_t cells(const collective *k)
{
    return (int64_t)k->n * k->n * k->c->rows.parts;
}

typedef struct bytes_of {
    const char *send;
    char *recv;
    int64_t out, in; /* elements */
} bytes_of;

/* What member r gets from me, and I from it. `sent`, `got`: all-to-all, elements so far. */
static bytes_of between(const collective *k, int r, int64_t sent, int64_t got)
{
    const hr__call *c = k->c;
    switch (c->kind) {
    case HR__ALL_TO_ALL:
        return (bytes_of){at(c->send, sent, k->eb), at(c->recv, got, k->eb),
                          k->p->send_counts[r], k->p->recv_counts[r]};
    case HR__ALL_GATHER:
        return (bytes_of){c->send, at(c->recv, r * c->count, k->eb), c->count,
                          c->count};
    case HR__ALL_REDUCE:
    case HR__REDUCE_SCATTER:
        return (bytes_of){part_of(k, c->send, r),
                          k->m->scratch + r * part_count(k, k->me) * (int64_t)k->eb,
                          part_count(k, r), part_count(k, k->me)};
    case HR__BROADCAST:
        if (in_parts(k))
            return (bytes_of){part_of(k, c->recv, r), part_of(k, c->recv, k->me),
                              k->me == c->root ? part_count(k, r) : 0,
                              r == c->root ? part_count(k, k->me) : 0};
        return (bytes_of){c->recv, c->recv, k->me == c->root ? c->count : 0,
                          r == c->root ? c->count : 0};
    case HR__ROWS_STORE:
    case HR__ROWS_LOAD: /* all counts to all */
        return (bytes_of){(const char *)c->rows.counts,
                          k->m->scratch + r * cells(k) * (int64_t)k->eb, cells(k),
                          cells(k)};
    case HR__BARRIER:
        break;
    }
    return (bytes_of){0};
}

/* Adds the first step; returns what the busier direction carries, in *carried. */
static hr_status plan(const collective *k, int64_t *carried)
{
    int64_t sent = 0, got = 0, out = 0, in = 0;
    for (int r = 0; r < k->n; r++) {
        bytes_of b = between(k, r, sent, got);
        sent += b.out;
        got += b.in;
        if (r == k->me)
            continue;
        HR_TRY(hr__exchange_add(k->x, true, r, b.send, (size_t)b.out * k->eb, b.out));
        HR_TRY(hr__exchange_add(k->x, false, r, b.recv, (size_t)b.in * k->eb, b.in));
        out += b.out;
        in += b.in;
    }
    *carried = (out > in ? out : in) * (int64_t)k->eb;
    return HR_OK;
}

/* ---- what is done here ---- */
static void keep_own(const collective *k)
{
    int64_t sent = 0, got = 0;
    for (int r = 0; r < k->me; r++) {
        bytes_of b = between(k, r, sent, got);
        sent += b.out;
        got += b.in;
    }
    bytes_of own = between(k, k->me, sent, got);
    if (own.in > 0 && own.recv && own.send && own.recv != own.send)
        memcpy(own.recv, own.send, (size_t)own.in * k->eb);
}

/* My part of all sources, reduced in rank order. */
static void reduce_own(const collective *k)
{
    const hr__call *c = k->c;
    int64_t count = part_count(k, k->me);
    if (count <= 0)
        return;
    for (int r = 0; r < k->n; r++)
        k->m->inputs[r] = r == k->me ? part_of(k, c->send, k->me)
                                     : k->m->scratch + r * count * (int64_t)k->eb;
    void *to = c->kind == HR__REDUCE_SCATTER ? c->recv : part_of(k, c->recv, k->me);
    hr__reduce(c->dtype, c->reduce, to, k->m->inputs, k->n, count);
}

/* The second step: all parts go to all, but for a root, which has them. All my sends of the first are
 * through, so that recv may be send. */
static hr_status share(const collective *k, const hr__mpi_step *step)
{
    int root = k->c->kind == HR__BROADCAST ? k->c->root : -1;
    hr__exchange_begin(k->x, true);
    for (int r = 0; r < k->n; r++) {
        if (r == k->me)
            continue;
        size_t own = (size_t)part_count(k, k->me) * k->eb;
        size_t theirs = (size_t)part_count(k, r) * k->eb;
        if (r != root)
            HR_TRY(
                hr__exchange_add(k->x, true, r, part_of(k, k->c->recv, k->me), own, 0));
        if (k->me != root)
            HR_TRY(
                hr__exchange_add(k->x, false, r, part_of(k, k->c->recv, r), theirs, 0));
    }
    return hr__mpi_step_run(step);
}

/* All members are in it, so their windows may be touched; and none leaves before all are through. */
static hr_status move_rows(const collective *k, const hr__mpi_step *step)
{
    HR_TRY(hr__mpi_rows_check(k->m, k->c, where_of(k->m, first_head(k))));
    atomic_fetch_add(&k->m->fence, 1);
    hr__rows_move(k->c, k->n, k->me);
    atomic_fetch_add(&k->m->fence, 1);
    hr__exchange_begin(k->x, true);
    for (int r = 0; r < k->n; r++) {
        if (r == k->me)
            continue;
        HR_TRY(hr__exchange_add(k->x, true, r, NULL, 0, 0));
        HR_TRY(hr__exchange_add(k->x, false, r, NULL, 0, 0));
    }
    return hr__mpi_step_run(step);
}

static hr_status finish(const collective *k, const hr__mpi_step *step)
{
    switch (k->c->kind) {
    case HR__ALL_TO_ALL:
    case HR__ALL_GATHER:
        keep_own(k);
        break;
    case HR__REDUCE_SCATTER:
        reduce_own(k);
        break;
    case HR__ALL_REDUCE:
        reduce_own(k);
        return share(k, step);
    case HR__ROWS_STORE:
    case HR__ROWS_LOAD:
        return move_rows(k, step);
    case HR__BROADCAST:
        return in_parts(k) ? share(k, step) : HR_OK;
    case HR__BARRIER:
        break;
    }
    return HR_OK;
}

/* ---- the kernel ---- */
static hr_status run(const hr__post *p)
{
    hr__mpi_member *m = hr__mpi_member_of(p->of);
    collective k = {.m = m,
                    .p = p,
                    .c = &p->call,
                    .x = &m->work,
                    .n = m->base.size,
                    .me = m->base.rank,
                    .eb = p->call.element_bytes};
    hr__entry entry = {
        .op = hr__op_name(k.c->kind), .seq = m->ops, .bytes = -1, .label = &p->label};
    hr__mpi_step step = {.m = m, .x = k.x, .entry = &entry, .late = hr__mpi_step_late};
    int64_t arrived = hr_now_ns();
    hr__doing_begin(&m->doing, &entry);
    bool rows = k.c->window != NULL;
    if (rows)
        k.eb = sizeof(int32_t); /* counts travel; the rows themselves do not */
    if (rows || k.c->kind == HR__REDUCE_SCATTER || k.c->kind == HR__ALL_REDUCE)
        HR_TRY(reserve(m, (size_t)((rows ? cells(&k) : part_count(&k, k.me)) * k.n) *
                              k.eb));
    k.x->lane = HR__LANE_COLLECTIVE;
    k.x->check = check;
    hr__exchange_begin(k.x, false);
    write_head(&k);
    HR_TRY(plan(&k, &entry.bytes));
    if (rows)
        entry.bytes = hr__rows_bytes(k.c, k.n, k.me);
    else if (in_parts(&k))
        entry.bytes = k.c->count;
    hr__doing_bytes(&m->doing, entry.bytes);
    HR_TRY(hr__mpi_step_run(&step));
    int64_t met = k.x->met_ns;
    hr_status agreed = check_all(&k);
    if (agreed < 0)
        return hr__mpi_step_fail(&step, agreed); /* bytes were asked for already */
    HR_TRY(finish(&k, &step));
    m->ops++;
    hr__op_spans(entry.op, arrived, met);
    return HR_OK;
}

static hr_status collective_kernel(const void *args, hr_team *team)
{
    hr__post *p = *(hr__post *const *)args;
    hr_status st = run(p);
    hr__doing_end(&hr__mpi_member_of(p->of)->doing, st);
    hr__post_done(p);
    return st;
}

hr_status hr__mpi_collective(hr_group *g, const hr__call *c, hr_stream *s)
{
    hr__mpi_member *m = hr__mpi_member_of(g);
    hr__post *p;
    if (hr__mpi_failed(m->job))
        return HR_OK;
    HR_TRY(hr__post_take(&m->posts, g, s, &p));
    return hr__post_collective(p, c, collective_kernel, s);
}
