/* Weight gradients that wait for a later call: a batch a (chunk, microbatch), in the order in which the
 * plan would have run them. A piece of a batch is a slot's node that has its queue and nothing else
 * of the plan, which is gone by the time that the piece runs. */
#include "base/try.h"
#include "plan/wgrad_batch.h"
#include "tensor/pool.h"

typedef struct piece {
    struct piece *next;
    hr_layer_ctx ctx;
    hr__slot_node slot;
} piece;

struct hr__wgrad_batch {
    hr_wgrad_store *store;
    int chunk, microbatch;
    piece *head, **tail;
    hr__wgrad_batch *next;
};

struct hr_wgrad_store {
    int stage, n;
    hr__wgrad_batch *head; /* in the order of their backwards */
};

/* ---- batches ----------------------------------------------------------------------------- */
/* Where the batch hangs; what that points to is NULL if there is none. */
static hr__wgrad_batch **find(hr_wgrad_store *store, int chunk, int microbatch)
{
    hr__wgrad_batch **at = &store->head;
    while (*at && ((*at)->chunk != chunk || (*at)->microbatch != microbatch))
        at = &(*at)->next;
    return at;
}

hr_status hr__wgrad_batch_open(hr_wgrad_store *store, int chunk, int microbatch,
                               hr__wgrad_batch **out)
{
    *out = NULL;
    if (*find(store, chunk, microbatch))
        return hr_fail(
            HR_ERR_STATE, "wgrad_stored_twice",
            "stage %d, chunk %d, microbatch %d: backward runs again, but its "
            "stored weight gradients have not run",
            store->stage, chunk, microbatch);
    hr__wgrad_batch *b = hr__pool_get(sizeof *b);
    if (b == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to store weight gradients");
    b->store = store;
    b->chunk = chunk;
    b->microbatch = microbatch;
    b->tail = &b->head;
    *out = b;
    return HR_OK;
}

hr_status hr__wgrad_batch_take(hr__wgrad_batch *batch, hr__slot_node *sn)
{
    piece *p = hr__pool_get(sizeof *p);
    if (p == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to store weight gradients");
    p->ctx.microbatch = batch->microbatch;
    hr__slot_move_wgrad(sn, &p->ctx, &p->slot);
    *batch->tail = p;
    batch->tail = &p->next;
    return HR_OK;
}

void hr__wgrad_batch_commit(hr__wgrad_batch *batch)
{
    if (batch == NULL)
        return;
    hr__wgrad_batch **at = &batch->store->head;
    while (*at)
        at = &(*at)->next;
    *at = batch;
    batch->store->n++;
}

void hr__wgrad_batch_drop(hr__wgrad_batch *batch)
{
    if (batch == NULL)
        return;
    while (batch->head) {
        piece *p = batch->head;
        batch->head = p->next;
        hr__slot_fini(&p->slot);
        hr__pool_put(p, sizeof *p);
    }
    hr__pool_put(batch, sizeof *batch);
}

/* ---- the store --------------------------------------------------------------------------- */
hr_status hr_wgrad_store_create(int stage, hr_wgrad_store **out)
{
    HR_NEED(out);
    *out = hr__pool_get(sizeof **out);
    if (*out == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a store of weight gradients");
    (*out)->stage = stage;
    return HR_OK;
}

static void take_out(hr_wgrad_store *store, hr__wgrad_batch **at)
{
    *at = (*at)->next;
    store->n--;
}

void hr_wgrad_store_clear(hr_wgrad_store *store)
{
    while (store && store->head) {
        hr__wgrad_batch *b = store->head;
        take_out(store, &store->head);
        hr__wgrad_batch_drop(b);
    }
}

void hr_wgrad_store_destroy(hr_wgrad_store *store)
{
    hr_wgrad_store_clear(store);
    hr__pool_put(store, store ? sizeof *store : 0);
}

int hr_wgrad_store_pending(const hr_wgrad_store *store)
{
    return store ? store->n : 0;
}

static hr_status run_pieces(hr__wgrad_batch *b)
{
    for (piece *p = b->head; p; p = p->next) {
        hr_status st = hr_node_backward_dw(&p->slot.node);
        if (st < 0)
            return hr_fail(st, hr_last_reason(),
                           "stage %d, chunk %d, microbatch %d, layer %d: %s",
                           b->store->stage, b->chunk, b->microbatch, p->slot.node.layer,
                           hr_last_error());
    }
    return HR_OK;
}

hr_status hr_wgrad_store_run(hr_wgrad_store *store, int chunk, int microbatch)
{
    if (store == NULL)
        return hr_fail(HR_ERR_INVALID, "no_argument", "hr_wgrad_store_run: no store");
    hr__wgrad_batch **at = find(store, chunk, microbatch), *b = *at;
    if (b == NULL)
        return hr_fail(HR_ERR_STATE, "wgrad_empty",
                       "stage %d, chunk %d, microbatch %d: no weight gradients are "
                       "stored, or they have run",
                       store->stage, chunk, microbatch);
    take_out(store, at);
    hr_status st = run_pieces(b);
    hr__wgrad_batch_drop(b);
    if (st < 0)
        hr_wgrad_store_clear(store);
    return st;
}

hr_status hr_wgrad_store_end_step(hr_wgrad_store *store)
{
    if (store == NULL || store->head == NULL)
        return HR_OK;
    hr_status st =
        hr_fail(HR_ERR_STATE, "wgrad_left",
                "stage %d: the step ends, but weight gradients of %d backwards "
                "have not run, first chunk %d, microbatch %d",
                store->stage, store->n, store->head->chunk, store->head->microbatch);
    hr_wgrad_store_clear(store);
    return st;
}
