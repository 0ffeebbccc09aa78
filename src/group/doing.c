/* See doing.h. */
#include "group/doing.h"
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
void hr__list_rank(char *buf, size_t cap, int rank)
{
    size_t len = strlen(buf);
    if (len + 20 < cap)
        snprintf(buf + len, cap - len, "%s%d", len ? "," : "", rank);
    else if (len + 5 < cap && buf[len - 1] != '.')
        snprintf(buf + len, cap - len, ",...");
}

void hr__list_missing(char *buf, size_t cap, int rank, int64_t bytes)
{
    size_t len = strlen(buf);
    if (len + 48 < cap)
        snprintf(buf + len, cap - len, "%s%d (%lld bytes)", len ? ", " : "", rank,
                 (long long)bytes);
    else if (len + 6 < cap && buf[len - 1] != '.')
        snprintf(buf + len, cap - len, ", ...");
}

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

hr__where hr__where_write(const int *global, int n, const char *op, uint64_t seq,
                          const hr_op_label *label)
{
    char ranks[96] = "";
    hr__where w;
    for (int i = 0; i < n; i++)
        hr__list_rank(ranks, sizeof ranks, global[i]);
    snprintf(w.text, sizeof w.text, "%.24s %llu of the group of ranks %s%s", op,
             (unsigned long long)seq, ranks, hr__label_write(label).text);
    return w;
}

void hr__doing_write(char *buf, size_t cap, const int *global, int n,
                     const hr__doing *d, int rank)
{
    char bytes[32] = "", peers[64] = "";
    size_t len = strlen(buf);
    uint64_t mask = GET(peers);
    hr_op_label l = {GET(what), GET(stage), GET(chunk), GET(microbatch)};
    for (int i = 0; i < n && i < 64; i++)
        if (mask >> i & 1)
            hr__list_rank(peers, sizeof peers, global[i]);
    if (GET(bytes) >= 0)
        snprintf(bytes, sizeof bytes, " (%lld bytes)", (long long)GET(bytes));
    snprintf(buf + len, cap - len, "; rank %d is in %s%s%s%s", rank,
             hr__where_write(global, n, GET(op), GET(seq), &l).text, bytes,
             peers[0] ? " with " : "", peers);
}

void hr__doing_write_last(char *buf, size_t cap, const hr__doing *d, int rank)
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
