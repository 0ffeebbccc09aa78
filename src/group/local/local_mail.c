/* See local_mail.h. */
#include "group/local/local_mail.h"
#include "group/local/local_manner.h"
#include <stdlib.h>
#include <string.h>

struct parcel {
    hr__msg msg; /* first: the list holds messages; its buf is `bytes` */
    unsigned char bytes[];
};

hr_status hr__mail_send(hr__member *m, const hr__msg *g)
{
    hr__channel *ch = m->ch;
    struct parcel *p = malloc(sizeof *p + g->op.bytes);
    if (!p)
        return hr_fail(HR_ERR_NOMEM, NULL, "a send of %zu bytes", g->op.bytes);
    p->msg = *g;
    p->msg.op.buf = p->bytes;
    p->msg.next = NULL;
    if (g->op.bytes)
        memcpy(p->bytes, g->op.buf, g->op.bytes);
    _Atomic(hr__msg *) *head = hr__head(ch, m->me, g->op.peer);
    hr__msg **tail = &ch->mail_tails[head - ch->heads];
    pthread_mutex_lock(&ch->mail);
    if (atomic_load_explicit(head, memory_order_relaxed))
        (*tail)->next = &p->msg;
    else
        atomic_store_explicit(head, &p->msg, memory_order_release);
    *tail = &p->msg;
    pthread_mutex_unlock(&ch->mail);
    return HR_OK;
}

void hr__mail_drop(hr__channel *ch, _Atomic(hr__msg *) *head)
{
    pthread_mutex_lock(&ch->mail);
    hr__msg *first = atomic_load_explicit(head, memory_order_relaxed);
    atomic_store_explicit(head, first->next, memory_order_release);
    pthread_mutex_unlock(&ch->mail);
    free(first);
}

void hr__mail_clear(hr__channel *ch)
{
    if (ch->mail_tails)
        for (int i = 0; i < ch->n * ch->n; i++)
            while (atomic_load(&ch->heads[i]))
                hr__mail_drop(ch, &ch->heads[i]);
}
