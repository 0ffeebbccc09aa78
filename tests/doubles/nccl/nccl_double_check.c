/* The checker of order: what ranks call is compared when they call it, whatever runs when. */
#include "nccl_double_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(kind k)
{
    static const char *const names[] = {"all-reduce", "all-gather", "reduce-scatter",
                                        "broadcast",  "window",     "send",
                                        "receive"};
    return names[k];
}

/* Where in the window of its communicator a buffer lies; -1: in none. */
static long offset_of(const op *o)
{
    const char *p = o->send;
    for (const window *w = o->comm->windows; w; w = w->next)
        if (p >= w->base && p < w->base + w->bytes)
            return (long)(p - w->base);
    return -1;
}

static void say(clique *c)
{
    fprintf(stderr, "%s: %s\n", headrace_nccl_double, c->said);
}

/* ---- collectives and windows ---- */
static note *note_at(clique *c, long number)
{
    note **at = &c->notes;
    for (long i = c->notes_begin;; i++, at = &(*at)->next) {
        if (*at == NULL) {
            *at = calloc(1, sizeof **at);
            if (*at)
                (*at)->first = -1;
        }
        if (*at == NULL || i == number)
            return *at;
    }
}

static void drop_full(clique *c)
{
    for (note *n; (n = c->notes) != NULL && n->there == c->n;) {
        c->notes = n->next;
        c->notes_begin++;
        free(n);
    }
}

static void write_note(char *to, size_t cap, kind k, size_t count, int type, int red,
                       int root, long offset)
{
    int n = snprintf(to, cap, "%s of %zu elements of type %d, reduction %d, root %d",
                     name_of(k), count, type, red, root);
    if (offset >= 0 && n > 0 && (size_t)n < cap)
        snprintf(to + n, cap - (size_t)n, ", at %ld of its window", offset);
}

static bool collective_agrees(clique *c, const op *o)
{
    char theirs[128], mine[128];
    long number = o->comm->called++, offset = offset_of(o);
    note *n = note_at(c, number);
    if (n == NULL)
        return false;
    if (n->first < 0)
        *n = (note){n->next, o->kind,       o->count, o->type, o->op,
                    o->peer, o->comm->rank, 0,        offset};
    n->there++;
    if (n->kind == o->kind && n->count == o->count && n->type == o->type &&
        n->op == o->op && n->root == o->peer && n->offset == offset) {
        drop_full(c);
        return true;
    }
    write_note(theirs, sizeof theirs, n->kind, n->count, (int)n->type, (int)n->op,
               n->root, n->offset);
    write_note(mine, sizeof mine, o->kind, o->count, (int)o->type, (int)o->op, o->peer,
               offset);
    double_comm_fail(
        c, ncclInvalidUsage,
        "call %ld of a communicator of %d ranks: rank %d calls %s, but rank "
        "%d %s",
        number, c->n, n->first, theirs, o->comm->rank, mine);
    say(c);
    return false;
}

/* ---- messages ---- */
static bool message_agrees(clique *c, const op *o)
{
    int me = o->comm->rank, from = o->kind == SEND ? me : o->peer,
        to = o->kind == SEND ? o->peer : me;
    size_t bytes = o->count * double_type_bytes(o->type);
    letter **at = &c->letters[from * c->n + to];
    letter *l = *at;
    if (l && l->sent != (o->kind == SEND)) {
        size_t other = l->bytes;
        *at = l->next;
        free(l);
        if (other == bytes)
            return true;
        double_comm_fail(c, ncclInvalidUsage,
                         "rank %d sends %zu bytes to rank %d, which expects %zu", from,
                         o->kind == SEND ? bytes : other, to,
                         o->kind == SEND ? other : bytes);
        say(c);
        return false;
    }
    while (*at)
        at = &(*at)->next;
    *at = malloc(sizeof **at);
    if (*at)
        **at = (letter){NULL, o->kind == SEND, bytes};
    return *at != NULL;
}

bool double_agrees(clique *c, const op *o)
{
    if (getenv("HEADRACE_DOUBLE_UNCHECKED"))
        return true;
    return o->kind == SEND || o->kind == RECV ? message_agrees(c, o)
                                              : collective_agrees(c, o);
}

void double_check_free(clique *c)
{
    for (note *n; (n = c->notes) != NULL;) {
        c->notes = n->next;
        free(n);
    }
    for (int i = 0; i < c->n * c->n; i++)
        for (letter *l; (l = c->letters[i]) != NULL;) {
            c->letters[i] = l->next;
            free(l);
        }
}
