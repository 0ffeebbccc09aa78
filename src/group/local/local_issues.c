/* See local_issues.h. */
#include "group/local/local_issues.h"
#include <stdlib.h>
#include <string.h>

enum {
    KEPT = 64
}; /* of each rank: more than can be under way on its streams at once */

typedef struct issue {
    uint64_t channel, seq; /* serial number of the channel, and which operation of it */
    hr__op_kind kind;
    hr__work work;
} issue;

typedef struct history {
    issue last[KEPT]; /* number n at n modulo KEPT */
    uint64_t n;
} history;

struct hr__issues {
    pthread_mutex_t mu; /* a leaf; guards all */
    int ranks;
    history of[]; /* [ranks], by global rank */
};

hr__issues *hr__issues_create(int ranks)
{
    hr__issues *is = calloc(1, sizeof *is + (size_t)ranks * sizeof is->of[0]);
    if (is == NULL)
        return NULL;
    pthread_mutex_init(&is->mu, NULL);
    is->ranks = ranks;
    return is;
}

void hr__issues_destroy(hr__issues *is)
{
    if (is)
        pthread_mutex_destroy(&is->mu);
    free(is);
}

void hr__issues_clear(hr__issues *is)
{
    pthread_mutex_lock(&is->mu);
    for (int r = 0; r < is->ranks; r++)
        is->of[r].n = 0;
    pthread_mutex_unlock(&is->mu);
}

static uint64_t oldest(const history *h)
{
    return h->n > KEPT ? h->n - KEPT : 0;
}

/* The number of the issue in the history; UINT64_MAX: not there. */
static uint64_t find(const history *h, const issue *x)
{
    for (uint64_t i = h->n; i-- > oldest(h);) {
        const issue *y = &h->last[i % KEPT];
        if (y->channel == x->channel && y->seq == x->seq)
            return i;
    }
    return UINT64_MAX;
}

static bool same_node(const hr_mark *a, const hr_mark *b)
{
    return strcmp(a->name, b->name) == 0 && a->layer == b->layer &&
           a->microbatch == b->microbatch && a->dir == b->dir;
}

/* Outside of nodes there is nothing to compare but the calls, and the meeting does that. */
static bool differ(const issue *x, const issue *y)
{
    return x->work.in_node && y->work.in_node &&
           (x->kind != y->kind || !same_node(&x->work.mark, &y->work.mark));
}

static hr_status check_seq(const hr__issues *is, const hr__member *m, const issue *x)
{
    for (int i = 0; i < m->ch->n; i++) {
        const history *h = &is->of[m->ch->global[i]];
        uint64_t at = i == m->me ? UINT64_MAX : find(h, x);
        if (at == UINT64_MAX || !differ(x, &h->last[at % KEPT]))
            continue;
        const issue *y = &h->last[at % KEPT];
        return hr_fail(
            HR_ERR_STATE, "collective_order",
            "%s is %s of %s, but on rank %d %s of %s: a group's operations come "
            "in one order on all its ranks",
            hr__channel_where(m->ch, "operation", x->seq, &m->base.label).text,
            hr__op_name(x->kind), x->work.text, m->ch->global[i], hr__op_name(y->kind),
            y->work.text);
    }
    return HR_OK;
}

/* Is `y`, which this rank issued on the same stream before `x`, behind it on `rank`? */
static bool turned(const history *h, const issue *x, const issue *y)
{
    uint64_t at_x = find(h, x), at_y = find(h, y);
    if (at_x == UINT64_MAX || at_y == UINT64_MAX || at_x > at_y)
        return false;
    return h->last[at_x % KEPT].work.stream == h->last[at_y % KEPT].work.stream;
}

static hr_status check_groups(const hr__issues *is, const hr__member *m, const issue *x)
{
    const history *mine = &is->of[m->ch->global[m->me]];
    for (uint64_t k = mine->n; k-- > oldest(mine);) {
        const issue *y = &mine->last[k % KEPT];
        if (y->channel == x->channel || y->work.stream != x->work.stream)
            continue;
        for (int i = 0; i < m->ch->n; i++) {
            int rank = m->ch->global[i];
            if (i == m->me || !turned(&is->of[rank], x, y))
                continue;
            return hr_fail(
                HR_ERR_STATE, "collective_order",
                "%s of %s comes before %s of %s, of another group; on rank %d it "
                "comes after it, so each would wait for the other: give both "
                "groups one order, or a stream each",
                hr__op_name(y->kind), y->work.text, hr__op_name(x->kind), x->work.text,
                rank);
        }
    }
    return HR_OK;
}

void hr__issues_note(hr__issues *is, hr__member *m, hr__op_kind kind,
                     const hr_stream *s)
{
    issue x = {.channel = m->ch->serial, .seq = m->issued++, .kind = kind};
    hr__order_describe(s, &x.work);
    pthread_mutex_lock(&is->mu);
    hr_status st = check_seq(is, m, &x);
    if (st == HR_OK)
        st = check_groups(is, m, &x);
    history *h = &is->of[m->ch->global[m->me]];
    h->last[h->n++ % KEPT] = x;
    pthread_mutex_unlock(&is->mu);
    if (st < 0) {
        hr_log(HR_LOG_ERROR, "%s", hr_last_error());
        hr_device_fail(m->base.dev, st);
    }
}
