/* Channels, their members and posts, and the meeting of all members; see local_channel.h. */
#include "group/local/local_channel.h"
#include "base/try.h"
#include "group/local/local_mail.h"
#include "group/local/local_manner.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */
static hr_status member_init(hr__channel *ch, int me)
{
    hr__member *m = &ch->members[me];
    size_t n = (size_t)ch->n;
    m->ch = ch;
    m->me = me;
    m->tails = calloc(2 * n, sizeof(hr__msg *));
    m->inputs = calloc(n, sizeof(void *));
    return m->tails && m->inputs ? HR_OK : HR_ERR_NOMEM;
}

static hr_status channel_init(hr__channel *ch, const int *global)
{
    size_t n = (size_t)ch->n;
    ch->global = calloc(n, sizeof *ch->global);
    ch->members = calloc(n, sizeof *ch->members);
    ch->heads = calloc(n * n, sizeof *ch->heads);
    if (!ch->global || !ch->members || !ch->heads)
        return HR_ERR_NOMEM;
    memcpy(ch->global, global, n * sizeof *global);
    if (ch->job->manner->buffered) {
        ch->mail_tails = calloc(n * n, sizeof(hr__msg *));
        if (!ch->mail_tails)
            return HR_ERR_NOMEM;
    }
    HR_TRY(hr__meet_init(&ch->work, ch->n));
    HR_TRY(hr__meet_init(&ch->host, ch->n));
    for (int i = 0; i < ch->n; i++)
        HR_TRY(member_init(ch, i));
    return HR_OK;
}

hr_status hr__channel_create(hr__job *job, uint64_t key, const int *global, int n,
                             hr__channel **out)
{
    hr__channel *ch = calloc(1, sizeof *ch);
    *out = NULL;
    if (ch) {
        ch->job = job;
        ch->key = key;
        ch->n = n;
        pthread_mutex_init(&ch->mail, NULL);
    }
    if (!ch || channel_init(ch, global) < 0) {
        hr__channel_destroy(ch);
        return hr_fail(HR_ERR_NOMEM, NULL, "a group of %d ranks", n);
    }
    ch->open = n;
    pthread_mutex_lock(&job->mu);
    ch->serial = ++job->channels_made;
    ch->next = job->channels;
    job->channels = ch;
    pthread_mutex_unlock(&job->mu);
    *out = ch;
    return HR_OK;
}

void hr__channel_destroy(hr__channel *ch)
{
    if (!ch)
        return;
    for (int i = 0; ch->members && i < ch->n; i++) {
        hr__member *m = &ch->members[i];
        hr__group_fini(&m->base);
        hr__posts_free(&m->posts);
        free(m->tails);
        free(m->inputs);
    }
    hr__mail_clear(ch);
    free(ch->mail_tails);
    pthread_mutex_destroy(&ch->mail);
    hr__meet_fini(&ch->work);
    hr__meet_fini(&ch->host);
    free(ch->heads);
    free(ch->members);
    free(ch->global);
    free(ch);
}

void hr__channel_leave(hr__member *m)
{
    hr__channel *ch = m->ch;
    hr__job *job = ch->job;
    hr__group_fini(&m->base);
    pthread_mutex_lock(&job->mu);
    bool last = --ch->open == 0;
    for (hr__channel **at = &job->channels; last && *at; at = &(*at)->next)
        if (*at == ch) {
            *at = ch->next;
            break;
        }
    pthread_mutex_unlock(&job->mu);
    if (last)
        hr__channel_destroy(ch);
}

void hr__channel_ring(hr__channel *ch)
{
    hr__bell_ring(&ch->work.bell);
    hr__bell_ring(&ch->host.bell);
    for (int i = 0; i < ch->n; i++)
        hr__bell_ring(&ch->members[i].bell);
}

/* Those who read copy, and wait for nobody; who comes later sees that it may not. */
void hr__channel_quit(hr__channel *ch)
{
    atomic_store(&ch->left, true);
    while (atomic_load(&ch->touching) > 0)
        sched_yield();
}

void hr__channel_clear(hr__channel *ch)
{
    atomic_store(&ch->left, false);
    hr__meet_clear(&ch->work);
    hr__meet_clear(&ch->host);
    hr__mail_clear(ch);
    for (int i = 0; i < ch->n * ch->n; i++)
        atomic_store(&ch->heads[i], NULL);
    for (int i = 0; i < ch->n; i++) {
        hr__member *m = &ch->members[i];
        atomic_store(&m->untaken, 0);
        m->ops = m->batches = m->issued = m->draws = 0;
        memset(&m->doing, 0, sizeof m->doing);
        memset(&m->doing_host, 0, sizeof m->doing_host);
        hr__posts_clear(&m->posts);
    }
}

hr__where hr__channel_where(const hr__channel *ch, const char *op, uint64_t seq,
                            const hr_op_label *label)
{
    return hr__where_write(ch->global, ch->n, op, seq, label);
}

/* ---- meeting ---- */
struct meeting {
    hr__member *m;
    hr__meet *meet;
    const hr__entry *entry;
    uint64_t phase;
};

static hr__where entry_where(const hr__channel *ch, const hr__entry *e)
{
    return hr__channel_where(ch, e->op, e->seq, e->label);
}

static hr_status all_met(void *arg)
{
    struct meeting *w = arg;
    hr__channel *ch = w->m->ch;
    if (hr__meet_opened(w->meet, w->phase))
        return HR_OK;
    if (hr__job_failed(ch->job))
        return hr__job_status(ch->job);
    for (int i = 0; i < ch->n; i++)
        if (hr__job_gone(ch->job, ch->global[i]) && !hr__meet_has(w->meet, i, w->phase))
            return hr_fail(HR_ERR_ABORTED, "rank_gone",
                           "%s: rank %d has returned from its function without it",
                           entry_where(ch, w->entry).text, ch->global[i]);
    return HR_PENDING;
}

static hr_status late(const struct meeting *w)
{
    hr__channel *ch = w->m->ch;
    char present[96] = "", missing[96] = "", bytes[32] = "", where[320] = "";
    for (int i = 0; i < ch->n; i++) {
        bool here = hr__meet_has(w->meet, i, w->phase);
        hr__list_rank(here ? present : missing, sizeof present, ch->global[i]);
        if (!here)
            hr__doing_list(where, sizeof where, ch, i);
    }
    if (w->entry->bytes >= 0)
        snprintf(bytes, sizeof bytes, " (%lld bytes)", (long long)w->entry->bytes);
    return hr_fail(HR_ERR_TIMEOUT, "timeout",
                   "waited %g s in %s%s; present: %s; missing: %s%s",
                   (double)ch->job->limit_ns * 1e-9, entry_where(ch, w->entry).text,
                   bytes, present, missing, where);
}

hr_status hr__channel_meet(hr__member *m, hr__meet *meet, const hr__entry *entry,
                           hr__last_fn last)
{
    hr__job *job = m->ch->job;
    struct meeting w = {.m = m, .meet = meet, .entry = entry};
    hr_status st = HR_OK;
    if (hr__meet_arrive(meet, m->me, &w.phase)) {
        if (last)
            st = last(m->ch, m);
        if (st == HR_OK)
            hr__meet_open(meet, w.phase);
        else
            hr__meet_refuse(meet, w.phase);
    } else {
        st = hr__bell_wait(&meet->bell, all_met, &w, hr_now_ns() + job->limit_ns);
        if (st == HR_PENDING)
            st = late(&w);
        /* No meeting opens that a member has given up; and none goes while the last member works with what
         * all have brought. */
        if (st < 0 && !hr__meet_withdraw(meet, w.phase)) {
            hr__meet_settle(meet, w.phase);
            st = hr__bell_wait(&meet->bell, all_met, &w, INT64_MAX);
        }
    }
    return st;
}

hr_status hr__channel_meet_host(hr__member *m, const hr__entry *entry, hr__last_fn last)
{
    hr__doing_begin(&m->doing_host, entry);
    hr_status st = hr__channel_meet(m, &m->ch->host, entry, last);
    hr__doing_end(&m->doing_host, st);
    return st;
}
