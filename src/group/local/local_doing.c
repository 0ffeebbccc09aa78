/* See local_doing.h. */
#include "group/local/local_doing.h"
#include "group/local/local_channel.h"
#include <string.h>

static const hr_op_label no_label = {NULL, -1, -1, -1};

#define PUT(field, value)                                                              \
    atomic_store_explicit(&d->field, (value), memory_order_relaxed)
#define GET(field) atomic_load_explicit(&d->field, memory_order_relaxed)

void hr__doing_begin(hr__doing *d, const hr__entry *e)
{
    const hr_op_label *l = e->label ? e->label : &no_label;
    PUT(op, e->op);
    PUT(bytes, e->bytes);
    PUT(seq, e->seq);
    PUT(peers, e->peers);
    PUT(what, l->what);
    PUT(stage, l->stage);
    PUT(chunk, l->chunk);
    PUT(microbatch, l->microbatch);
    atomic_store_explicit(&d->inside, true, memory_order_release);
}

/* ---- words ---- */
static void add_number(hr__label_text *t, const char *name, int value)
{
    size_t len = strlen(t->text);
    if (value >= 0)
        snprintf(t->text + len, sizeof t->text - len, "%s%s %d", len ? ", " : " [",
                 name, value);
}

hr__label_text hr__label_write(const hr_op_label *l)
{
    hr__label_text t = {""};
    if (!l)
        return t;
    if (l->what)
        snprintf(t.text, sizeof t.text, " [%.40s", l->what);
    add_number(&t, "stage", l->stage);
    add_number(&t, "chunk", l->chunk);
    add_number(&t, "microbatch", l->microbatch);
    size_t len = strlen(t.text);
    if (len && len + 1 < sizeof t.text)
        memcpy(t.text + len, "]", 2);
    return t;
}

static void add_doing(char *buf, size_t cap, const hr__channel *ch, const hr__doing *d,
                      int rank)
{
    char bytes[32] = "", peers[64] = "";
    size_t len = strlen(buf);
    uint64_t mask = GET(peers);
    hr_op_label l = {GET(what), GET(stage), GET(chunk), GET(microbatch)};
    for (int i = 0; i < ch->n && i < 64; i++)
        if (mask >> i & 1)
            hr__list_rank(peers, sizeof peers, ch->global[i]);
    if (GET(bytes) >= 0)
        snprintf(bytes, sizeof bytes, " (%lld bytes)", (long long)GET(bytes));
    snprintf(buf + len, cap - len, "; rank %d is in %s%s%s%s", rank,
             hr__channel_where(ch, GET(op), GET(seq), &l).text, bytes,
             peers[0] ? " with " : "", peers);
}

static void add_last(char *buf, size_t cap, const hr__doing *d, int rank)
{
    size_t len = strlen(buf);
    const char *op = GET(op);
    if (op)
        snprintf(buf + len, cap - len,
                 "; rank %d is in no operation, its last here was %s %llu", rank, op,
                 (unsigned long long)GET(seq));
    else
        snprintf(buf + len, cap - len, "; rank %d is in no operation, it had none here",
                 rank);
}

/* How many of the rank's operations were added: one a channel may run, and one meet on the host. */
static int add_channel(char *buf, size_t cap, const hr__channel *ch, int rank)
{
    int found = 0;
    for (int i = 0; i < ch->n; i++) {
        const hr__member *m = &ch->members[i];
        const hr__doing *both[] = {&m->doing, &m->doing_host};
        for (int k = 0; ch->global[i] == rank && k < 2; k++)
            if (atomic_load_explicit(&both[k]->inside, memory_order_acquire)) {
                add_doing(buf, cap, ch, both[k], rank);
                found++;
            }
    }
    return found;
}

void hr__doing_list(char *buf, size_t cap, hr__channel *ch, int member)
{
    int rank = ch->global[member], found = 0;
    pthread_mutex_lock(&ch->job->mu);
    for (const hr__channel *c = ch->job->channels; c; c = c->next)
        found += add_channel(buf, cap, c, rank);
    pthread_mutex_unlock(&ch->job->mu);
    if (found == 0)
        add_last(buf, cap, &ch->members[member].doing, rank);
}
