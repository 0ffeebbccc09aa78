/* See nccl_board.h. Collectives of a group come in one order, so a round of them is a list of notes, one a member, and
 * rounds are complete in order, too. Messages are matched per ordered pair. */
#include "group/nccl/nccl_board.h"
#include "base/try.h"
#include "group/nccl/nccl_member.h"
#include <stdlib.h>
#include <string.h>

/* One member's call. */
typedef struct note {
    hr__call call;
    hr_op_label label;
} note;

typedef struct round {
    struct round *next;
    int there;
    note *of; /* [n] */
    int64_t *
        counts; /* [n][2 * n]: of an all-to-all, what a member sends, then what it expects */
} round;

/* A message that one side has issued. */
typedef struct letter {
    struct letter *next;
    size_t bytes;
} letter;

typedef struct pair {
    letter *first, *last;
    bool by_sender; /* whose they are */
} pair;

struct hr__nccl_board {
    pthread_mutex_t mu; /* all of it */
    int n, members;
    int *global;                  /* [n] */
    struct hr__nccl_member **who; /* [n]; NULL: has left */
    uint64_t *issued;             /* [n]: collectives */
    uint64_t begins;              /* number of the first round */
    round *first;
    pair *pairs; /* [from * n + to] */
};

/* ---- life ---- */
static void board_free(hr__nccl_board *b)
{
    for (round *r; (r = b->first) != NULL;) {
        b->first = r->next;
        free(r);
    }
    for (int i = 0; b->pairs && i < b->n * b->n; i++)
        for (letter *l; (l = b->pairs[i].first) != NULL;) {
            b->pairs[i].first = l->next;
            free(l);
        }
    pthread_mutex_destroy(&b->mu);
    free(b->global);
    free(b->who);
    free(b->issued);
    free(b->pairs);
    free(b);
}

hr__nccl_board *hr__nccl_board_create(int n, const int *global)
{
    size_t size = (size_t)n;
    hr__nccl_board *b = calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    pthread_mutex_init(&b->mu, NULL);
    b->n = b->members = n;
    b->global = calloc(size, sizeof *b->global);
    b->who = calloc(size, sizeof(struct hr__nccl_member *));
    b->issued = calloc(size, sizeof *b->issued);
    b->pairs = calloc(size * size, sizeof *b->pairs);
    if (b->global && b->who && b->issued && b->pairs) {
        memcpy(b->global, global, size * sizeof *global);
        return b;
    }
    board_free(b);
    return NULL;
}

void hr__nccl_board_enter(hr__nccl_board *b, int me, struct hr__nccl_member *m)
{
    pthread_mutex_lock(&b->mu);
    b->who[me] = m;
    pthread_mutex_unlock(&b->mu);
}

void hr__nccl_board_leave(hr__nccl_board *b, int me)
{
    if (b == NULL)
        return;
    pthread_mutex_lock(&b->mu);
    b->who[me] = NULL;
    bool last = --b->members == 0;
    pthread_mutex_unlock(&b->mu);
    if (last)
        board_free(b);
}

/* ---- collectives ---- */
static round *round_new(int n)
{
    size_t size = (size_t)n;
    size_t notes = size * sizeof(note), counts = 2 * size * size * sizeof(int64_t);
    char *at = calloc(1, sizeof(round) + notes + counts);
    round *r = (round *)(void *)at;
    if (r == NULL)
        return NULL;
    r->of = (note *)(void *)(at + sizeof *r);
    r->counts = (int64_t *)(void *)(at + sizeof *r + notes);
    return r;
}

static round *round_at(hr__nccl_board *b, uint64_t seq)
{
    round **at = &b->first;
    for (uint64_t i = b->begins;; i++, at = &(*at)->next) {
        if (*at == NULL)
            *at = round_new(b->n);
        if (*at == NULL || i == seq)
            return *at;
    }
}

/* Windows are each process's own, their offsets everybody's. */
static hr__call comparable(const hr__call *c)
{
    hr__call same = *c;
    same.rows.at += c->window ? (size_t)c->window->offset : 0;
    same.window = NULL;
    return same;
}

static hr_status check_counts(const hr__nccl_board *b, const round *r, hr__where where)
{
    for (int from = 0; from < b->n; from++)
        for (int to = 0; to < b->n; to++) {
            int64_t sent = r->counts[2 * b->n * from + to];
            int64_t wanted = r->counts[2 * b->n * to + b->n + from];
            if (sent != wanted)
                return hr_fail(HR_ERR_MISMATCH, "count_mismatch",
                               "%s: rank %d sends %lld elements to rank %d, which "
                               "expects %lld",
                               where.text, b->global[from], (long long)sent,
                               b->global[to], (long long)wanted);
        }
    return HR_OK;
}

/* All are there: one check for all, so that the sentence does not depend on who came last. */
static hr_status check_round(const hr__nccl_board *b, const round *r, uint64_t seq)
{
    const hr__call first = comparable(&r->of[0].call);
    hr__where where =
        hr__where_write(b->global, b->n, "operation", seq, &r->of[0].label);
    for (int i = 1; i < b->n; i++) {
        const hr__call other = comparable(&r->of[i].call);
        if (!hr__call_same(&first, &other))
            return hr_fail(HR_ERR_MISMATCH, "call_mismatch",
                           "%s: rank %d calls %s but rank %d calls %s", where.text,
                           b->global[0], hr__call_describe(&r->of[0].call).text,
                           b->global[i], hr__call_describe(&r->of[i].call).text);
    }
    return first.kind == HR__ALL_TO_ALL ? check_counts(b, r, where) : HR_OK;
}

static hr_status call_locked(hr__nccl_board *b, int me, uint64_t seq, const hr__call *c,
                             const hr_op_label *label)
{
    round *r = round_at(b, seq);
    if (r == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for an operation of a group");
    b->issued[me] = seq + 1;
    r->of[me] = (note){.call = *c, .label = *label};
    for (int i = 0; c->kind == HR__ALL_TO_ALL && i < b->n; i++) {
        r->counts[2 * b->n * me + i] = c->send_counts[i];
        r->counts[2 * b->n * me + b->n + i] = c->recv_counts[i];
    }
    if (++r->there < b->n)
        return HR_OK;
    hr_status st = check_round(b, r, seq); /* it is the first: those before are over */
    b->first = r->next;
    b->begins = seq + 1;
    free(r);
    return st;
}

hr_status hr__nccl_board_call(hr__nccl_board *b, int me, uint64_t seq,
                              const hr__call *c, const hr_op_label *label)
{
    if (b == NULL)
        return HR_OK;
    pthread_mutex_lock(&b->mu);
    hr_status st = call_locked(b, me, seq, c, label);
    pthread_mutex_unlock(&b->mu);
    return st;
}

bool hr__nccl_board_issued(hr__nccl_board *b, int member, uint64_t seq)
{
    pthread_mutex_lock(&b->mu);
    bool yes = b->issued[member] > seq;
    pthread_mutex_unlock(&b->mu);
    return yes;
}

/* ---- messages ---- */
static hr_status differ(const hr__nccl_board *b, int from, int to, size_t sent,
                        size_t wanted, hr__where where)
{
    return hr_fail(HR_ERR_MISMATCH, "size_mismatch",
                   "%s: rank %d sends %zu bytes to rank %d, which expects %zu",
                   where.text, b->global[from], sent, b->global[to], wanted);
}

static hr_status match(hr__nccl_board *b, int from, int to, const hr_p2p *op,
                       const hr__where *where)
{
    pair *p = &b->pairs[from * b->n + to];
    letter *l = p->first;
    if (l && p->by_sender != op->send) {
        size_t other = l->bytes;
        p->first = l->next;
        free(l);
        if (other == op->bytes)
            return HR_OK;
        return op->send ? differ(b, from, to, op->bytes, other, *where)
                        : differ(b, from, to, other, op->bytes, *where);
    }
    letter *mine = malloc(sizeof *mine);
    if (mine == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a message of a group");
    *mine = (letter){NULL, op->bytes};
    if (p->first)
        p->last->next = mine;
    else
        p->first = mine;
    p->last = mine;
    p->by_sender = op->send;
    return HR_OK;
}

hr_status hr__nccl_board_batch(hr__nccl_board *b, int me, uint64_t seq,
                               const hr_p2p *ops, int n, const hr_op_label *label)
{
    hr_status st = HR_OK;
    if (b == NULL)
        return HR_OK;
    hr__where where = hr__where_write(b->global, b->n, "send_recv", seq, label);
    pthread_mutex_lock(&b->mu);
    for (int i = 0; i < n && st >= 0; i++)
        st = ops[i].send ? match(b, me, ops[i].peer, &ops[i], &where)
                         : match(b, ops[i].peer, me, &ops[i], &where);
    pthread_mutex_unlock(&b->mu);
    return st;
}

int64_t hr__nccl_board_unmatched(hr__nccl_board *b, int from, int to, bool *by_sender)
{
    int64_t bytes = -1;
    pthread_mutex_lock(&b->mu);
    const pair *p = &b->pairs[from * b->n + to];
    for (const letter *l = p->first; l; l = l->next)
        bytes = (bytes < 0 ? 0 : bytes) + (int64_t)l->bytes;
    *by_sender = p->by_sender;
    pthread_mutex_unlock(&b->mu);
    return bytes;
}

/* ---- where members are ---- */
/* Its flights, seen just now, under both locks. */
static bool has_begun(hr__nccl_member *m, uint64_t seq)
{
    hr__nccl_flights_refresh(&m->flights, m->job->dev->rt);
    for (const hr__nccl_flight *x = m->flights.first; x; x = x->next)
        if (!x->batch && x->seq <= seq)
            return x->seq == seq && x->begun_ns > 0;
    return true;
}

bool hr__nccl_board_begun(hr__nccl_board *b, int member, uint64_t seq)
{
    bool yes = true; /* who has left had ended */
    pthread_mutex_lock(&b->mu);
    hr__nccl_member *m = b->who[member];
    if (m) {
        pthread_mutex_lock(&m->job->mu);
        yes = b->issued[member] > seq && has_begun(m, seq);
        pthread_mutex_unlock(&m->job->mu);
    }
    pthread_mutex_unlock(&b->mu);
    return yes;
}

void hr__nccl_board_where(hr__nccl_board *b, int member, char *buf, size_t cap)
{
    pthread_mutex_lock(&b->mu);
    hr__nccl_member *m = b->who[member];
    if (m && hr__nccl_under_way(m->job, buf, cap) == 0)
        hr__doing_write_last(buf, cap, &m->flights.doing, b->global[member]);
    pthread_mutex_unlock(&b->mu);
}
