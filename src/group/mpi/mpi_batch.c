/* Batches of messages: all sends and receives of one are under way at once. */
#include "base/try.h"
#include "group/group_spans.h"
#include "group/mpi/mpi_member.h"
#include <stdlib.h>
#include <string.h>

static const char op_name[] = "send_recv";

static hr_status check(hr__mpi_exchange *x, const hr__leg *leg, const hr__head *head)
{
    const int *global = x->m->global;
    if ((size_t)head->bytes == leg->bytes)
        return HR_OK;
    const hr_op_label label = {head->what[0] ? head->what : NULL, head->stage,
                               head->chunk, head->microbatch};
    return hr_fail(
        HR_ERR_MISMATCH, "size_mismatch",
        "%s: rank %d sends %lld bytes to rank %d, which expects %zu",
        hr__where_write(global, x->m->base.size, op_name, x->m->batches, &label).text,
        global[leg->peer], (long long)head->bytes, global[x->m->base.rank], leg->bytes);
}

/* ---- words ---- */
/* What of the messages between this member and `peer` is not through: bytes; -1: nothing. */
static int64_t missing_with(const hr__mpi_exchange *x, int peer, bool send)
{
    int64_t bytes = -1;
    for (int i = 0; i < x->n; i++) {
        const hr__leg *leg = &x->legs[i];
        if (leg->peer == peer && leg->send == send && leg->stage != HR__LEG_DONE)
            bytes = (bytes < 0 ? 0 : bytes) + (int64_t)leg->bytes;
    }
    return bytes;
}

static hr_status late(const hr__mpi_step *s)
{
    hr__mpi_job *job = s->m->job;
    char silent[128] = "", deaf[128] = "", others[600] = "";
    bool *absent = calloc((size_t)job->n, sizeof *absent);
    if (!absent)
        return HR_ERR_TIMEOUT;
    for (int peer = 0; peer < s->m->base.size; peer++) {
        int64_t in = missing_with(s->x, peer, false);
        int64_t out = missing_with(s->x, peer, true);
        int rank = s->m->global[peer];
        if (in >= 0)
            hr__list_missing(silent, sizeof silent, rank, in);
        if (out >= 0)
            hr__list_missing(deaf, sizeof deaf, rank, out);
        absent[rank] = in >= 0 || out >= 0;
    }
    hr__mpi_ask(job, absent, s->m->key, others, sizeof others);
    free(absent);
    return hr_fail(HR_ERR_TIMEOUT, "timeout",
                   "waited %g s in %s; missing: sends of %s; receives of %s%s",
                   (double)job->limit_ns * 1e-9, hr__mpi_step_where(s).text,
                   silent[0] ? silent : "none", deaf[0] ? deaf : "none", others);
}

/* ---- the kernel ---- */
static const hr_p2p *messages(const hr__post *p)
{
    return p->msgs;
}

static uint64_t peers_of(const hr__post *p)
{
    uint64_t peers = 0;
    for (int i = 0; i < p->n; i++)
        if (messages(p)[i].peer < 64)
            peers |= UINT64_C(1) << messages(p)[i].peer;
    return peers;
}

static int64_t bytes_of(const hr__post *p)
{
    int64_t out = 0, in = 0;
    for (int i = 0; i < p->n; i++)
        *(messages(p)[i].send ? &out : &in) += (int64_t)messages(p)[i].bytes;
    return out > in ? out : in;
}

static void write_head(hr__head *h, const hr_op_label *l)
{
    *h = (hr__head){.stage = l->stage, .chunk = l->chunk, .microbatch = l->microbatch};
    if (l->what)
        snprintf(h->what, sizeof h->what, "%s", l->what);
}

static hr_status run(const hr__post *p)
{
    hr__mpi_member *m = hr__mpi_member_of(p->of);
    hr__mpi_exchange *x = &m->work;
    hr__entry entry = {.op = op_name,
                       .seq = m->batches,
                       .bytes = bytes_of(p),
                       .peers = peers_of(p),
                       .label = &p->label};
    hr__mpi_step step = {.m = m, .x = x, .entry = &entry, .late = late};
    int64_t arrived = hr_now_ns();
    hr__doing_begin(&m->doing, &entry);
    x->lane = HR__LANE_MESSAGES;
    x->check = check;
    hr__exchange_begin(x, false);
    write_head(&x->mine, &p->label);
    for (int i = 0; i < p->n; i++) {
        const hr_p2p *o = &messages(p)[i];
        HR_TRY(hr__exchange_add(x, o->send, o->peer, o->buf, o->bytes, 0));
    }
    HR_TRY(hr__mpi_step_run(&step));
    m->batches++;
    hr__op_spans(op_name, arrived, x->met_ns);
    return HR_OK;
}

static hr_status batch_kernel(const void *args, hr_team *team)
{
    hr__post *p = *(hr__post *const *)args;
    hr_status st = run(p);
    hr__doing_end(&hr__mpi_member_of(p->of)->doing, st);
    hr__post_done(p);
    return st;
}

hr_status hr__mpi_batch(hr_group *g, const hr_p2p *ops, int n, hr_stream *s)
{
    hr__mpi_member *m = hr__mpi_member_of(g);
    hr__post *p;
    if (hr__mpi_failed(m->job))
        return HR_OK;
    HR_TRY(hr__post_take(&m->posts, g, s, &p));
    hr_status st = hr__post_reserve(p, n, sizeof *ops);
    if (st < 0) {
        hr__post_done(p);
        return st;
    }
    memcpy(p->msgs, ops, (size_t)n * sizeof *ops);
    return hr__post_batch(p, op_name, ops, n, batch_kernel, s);
}
