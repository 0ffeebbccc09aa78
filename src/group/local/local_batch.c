/* Batches of messages. Per ordered pair of members there is one list of sends that wait for
 * their receive. A batch first hangs all its sends there, then takes, in any order over the
 * peers and in issue order within one, whatever its receives find, and is through when all
 * of its receives are filled and all of its sends were taken: so no order can deadlock.
 *
 * A pair's list has one batch of one sender at a time, for that sender's next batch cannot
 * begin before; the sender writes the empty list, the receiver takes from the full one. In the
 * buffered manner the list holds copies, no batch waits for its sends, and local_mail.c keeps
 * the two ends apart. */
#include "base/try.h"
#include "group/local/local_collective.h"
#include "group/local/local_link.h"
#include "group/local/local_mail.h"
#include "group/local/local_manner.h"
#include <string.h>

static const char op_name[] = "send_recv";

struct exchange {
    hr__member *m;
    hr__post *p;
    bool buffered;
    int unfilled; /* receives */
    int64_t arrived_ns, last_ns;
};

static int rank_of(const hr__member *m, int peer)
{
    return m->ch->global[peer];
}

static hr__where where(const struct exchange *x)
{
    return hr__channel_where(x->m->ch, op_name, x->m->batches, &x->p->label);
}

/* The send `s`, which is lent, meets the receive `r`; afterwards `s` belongs to its sender again. */
static hr_status take_lent(struct exchange *x, _Atomic(hr__msg *) *head, hr__msg *s,
                           const hr__msg *r)
{
    hr__member *sender = &x->m->ch->members[r->op.peer];
    if (s->op.bytes != r->op.bytes)
        return hr_fail(HR_ERR_MISMATCH, "size_mismatch",
                       "%s: rank %d sends %zu bytes to rank %d, which expects %zu",
                       where(x).text, rank_of(x->m, r->op.peer), s->op.bytes,
                       rank_of(x->m, x->m->me), r->op.bytes);
    if (r->op.bytes && r->op.buf != s->op.buf)
        memmove(r->op.buf, s->op.buf, r->op.bytes);
    if (s->sent_ns > x->last_ns)
        x->last_ns = s->sent_ns;
    s->met_ns = x->arrived_ns;
    x->unfilled--;
    if (x->buffered) {
        hr__mail_drop(x->m->ch, head);
        return HR_OK;
    }
    atomic_store_explicit(head, s->next, memory_order_release);
    if (atomic_fetch_sub_explicit(&sender->untaken, 1, memory_order_acq_rel) == 1)
        hr__bell_ring(&sender->bell);
    return HR_OK;
}

/* PENDING: its sender may have gone. */
static hr_status take(struct exchange *x, _Atomic(hr__msg *) *head, hr__msg *s,
                      const hr__msg *r)
{
    hr__channel *ch = x->m->ch;
    hr_status st = hr__channel_touch(ch) ? take_lent(x, head, s, r) : HR_PENDING;
    hr__channel_untouch(ch);
    return st;
}

static hr_status fill(struct exchange *x, hr__msg *lead)
{
    _Atomic(hr__msg *) *head = hr__head(x->m->ch, lead->op.peer, x->m->me);
    while (lead->todo) {
        hr__msg *s = atomic_load_explicit(head, memory_order_acquire);
        hr_status st = s ? take(x, head, s, lead->todo) : HR_PENDING;
        if (st != HR_OK)
            return st < 0 ? st : HR_OK;
        lead->todo = lead->todo->next;
    }
    return HR_OK;
}

static bool waits_for_send(const hr__msg *g)
{
    return !g->op.send && g->lead && g->todo;
}

static bool waits_for_receive(const struct exchange *x, const hr__msg *g)
{
    return !x->buffered && g->op.send && g->lead &&
           atomic_load(hr__head(x->m->ch, x->m->me, g->op.peer)) != NULL;
}

/* Who has left may have left copies behind, just after the last look. */
static bool will_never_come(const struct exchange *x, const hr__msg *g)
{
    return waits_for_send(g) &&
           atomic_load(hr__head(x->m->ch, g->op.peer, x->m->me)) == NULL;
}

static hr_status check_gone(const struct exchange *x)
{
    for (int i = 0; i < x->p->n; i++) {
        const hr__msg *g = &hr__msgs(x->p)[i];
        int rank = rank_of(x->m, g->op.peer);
        if (hr__job_gone(x->m->ch->job, rank) &&
            (will_never_come(x, g) || waits_for_receive(x, g)))
            return hr_fail(HR_ERR_ABORTED, "rank_gone",
                           "%s: rank %d has returned from its function without it",
                           where(x).text, rank);
    }
    return HR_OK;
}

static hr_status progress(void *arg)
{
    struct exchange *x = arg;
    hr__job *job = x->m->ch->job;
    for (int i = 0; x->unfilled > 0 && i < x->p->n; i++)
        if (waits_for_send(&hr__msgs(x->p)[i]))
            HR_TRY(fill(x, &hr__msgs(x->p)[i]));
    if (x->unfilled == 0 && atomic_load(&x->m->untaken) == 0)
        return HR_OK;
    if (hr__job_failed(job))
        return hr__job_status(job);
    if (atomic_load(&job->gone) > 0)
        HR_TRY(check_gone(x));
    return HR_PENDING;
}

/* ---- words ---- */
/* What of the messages between this member and `peer` is not through: bytes; -1: nothing. */
static int64_t missing_with(const struct exchange *x, int peer, bool send)
{
    int64_t bytes = -1;
    for (int i = 0; i < x->p->n; i++) {
        const hr__msg *g = &hr__msgs(x->p)[i];
        if (g->op.peer == peer && send && waits_for_receive(x, g))
            bytes = (bytes < 0 ? 0 : bytes) + (int64_t)g->op.bytes;
        if (g->op.peer == peer && !send && waits_for_send(g))
            bytes = (bytes < 0 ? 0 : bytes) + (int64_t)g->todo->op.bytes;
    }
    return bytes;
}

static hr_status late(const struct exchange *x)
{
    const hr__channel *ch = x->m->ch;
    char silent[128] = "", deaf[128] = "", others[288] = "";
    for (int peer = 0; peer < ch->n; peer++) {
        int64_t in = missing_with(x, peer, false), out = missing_with(x, peer, true);
        if (in >= 0)
            hr__list_missing(silent, sizeof silent, ch->global[peer], in);
        if (out >= 0)
            hr__list_missing(deaf, sizeof deaf, ch->global[peer], out);
        if ((in >= 0 || out >= 0) && peer != x->m->me)
            hr__doing_list(others, sizeof others, x->m->ch, peer);
    }
    return hr_fail(HR_ERR_TIMEOUT, "timeout",
                   "waited %g s in %s; missing: sends of %s; receives of %s%s",
                   (double)ch->job->limit_ns * 1e-9, where(x).text,
                   silent[0] ? silent : "none", deaf[0] ? deaf : "none", others);
}

static void announce(struct exchange *x)
{
    hr__entry e = {.op = op_name, .seq = x->m->batches, .label = &x->p->label};
    for (int i = 0; i < x->p->n; i++) {
        const hr_p2p *op = &hr__msgs(x->p)[i].op;
        e.bytes += (int64_t)op->bytes;
        if (op->peer < 64)
            e.peers |= (uint64_t)1 << op->peer;
    }
    hr__doing_begin(&x->m->doing, &e);
}

/* ---- the kernel ---- */
/* The sends to one peer begin with `lead`. */
static hr_status hang(struct exchange *x, hr__msg *lead)
{
    hr__channel *ch = x->m->ch;
    int peer = lead->op.peer;
    if (x->buffered)
        for (const hr__msg *g = lead; g; g = g->next)
            HR_TRY(hr__mail_send(x->m, g));
    else
        atomic_store_explicit(hr__head(ch, x->m->me, peer), lead, memory_order_release);
    if (peer != x->m->me)
        hr__bell_ring(&ch->members[peer].bell);
    return HR_OK;
}

/* To one peer after the other, as chance has it, with delays between them. */
static hr_status hang_shuffled(struct exchange *x, int sends)
{
    uint64_t key = hr__manner_mix(x->m->ch->key, x->m->draws), last = 0;
    for (;;) {
        hr__msg *next = NULL;
        uint64_t least = UINT64_MAX;
        for (int i = 0; i < x->p->n; i++) {
            hr__msg *g = &hr__msgs(x->p)[i];
            /* A number of chance, made unlike all others; above 0. */
            uint64_t place = hr__manner_mix(key, (uint64_t)i) << 31 | (uint64_t)(i + 1);
            if (g->op.send && g->lead && place > last && place < least) {
                next = g;
                least = place;
            }
        }
        if (!next)
            return HR_OK;
        HR_TRY(hang(x, next));
        last = least;
        if (--sends > 0)
            HR_TRY(hr__manner_pause(x->m));
    }
}

/* Hang the sends where their receivers look. */
static hr_status post(struct exchange *x)
{
    int sends = 0, leads = 0;
    for (int i = 0; i < x->p->n; i++) {
        hr__msg *g = &hr__msgs(x->p)[i];
        g->sent_ns = x->arrived_ns;
        g->todo = g;
        sends += g->op.send;
        leads += g->op.send && g->lead;
        x->unfilled += !g->op.send;
    }
    atomic_store(&x->m->untaken, x->buffered ? 0 : sends);
    if (x->m->ch->job->manner->delays)
        return hang_shuffled(x, leads);
    for (int i = 0; i < x->p->n; i++) {
        hr__msg *g = &hr__msgs(x->p)[i];
        if (g->op.send && g->lead)
            HR_TRY(hang(x, g));
    }
    return HR_OK;
}

static hr_status run(hr__member *m, hr__post *p)
{
    hr__job *job = m->ch->job;
    struct exchange x = {.m = m, .p = p, .buffered = job->manner->buffered};
    int64_t out = 0, in = 0;
    announce(&x);
    HR_TRY(hr__manner_begin(m, p));
    x.last_ns = x.arrived_ns = hr_now_ns();
    HR_TRY(post(&x));
    hr_status st = hr__bell_wait(&m->bell, progress, &x, x.arrived_ns + job->limit_ns);
    if (st == HR_PENDING)
        st = late(&x);
    HR_TRY(st);
    for (int i = 0; i < p->n; i++) {
        const hr__msg *g = &hr__msgs(p)[i];
        if (g->op.send && g->met_ns > x.last_ns)
            x.last_ns = g->met_ns;
        if (g->op.peer != m->me)
            *(g->op.send ? &out : &in) += (int64_t)g->op.bytes;
    }
    m->batches++;
    HR_TRY(hr__manner_delay_here(m));
    return hr__transfer_end(m, &(hr__transfer){.op = op_name,
                                               .arrived_ns = x.arrived_ns,
                                               .last_ns = x.last_ns,
                                               .bytes = out > in ? out : in});
}

static hr_status batch_kernel(const void *args, hr_team *team)
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

/* Copy the messages and chain those of one direction and peer. */
static void copy_messages(hr__member *m, const hr__post *p, const hr_p2p *ops, int n)
{
    for (int i = 0; i < n; i++) {
        hr__msg *g = &hr__msgs(p)[i];
        hr__msg **tail = &m->tails[2 * ops[i].peer + ops[i].send];
        *g = (hr__msg){.op = ops[i], .lead = *tail == NULL};
        if (*tail)
            (*tail)->next = g;
        *tail = g;
    }
    for (int i = 0; i < n; i++)
        m->tails[2 * ops[i].peer + ops[i].send] = NULL;
}

hr_status hr__local_batch(hr_group *g, const hr_p2p *ops, int n, hr_stream *s)
{
    hr__member *m = hr__member_of(g);
    hr__post *p;
    if (hr__job_failed(m->ch->job))
        return HR_OK;
    HR_TRY(hr__post_take(&m->posts, g, s, &p));
    hr_status st = hr__post_reserve(p, n, sizeof(hr__msg));
    if (st < 0) {
        hr__post_done(p);
        return st;
    }
    copy_messages(m, p, ops, n);
    return hr__post_batch(p, op_name, ops, n, batch_kernel, s);
}
