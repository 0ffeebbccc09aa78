/* Collectives: every member's kernel posts what it was called with, all meet, the last one
 * checks that they agree, each pulls what is its own out of the others' buffers, and all meet
 * again, after which the sources belong to their owners.
 *
 * all_reduce cuts the elements by member: each reduces its own part from all sources, straight
 * into its result, even in place, for nobody else reads that part of its source. A meeting
 * later the others fetch it from there. */
#include "group/local/local_collective.h"
#include "base/try.h"
#include "group/local/local_issues.h"
#include "group/local/local_link.h"
#include "group/local/local_manner.h"
#include "group/local/local_symmetric.h"
#include "group/reduce.h"
#include <string.h>

/* ---- agreement ---- */
static hr_status check_parts(hr__channel *ch, hr__where where)
{
    for (int from = 0; from < ch->n; from++)
        for (int to = 0; to < ch->n; to++) {
            int64_t sent = ch->members[from].posted->send_counts[to];
            int64_t wanted = ch->members[to].posted->recv_counts[from];
            if (sent != wanted)
                return hr_fail(HR_ERR_MISMATCH, "count_mismatch",
                               "%s: rank %d sends %lld elements to rank %d, which "
                               "expects %lld",
                               where.text, ch->global[from], (long long)sent,
                               ch->global[to], (long long)wanted);
        }
    return HR_OK;
}

/* For the last member to arrive: the one check for all, so that the message does not depend on
 * who finds it. */
static hr_status check_posts(hr__channel *ch, hr__member *m)
{
    const hr__call *first = &ch->members[0].posted->call;
    hr__where where =
        hr__channel_where(ch, "operation", m->ops, &ch->members[0].posted->label);
    ch->last_ns = m->arrived_ns;
    for (int i = 0; i < ch->n; i++)
        if (ch->members[i].arrived_ns > ch->last_ns)
            ch->last_ns = ch->members[i].arrived_ns;
    for (int i = 1; i < ch->n; i++) {
        const hr__call *other = &ch->members[i].posted->call;
        if (!hr__call_same(first, other))
            return hr_fail(HR_ERR_MISMATCH, "call_mismatch",
                           "%s: rank %d calls %s but rank %d calls %s", where.text,
                           ch->global[0], hr__call_describe(first).text, ch->global[i],
                           hr__call_describe(other).text);
    }
    if (first->kind == HR__ROWS_STORE || first->kind == HR__ROWS_LOAD)
        return hr__local_rows_check(ch, where);
    return first->kind == HR__ALL_TO_ALL ? check_parts(ch, where) : HR_OK;
}

/* ---- moving bytes ---- */
static void pull(void *to, const void *from, int64_t count, size_t element_bytes)
{
    if (count > 0 && to && from && to != from)
        memcpy(to, from, (size_t)count * element_bytes);
}

static const char *at(const void *base, int64_t element, size_t element_bytes)
{
    return base ? (const char *)base + element * (int64_t)element_bytes : NULL;
}

/* Where what `peer` sends to member `to` begins. */
static int64_t sent_before(const hr__post *peer, int to)
{
    int64_t sum = 0;
    for (int r = 0; r < to; r++)
        sum += peer->send_counts[r];
    return sum;
}

static void pull_all_to_all(hr__member *m, const hr__post *p)
{
    char *to = p->call.recv;
    size_t eb = p->call.element_bytes;
    for (int r = 0; r < m->ch->n; r++) {
        const hr__post *peer = m->ch->members[r].posted;
        int64_t count = p->recv_counts[r];
        pull(to, at(peer->call.send, sent_before(peer, m->me), eb), count, eb);
        if (count > 0)
            to += count * (int64_t)eb;
    }
}

static void pull_all_gather(hr__member *m, const hr__post *p)
{
    const hr__call *c = &p->call;
    for (int r = 0; r < m->ch->n; r++)
        pull((char *)(uintptr_t)at(c->recv, r * c->count, c->element_bytes),
             m->ch->members[r].posted->call.send, c->count, c->element_bytes);
}

/* Elements begin..begin+count-1 of all sources, reduced, to `out`. */
static void reduce_part(hr__member *m, const hr__call *c, void *out, int64_t begin,
                        int64_t count)
{
    if (count <= 0)
        return;
    for (int r = 0; r < m->ch->n; r++)
        m->inputs[r] = at(m->ch->members[r].posted->call.send, begin, c->element_bytes);
    hr__reduce(c->dtype, c->reduce, out, m->inputs, m->ch->n, count);
}

/* Where member r's part begins; the whole for r = n. */
static int64_t part_begin(int64_t count, int n, int r)
{
    int64_t rest = count % n;
    return count / n * r + (r < rest ? r : rest);
}

static void reduce_own_part(hr__member *m, const hr__call *c)
{
    int64_t begin = part_begin(c->count, m->ch->n, m->me);
    int64_t end = part_begin(c->count, m->ch->n, m->me + 1);
    char *mine = (char *)(uintptr_t)at(c->recv, begin, c->element_bytes);
    reduce_part(m, c, mine, begin, end - begin);
}

static void pull_other_parts(hr__member *m, const hr__call *c)
{
    int n = m->ch->n;
    for (int r = 0; r < n; r++) {
        int64_t from = part_begin(c->count, n, r);
        int64_t count = part_begin(c->count, n, r + 1) - from;
        const hr__call *peer = &m->ch->members[r].posted->call;
        if (r != m->me)
            pull((char *)(uintptr_t)at(c->recv, from, c->element_bytes),
                 at(peer->recv, from, c->element_bytes), count, c->element_bytes);
    }
}

static void move_lent(hr__member *m, const hr__post *p)
{
    const hr__call *c = &p->call;
    switch (c->kind) {
    case HR__BARRIER:
        break;
    case HR__ALL_TO_ALL:
        pull_all_to_all(m, p);
        break;
    case HR__ALL_GATHER:
        pull_all_gather(m, p);
        break;
    case HR__REDUCE_SCATTER:
        reduce_part(m, c, c->recv, m->me * c->count, c->count);
        break;
    case HR__BROADCAST:
        pull(c->recv, m->ch->members[c->root].posted->call.recv, c->count, 1);
        break;
    case HR__ALL_REDUCE:
        reduce_own_part(m, c);
        break;
    case HR__ROWS_STORE:
    case HR__ROWS_LOAD:
        hr__rows_move(c, m->ch->n, m->me);
        break;
    }
}

/* Where nothing may be touched any more, the meeting that follows does not open. */
static hr_status move(hr__member *m, const hr__post *p, const hr__entry *entry)
{
    hr__channel *ch = m->ch;
    if (hr__channel_touch(ch))
        move_lent(m, p);
    hr__channel_untouch(ch);
    if (p->call.kind != HR__ALL_REDUCE)
        return HR_OK;
    HR_TRY(hr__channel_meet(m, &ch->work, entry, NULL));
    if (hr__channel_touch(ch))
        pull_other_parts(m, &p->call);
    hr__channel_untouch(ch);
    return HR_OK;
}

/* Bytes that the busier direction of this rank's link carries: rings, but for all-to-all. */
static int64_t link_bytes(const hr__member *m, const hr__post *p)
{
    const hr__call *c = &p->call;
    int64_t n = m->ch->n, out = 0, in = 0, eb = (int64_t)c->element_bytes;
    switch (c->kind) {
    case HR__BARRIER:
        return 0;
    case HR__ALL_TO_ALL:
        for (int r = 0; r < n; r++)
            if (r != m->me) {
                out += p->send_counts[r];
                in += p->recv_counts[r];
            }
        return (out > in ? out : in) * eb;
    case HR__ALL_GATHER:
    case HR__REDUCE_SCATTER:
        return (n - 1) * c->count * eb;
    case HR__ALL_REDUCE:
        return 2 * (n - 1) * c->count * eb / n;
    case HR__BROADCAST:
        return n > 1 ? c->count : 0;
    case HR__ROWS_STORE:
    case HR__ROWS_LOAD:
        return hr__rows_bytes(c, (int)n, m->me);
    }
    return 0;
}

/* ---- the kernel ---- */
static hr_status run(hr__member *m, const hr__post *p)
{
    hr__entry entry = {.op = hr__op_name(p->call.kind),
                       .seq = m->ops,
                       .bytes = -1,
                       .label = &p->label};
    hr__transfer t = {.op = entry.op};
    hr__doing_begin(&m->doing, &entry);
    HR_TRY(hr__manner_begin(m, p));
    t.bytes = entry.bytes = link_bytes(m, p); /* may follow from device memory */
    hr__doing_bytes(&m->doing, entry.bytes);
    t.arrived_ns = m->arrived_ns = hr_now_ns();
    m->posted = p;
    HR_TRY(hr__channel_meet(m, &m->ch->work, &entry, check_posts));
    t.last_ns = m->ch->last_ns;
    HR_TRY(hr__manner_delay_here(m));
    HR_TRY(move(m, p, &entry));
    HR_TRY(hr__channel_meet(m, &m->ch->work, &entry, NULL));
    m->ops++;
    HR_TRY(hr__manner_delay_here(m));
    return hr__transfer_end(m, &t);
}

static hr_status collective_kernel(const void *args, hr_team *team)
{
    hr__post *p = *(hr__post *const *)args;
    hr__member *m = hr__member_of(p->of);
    hr_status st = run(m, p);
    if (st < 0)
        hr__channel_quit(m->ch);
    hr__doing_end(&m->doing, st);
    hr__post_done(p);
    return st;
}

hr_status hr__local_collective(hr_group *g, const hr__call *c, hr_stream *s)
{
    hr__member *m = hr__member_of(g);
    hr__post *p;
    if (hr__job_failed(m->ch->job))
        return HR_OK;
    if (m->ch->job->issues)
        hr__issues_note(m->ch->job->issues, m, c->kind, s);
    HR_TRY(hr__post_take(&m->posts, g, s, &p));
    return hr__post_collective(p, c, collective_kernel, s);
}
