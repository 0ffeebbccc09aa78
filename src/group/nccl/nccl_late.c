/* Why an operation does not end, in words: who is missing, as far as it can be told. NCCL itself does not say; members
 * of one process are asked. */
#include "base/try.h"
#include "group/nccl/nccl_member.h"

/* What of the oldest operation has to be known once the lock is given back. */
typedef struct waiting {
    const char *op;
    bool batch;
    uint64_t seq, peers;
    int64_t bytes, begun_ns;
    hr_op_label label;
} waiting;

/* `seen`: as when somebody last looked. */
static bool oldest(hr__nccl_member *m, bool seen, waiting *w)
{
    hr__nccl_job *job = m->job;
    pthread_mutex_lock(&job->mu);
    if (!seen) {
        hr__nccl_flights_refresh(&m->flights, job->dev->rt);
        hr__nccl_flights_reap(&m->flights, job->dev, false);
    }
    const hr__nccl_flight *x = m->flights.first;
    if (x)
        *w = (waiting){x->op,    x->batch,    x->seq,  x->peers,
                       x->bytes, x->begun_ns, x->label};
    pthread_mutex_unlock(&job->mu);
    return x && (seen || w->begun_ns > 0);
}

static hr__where where(const hr__nccl_member *m, const waiting *w)
{
    return hr__where_write(m->global, m->base.size, w->op, w->seq, &w->label);
}

static bool takes_part(const waiting *w, int member)
{
    return !w->batch || (member < 64 && (w->peers >> member & 1));
}

hr_status hr__nccl_name_failed(hr__nccl_member *m, hr_status st)
{
    waiting w = {.op = "an operation", .label = {NULL, -1, -1, -1}};
    char said[448];
    const char *reason = hr_last_reason();
    snprintf(said, sizeof said, "%s", hr_last_error());
    if (!oldest(m, true, &w))
        w.seq = m->ops;
    return hr_fail(st, reason, "%s: %s", where(m, &w).text, said);
}

/* ---- who has gone ---- */
static bool unmatched(hr__nccl_member *m, int peer, bool send, int64_t *bytes)
{
    bool by_sender;
    int me = m->base.rank;
    *bytes = hr__nccl_board_unmatched(m->board, send ? me : peer, send ? peer : me,
                                      &by_sender);
    return *bytes >= 0 && by_sender == send;
}

/* It will not come to the operation. Without a board nobody knows whether it had come: the base says that a rank has
 * gone only when what it had sent before must have arrived. */
static bool never_comes(hr__nccl_member *m, const waiting *w, int member)
{
    int64_t bytes;
    if (m->board == NULL)
        return true;
    if (!w->batch)
        return !hr__nccl_board_issued(m->board, member, w->seq);
    return unmatched(m, member, true, &bytes) || unmatched(m, member, false, &bytes);
}

static hr_status check_gone(hr__nccl_member *m, const waiting *w)
{
    const hr_group_ops *base = m->under->ops;
    for (int i = 0; i < m->base.size; i++)
        if (i != m->base.rank && takes_part(w, i) && base->gone(m->under, i) &&
            never_comes(m, w, i))
            return hr_fail(HR_ERR_ABORTED, "rank_gone",
                           "%s: rank %d has returned from its function without it",
                           where(m, w).text, m->global[i]);
    return HR_OK;
}

/* ---- the time limit ---- */
static double limit(const hr__nccl_member *m)
{
    return (double)m->job->limit_ns * 1e-9;
}

static hr_status late_batch(hr__nccl_member *m, const waiting *w)
{
    char silent[128] = "", deaf[128] = "", others[288] = "";
    for (int i = 0; i < m->base.size; i++) {
        int64_t in, out;
        if (unmatched(m, i, false, &in))
            hr__list_missing(silent, sizeof silent, m->global[i], in);
        if (unmatched(m, i, true, &out))
            hr__list_missing(deaf, sizeof deaf, m->global[i], out);
        if (takes_part(w, i) && i != m->base.rank)
            hr__nccl_board_where(m->board, i, others, sizeof others);
    }
    return hr_fail(HR_ERR_TIMEOUT, "timeout",
                   "waited %g s in %s; missing: sends of %s; receives of %s%s",
                   limit(m), where(m, w).text, silent[0] ? silent : "none",
                   deaf[0] ? deaf : "none", others);
}

static hr_status late_collective(hr__nccl_member *m, const waiting *w)
{
    char present[96] = "", missing[96] = "", others[320] = "";
    for (int i = 0; i < m->base.size; i++) {
        bool here = hr__nccl_board_begun(m->board, i, w->seq);
        hr__list_rank(here ? present : missing, sizeof present, m->global[i]);
        if (!here)
            hr__nccl_board_where(m->board, i, others, sizeof others);
    }
    return hr_fail(HR_ERR_TIMEOUT, "timeout",
                   "waited %g s in %s (%lld bytes); present: %s; missing: %s%s",
                   limit(m), where(m, w).text, (long long)w->bytes, present,
                   missing[0] ? missing : "none", others);
}

static hr_status late_unknown(const hr__nccl_member *m, const waiting *w)
{
    char with[64] = "";
    for (int i = 0; w->batch && i < m->base.size; i++)
        if (takes_part(w, i))
            hr__list_rank(with, sizeof with, m->global[i]);
    return hr_fail(
        HR_ERR_TIMEOUT, "timeout",
        "waited %g s in %s (%lld bytes)%s%s; NCCL does not say who is missing",
        limit(m), where(m, w).text, (long long)w->bytes, with[0] ? " with " : "", with);
}

hr_status hr__nccl_check_late(hr__nccl_member *m)
{
    waiting w;
    if (!oldest(m, false, &w))
        return HR_OK;
    HR_TRY(check_gone(m, &w));
    if (hr_now_ns() - w.begun_ns < m->job->limit_ns)
        return HR_OK;
    if (m->board == NULL)
        return late_unknown(m, &w);
    return w.batch ? late_batch(m, &w) : late_collective(m, &w);
}
