/* The ring of a member's operations; see post.h. */
#include "group/post.h"
#include "base/try.h"
#include "group/rows.h"
#include <stdlib.h>

/* ---- the ring ---- */
void hr__posts_free(hr__posts *r)
{
    hr__post *p = r->newest ? r->newest->next : NULL;
    if (r->newest)
        r->newest->next = NULL;
    while (p) {
        hr__post *next = p->next;
        free(p->msgs);
        free(p->operands);
        free(p->send_counts);
        free(p);
        p = next;
    }
    r->newest = NULL;
}

void hr__posts_clear(hr__posts *r)
{
    hr__post *p = r->newest;
    if (p)
        do {
            atomic_store(&p->busy, false);
            p = p->next;
        } while (p != r->newest);
}

static hr__post *new_post(hr_group *of)
{
    size_t n = (size_t)of->size;
    hr__post *p = calloc(1, sizeof *p);
    int64_t *counts = calloc(2 * n, sizeof *counts);
    if (!p || !counts) {
        free(p);
        free(counts);
        return NULL;
    }
    p->of = of;
    p->send_counts = counts;
    p->recv_counts = counts + n;
    return p;
}

hr_status hr__post_take(hr__posts *r, hr_group *of, const hr_stream *s, hr__post **out)
{
    hr__post *oldest = r->newest ? r->newest->next : NULL;
    if (!oldest || atomic_load_explicit(&oldest->busy, memory_order_acquire)) {
        hr__post *p = new_post(of);
        *out = NULL;
        if (!p)
            return hr_fail(HR_ERR_NOMEM, NULL, "an operation of a group");
        p->next = oldest ? oldest : p;
        if (r->newest)
            r->newest->next = p;
        oldest = p;
    }
    atomic_store_explicit(&oldest->busy, true, memory_order_relaxed);
    oldest->stream = s;
    oldest->label = hr__order_label(s, &of->label);
    r->newest = oldest;
    *out = oldest;
    return HR_OK;
}

hr_status hr__post_reserve(hr__post *p, int n, size_t msg_bytes)
{
    if (n <= p->cap)
        return HR_OK;
    free(p->msgs);
    free(p->operands);
    p->msgs = calloc((size_t)n, msg_bytes);
    p->operands = calloc((size_t)n, sizeof *p->operands);
    p->cap = p->msgs && p->operands ? n : 0;
    return p->cap ? HR_OK : hr_fail(HR_ERR_NOMEM, NULL, "a batch of %d messages", n);
}

/* ---- issue ---- */
static hr_status launch(hr__post *p, const char *name, hr_kernel kernel,
                        const hr_operand *operands, int n, hr_stream *s)
{
    hr_status st = hr_launch(s, name, kernel, &p, sizeof p, operands, n);
    if (st < 0)
        atomic_store(&p->busy, false);
    return st;
}

static void copy_counts(hr__post *p, const hr__call *c, int64_t *out, int64_t *in)
{
    *out = *in = 0;
    for (int r = 0; r < p->of->size; r++) {
        p->send_counts[r] = c->send_counts[r];
        p->recv_counts[r] = c->recv_counts[r];
        *out += c->send_counts[r];
        *in += c->recv_counts[r];
    }
}

/* What it touches: at most three operands. */
static int declare(hr__post *p, const hr__call *c, hr_operand *o)
{
    int n = p->of->size, k = 0;
    int64_t out = c->count, in = c->count;
    if (c->window)
        return hr__rows_declare(c, n, p->of->rank, o);
    if (c->kind == HR__ALL_TO_ALL)
        copy_counts(p, c, &out, &in);
    else if (c->kind == HR__ALL_GATHER)
        in *= n;
    else if (c->kind == HR__REDUCE_SCATTER)
        out *= n;
    bool reads = c->kind == HR__BROADCAST && c->root == p->of->rank;
    if (c->send && out > 0)
        o[k++] = (hr_operand){c->send, (size_t)out * c->element_bytes, HR_READ};
    if (c->recv && in > 0)
        o[k++] = (hr_operand){c->recv, (size_t)in * c->element_bytes,
                              reads ? HR_READ : HR_WRITE};
    return k;
}

hr_status hr__post_collective(hr__post *p, const hr__call *c, hr_kernel kernel,
                              hr_stream *s)
{
    hr_operand operands[3];
    int n = declare(p, c, operands);
    p->call = *c;
    p->call.send_counts = p->call.recv_counts = NULL; /* the caller's */
    return launch(p, hr__op_name(c->kind), kernel, operands, n, s);
}

hr_status hr__post_batch(hr__post *p, const char *name, const hr_p2p *ops, int n,
                         hr_kernel kernel, hr_stream *s)
{
    int declared = 0;
    p->n = n;
    for (int i = 0; i < n; i++)
        if (ops[i].bytes)
            p->operands[declared++] = (hr_operand){ops[i].buf, ops[i].bytes,
                                                   ops[i].send ? HR_READ : HR_WRITE};
    return launch(p, name, kernel, p->operands, declared, s);
}
