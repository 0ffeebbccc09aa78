/* Weight-gradient work that backward leaves for later: a list, run from its head. */
#include "autograd/function.h"
#include "base/try.h"
#include "tensor/pool.h"

enum { TENSORS = sizeof((hr_wgrad_item){0}.tensor) / sizeof(hr_tensor *) };

struct entry {
    hr_wgrad_item item;           /* its tensors are ours */
    hr_storage *claimed[TENSORS]; /* where the tensor is the pushed one itself */
    struct entry *next;
};

struct hr_wgrad_queue {
    struct entry *head, **tail;
    int pending;
};

hr_status hr_wgrad_queue_create(hr_wgrad_queue **out)
{
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out",
                       "hr_wgrad_queue_create: `out` is NULL");
    *out = hr__pool_get(sizeof **out);
    if (!*out)
        return hr_fail(HR_ERR_NOMEM, "nomem", "no memory for a weight-gradient queue");
    (*out)->tail = &(*out)->head;
    return HR_OK;
}

static void destroy(struct entry *e, hr_stream *s)
{
    for (int i = 0; i < TENSORS; i++) {
        hr_tensor *t = e->item.tensor[i];
        if (e->claimed[i])
            hr__storage_unclaim(e->claimed[i], s);
        else if (t)
            hr__tensor_unclaim(t, s);
        hr_tensor_release(t);
    }
    hr__pool_put(e, sizeof *e);
}

/* An alias knows neither graph nor gradient, which is right for activations; a parameter is
 * kept itself, so that the work finds its gradient buffer. Either has a claim of its own. */
static hr_status keep(struct entry *e, int i, hr_tensor *t)
{
    HR_TRY(hr_tensor_check(t, e->item.name ? e->item.name : "hr_wgrad_push"));
    if (!t->requires_grad || t->graph)
        return hr__tensor_share(t, t->offset, t->ndim, t->shape, &e->item.tensor[i]);
    e->item.tensor[i] = hr_tensor_retain(t);
    if (hr__storage_claim(t->storage))
        e->claimed[i] = t->storage;
    return HR_OK;
}

hr_status hr_wgrad_push(hr_wgrad_queue *q, const hr_wgrad_item *item)
{
    hr_status st = HR_OK;
    if (!q || !item || !item->run)
        return hr_fail(HR_ERR_INVALID, "wgrad", "hr_wgrad_push: no queue or no work");
    struct entry *e = hr__pool_get(sizeof *e);
    if (!e)
        return hr_fail(HR_ERR_NOMEM, "nomem", "no memory for a weight-gradient item");
    e->item = *item;
    for (int i = 0; i < TENSORS; i++)
        e->item.tensor[i] = NULL;
    for (int i = 0; i < TENSORS && st >= 0; i++)
        if (item->tensor[i])
            st = keep(e, i, item->tensor[i]);
    if (st < 0) {
        destroy(e, NULL);
        return st;
    }
    *q->tail = e;
    q->tail = &e->next;
    q->pending++;
    return HR_OK;
}

static struct entry *take_head(hr_wgrad_queue *q)
{
    struct entry *e = q->head;
    q->head = e->next;
    if (!q->head)
        q->tail = &q->head;
    q->pending--;
    return e;
}

hr_status hr_wgrad_run(hr_wgrad_queue *q)
{
    hr_status st = HR_OK;
    if (!q || !q->head)
        return hr_fail(HR_ERR_STATE, "wgrad_empty",
                       "no delayed weight gradient is left to run");
    bool mode = hr_grad_mode_set(false);
    while (q->head && st >= 0) {
        struct entry *e = take_head(q);
        st = e->item.run(&e->item);
        destroy(e, hr_stream_current());
    }
    hr_grad_mode_set(mode);
    if (st < 0) /* a step that failed leaves nothing for the next one */
        hr_wgrad_clear(q);
    return st < 0 ? st : HR_OK;
}

int hr_wgrad_pending(const hr_wgrad_queue *q)
{
    return q ? q->pending : 0;
}

void hr_wgrad_clear(hr_wgrad_queue *q)
{
    while (q && q->head)
        destroy(take_head(q), NULL);
}

void hr_wgrad_queue_destroy(hr_wgrad_queue *q)
{
    hr_wgrad_clear(q);
    hr__pool_put(q, q ? sizeof *q : 0);
}
