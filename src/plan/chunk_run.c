/* Running two chunk plans together: the forward's layers from the first, the backward's from the last,
 * pair by pair, then what is left of either. The sends and receives of a pipeline hang on the
 * hooks: the one forward hides behind the last attention's backward, the one backward behind its
 * weight gradients. */
#include "base/try.h"
#include "plan/chunk_plan.h"

#include <stdio.h>

typedef struct run {
    hr__chunk_plan *f, *b;
    const hr_plan_hooks *hooks;
    hr__flow x;  /* between the forward's nodes */
    hr__grads g; /* between the backward's */
} run;

/* All that is queued on the current stream comes before the plan's next node. */
static hr_status record_current(hr__chunk_plan *plan)
{
    return hr_event_record(plan->base.event, hr_stream_current());
}

static hr_status wait_current(hr__chunk_plan *plan)
{
    return hr_event_wait(plan->base.event, hr_stream_current());
}

static hr_status begin_forward(run *r)
{
    if (r->hooks->pre_forward)
        HR_TRY(r->hooks->pre_forward(r->hooks->ctx, r->f->vp_stage));
    HR_TRY(record_current(r->f));
    r->x = (hr__flow){NULL, 0};
    return hr__slot_forward(&r->f->pre, &r->x);
}

static hr_status open_batch(hr__chunk_plan *b)
{
    if (b->wgrad_store == NULL)
        return HR_OK;
    int chunk = b->vp_stage == HR_NO_STAGE ? 0 : b->vp_stage;
    return hr__wgrad_batch_open(b->wgrad_store, chunk, b->ctx.microbatch,
                                &b->chunk.batch);
}

static hr_status begin_backward(run *r, hr_tensor *grad)
{
    HR_TRY(record_current(r->b));
    if (grad == NULL)
        return hr_fail(HR_ERR_INVALID, "no_grad_given",
                       "running plans: a backward plan without gradient");
    HR_TRY(open_batch(r->b));
    r->g = (hr__grads){.t = {hr_tensor_retain(grad)}, .n = 1};
    if (r->hooks->pre_backward) {
        HR_TRY(r->hooks->pre_backward(r->hooks->ctx, r->b->vp_stage));
        HR_TRY(record_current(r->b));
    }
    return hr__slot_backward(&r->b->post, &r->g);
}

static void release_last_layer(hr__chunk_plan *b)
{
    hr__layer_plan_release(&b->layers[--b->layers_left]);
}

/* One step: layer `fi` forward, layer `bi` backward; -1: none. */
static hr_status layer_step(run *r, int fi, int bi)
{
    hr_layer_plan *f = fi >= 0 ? &r->f->layers[fi] : NULL;
    hr_layer_plan *b = bi >= 0 ? &r->b->layers[bi] : NULL;
    char range[64];
    if (f && b)
        snprintf(range, sizeof range, "layer_%df-layer_%db", fi, bi);
    else
        snprintf(range, sizeof range, "layer_%d%c", f ? fi : bi, f ? 'f' : 'b');
    hr_range_push(range);
    hr_status st = hr__layer_run(f, b, &r->x, &r->g, bi == 0);
    if (st >= 0 && bi > 0)
        release_last_layer(r->b);
    hr_range_pop();
    return st;
}

static hr_status run_layers(run *r)
{
    int nf = r->f ? r->f->n_layers : 0, nb = r->b ? r->b->n_layers : 0;
    int pairs = nf < nb ? nf : nb;
    for (int i = 0; i < pairs; i++)
        HR_TRY(layer_step(r, i, nb - 1 - i));
    for (int i = pairs; i < nb; i++)
        HR_TRY(layer_step(r, -1, nb - 1 - i));
    for (int i = pairs; i < nf; i++)
        HR_TRY(layer_step(r, i, -1));
    return HR_OK;
}

static hr_status after_forward(run *r)
{
    hr_stream *comm = r->f->serial ? NULL : hr_get_comm_stream(), *previous;
    if (r->hooks->post_forward == NULL)
        return HR_OK;
    hr_stream_enter(comm, &previous);
    hr_status st = wait_current(r->f);
    if (st >= 0)
        st = r->hooks->post_forward(r->hooks->ctx, r->x.n ? r->x.t[0] : NULL,
                                    r->f->vp_stage);
    hr_stream_exit(comm, previous);
    return st;
}

static hr_status after_backward(run *r)
{
    if (r->hooks->post_backward == NULL)
        return HR_OK;
    HR_TRY(wait_current(r->b));
    return r->hooks->post_backward(r->hooks->ctx, r->g.n ? r->g.t[0] : NULL,
                                   r->b->vp_stage);
}

static hr_status end(run *r)
{
    if (r->b && r->b->n_layers > 0) {
        HR_TRY(hr_layer_plan_wgrad(&r->b->layers[0]));
        release_last_layer(r->b);
    }
    if (r->f)
        HR_TRY(hr__slot_forward(&r->f->post, &r->x));
    if (r->b)
        HR_TRY(hr__slot_backward(&r->b->pre, &r->g));
    if (r->f)
        HR_TRY(wait_current(r->f));
    if (r->b) {
        HR_TRY(wait_current(r->b));
        hr__wgrad_batch_commit(r->b->chunk.batch);
        r->b->chunk.batch = NULL;
        hr__chunk_plan_release(r->b);
    }
    return HR_OK;
}

/* The step that this run was a part of has failed: its stored work must not reach the next one. */
static void forget_stored(hr__chunk_plan *plan)
{
    if (plan == NULL || plan->wgrad_store == NULL)
        return;
    hr__wgrad_batch_drop(plan->chunk.batch);
    plan->chunk.batch = NULL;
    hr_wgrad_store_clear(plan->wgrad_store);
}

static hr_status steps(run *r, hr_tensor *grad)
{
    if (r->f)
        HR_TRY(begin_forward(r));
    if (r->b)
        HR_TRY(begin_backward(r, grad));
    HR_TRY(run_layers(r));
    if (r->f)
        HR_TRY(after_forward(r));
    if (r->b)
        HR_TRY(after_backward(r));
    return end(r);
}

static hr_status check(const hr__chunk_plan *plan, const char *what)
{
    if (plan && plan->released)
        return hr_fail(HR_ERR_STATE, "spent",
                       "running plans: the %s plan has run backward", what);
    return HR_OK;
}

hr_status hr__chunk_plan_run(hr_schedule_plan *f, hr_schedule_plan *b, hr_tensor *grad,
                             const hr_plan_hooks *hooks, hr_tensor **output)
{
    run r = {.f = (hr__chunk_plan *)f, .b = (hr__chunk_plan *)b, .hooks = hooks};
    HR_TRY(check(r.f, "forward"));
    HR_TRY(check(r.b, "backward"));
    hr_status st = steps(&r, grad);
    hr__grads_drop(&r.g);
    if (st < 0) {
        forget_stored(r.f);
        forget_stored(r.b);
    }
    if (st >= 0 && f && r.x.n)
        *output = hr_tensor_retain(r.x.t[0]);
    return st;
}
