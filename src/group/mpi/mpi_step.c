/* Steps: an exchange from its start to its end, and what is said of one that has none. */
#include "base/try.h"
#include "group/mpi/mpi_member.h"
#include <stdlib.h>
#include <string.h>

hr__where hr__mpi_step_where(const hr__mpi_step *s)
{
    return hr__where_write(s->m->global, s->m->base.size, s->entry->op, s->entry->seq,
                           s->entry->label);
}

static bool is_missing(const hr__mpi_exchange *x, const hr__leg *leg)
{
    if (leg->send)
        return false;
    return x->raw ? leg->stage == HR__LEG_DATA
                  : leg->stage == HR__LEG_HEAD || leg->stage == HR__LEG_IDLE;
}

/* It waits for something of a rank that has nothing more to give or take. */
static hr_status check_gone(const hr__mpi_step *s)
{
    for (int i = 0; i < s->x->n; i++) {
        const hr__leg *leg = &s->x->legs[i];
        int rank = s->m->global[leg->peer];
        bool waits = is_missing(s->x, leg) || (leg->send && leg->stage != HR__LEG_DONE);
        if (waits && rank != s->m->job->rank && hr__mpi_gone(s->m->job, rank))
            return hr_fail(HR_ERR_ABORTED, "rank_gone",
                           "%s: rank %d has returned from its function without it",
                           hr__mpi_step_where(s).text, rank);
    }
    return HR_OK;
}

static hr_status look(void *arg)
{
    const hr__mpi_step *s = arg;
    hr_status st = hr__exchange_look(s->x);
    if (st == HR_PENDING && atomic_load(&s->m->job->gone) > 0)
        HR_TRY(check_gone(s));
    return st;
}

/* Append the members with whom bytes are under way; of all of them something has come. */
static void list_under_way(const hr__mpi_step *s, char *list, size_t room)
{
    for (int r = 0; r < s->m->base.size; r++)
        for (int i = 0; i < s->x->n; i++)
            if (s->x->legs[i].peer == r && s->x->legs[i].stage != HR__LEG_DONE) {
                hr__list_rank(list, room, s->m->global[r]);
                break;
            }
}

hr_status hr__mpi_step_late(const hr__mpi_step *s)
{
    hr__mpi_job *job = s->m->job;
    int n = s->m->base.size;
    char present[96] = "", missing[96] = "", bytes[32] = "", others[600] = "";
    char under_way[96] = "";
    bool *absent = calloc((size_t)job->n + (size_t)n, sizeof *absent);
    if (!absent)
        return HR_ERR_TIMEOUT;
    for (int i = 0; i < s->x->n; i++)
        if (is_missing(s->x, &s->x->legs[i]))
            absent[job->n + s->x->legs[i].peer] = true;
    for (int i = 0; i < n; i++) {
        bool out = absent[job->n + i];
        hr__list_rank(out ? missing : present, sizeof present, s->m->global[i]);
        absent[s->m->global[i]] = out;
    }
    hr__mpi_ask(job, absent, s->m->key, others, sizeof others);
    free(absent);
    if (s->entry->bytes >= 0)
        snprintf(bytes, sizeof bytes, " (%lld bytes)", (long long)s->entry->bytes);
    if (!missing[0])
        list_under_way(s, under_way, sizeof under_way);
    return hr_fail(HR_ERR_TIMEOUT, "timeout",
                   "waited %g s in %s%s; present: %s; missing: %s%s%s%s",
                   (double)job->limit_ns * 1e-9, hr__mpi_step_where(s).text, bytes,
                   present, missing[0] ? missing : "none",
                   under_way[0] ? "; bytes under way with: " : "", under_way, others);
}

/* The job has failed. Whoever had all heads by then has gone on to a call of MPI's own, which waits for all
 * members and has no time limit; and then the heads of all are under way to here too. */
static bool others_go_on(const hr__mpi_step *s)
{
    static const int64_t under_way_ns = 500000000;
    hr__mpi_waiting w = {.look = look,
                         .arg = (void *)(uintptr_t)s,
                         .deadline_ns = hr_now_ns() + under_way_ns,
                         .deaf = true};
    return hr__mpi_wait(s->m->job, &w) == HR_OK;
}

hr_status hr__mpi_step_fail(const hr__mpi_step *s, hr_status st)
{
    /* Peers end the sooner, and leave our messages alone. */
    hr__mpi_fail(s->m->job, st);
    hr__exchange_drop(s->x);
    return hr__mpi_status(s->m->job);
}

hr_status hr__mpi_step_run(const hr__mpi_step *s)
{
    hr__mpi_job *job = s->m->job;
    hr_status begun = hr__exchange_start(s->x), st = begun;
    hr__mpi_waiting w = {.look = look,
                         .arg = (void *)(uintptr_t)s,
                         .deadline_ns = hr_now_ns() + job->limit_ns,
                         .bytes = s->x->bytes};
    if (st == HR_OK)
        st = hr__mpi_wait(job, &w);
    if (st == HR_PENDING)
        st = s->late(s);
    if (st < 0 && begun == HR_OK && s->all_or_none && hr__mpi_failed(job) &&
        others_go_on(s))
        return HR_OK;
    return st < 0 ? hr__mpi_step_fail(s, st) : HR_OK;
}

/* ---- on the issuing threads ---- */
static hr_status same_size(hr__mpi_exchange *x, const hr__leg *leg,
                           const hr__head *head)
{
    return (size_t)head->bytes == leg->bytes
               ? HR_OK
               : hr_fail(HR_ERR_MISMATCH, "group_mismatch",
                         "rank %d makes a group where rank %d makes a window",
                         x->m->global[head->bytes > 64 ? leg->peer : x->m->base.rank],
                         x->m->global[head->bytes > 64 ? x->m->base.rank : leg->peer]);
}

hr_status hr__mpi_meet_host(hr__mpi_member *m, const char *op, void *all, size_t bytes,
                            int64_t of)
{
    hr__mpi_exchange *x = &m->host;
    hr__entry entry = {.op = op, .bytes = of, .label = &m->base.label};
    hr__mpi_step step = {.m = m,
                         .x = x,
                         .entry = &entry,
                         .late = hr__mpi_step_late,
                         .all_or_none = true};
    char *at = all;
    hr__doing_begin(&m->doing_host, &entry);
    hr__exchange_begin(x, false);
    x->check = same_size;
    hr_status st = HR_OK;
    for (int r = 0; r < m->base.size && st == HR_OK; r++) {
        if (r == m->base.rank)
            continue;
        st = hr__exchange_add(x, true, r, at + (size_t)m->base.rank * bytes, bytes, 0);
        if (st == HR_OK)
            st = hr__exchange_add(x, false, r, at + (size_t)r * bytes, bytes, 0);
    }
    if (st == HR_OK)
        st = hr__mpi_step_run(&step);
    hr__doing_end(&m->doing_host, st);
    return st;
}
