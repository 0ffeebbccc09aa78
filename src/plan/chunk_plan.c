/* Building the plan of a model chunk: one block of memory with all its nodes and states, and one
 * event that they share. */
#include "plan/chunk_plan.h"

#include "base/try.h"
#include "tensor/pool.h"

static size_t aligned(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

static hr_status default_preprocess(void *chunk, hr_layer_ctx *ctx,
                                    hr_tensor *const *in, int n, hr_tensor **out,
                                    int *n_out)
{
    if (n < 1 || in[0] == NULL)
        return hr_fail(HR_ERR_INVALID, "no_argument",
                       "a chunk without preprocess got no input");
    out[0] = hr_tensor_retain(in[0]);
    *n_out = 1;
    return HR_OK;
}

/* The chunk's inputs are no node's inputs: what comes from elsewhere has its gradient at the
 * tensor itself, where a send finds it. */
static hr_status preprocess(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                            hr_tensor **out, int *n_out)
{
    hr__chunk_plan *plan = layer;
    return plan->preprocess(plan->chunk.chunk, ctx, plan->inputs, plan->n_inputs, out,
                            n_out);
}

static hr_status check(const hr_chunk_desc *desc, hr_tensor *const *inputs, int n,
                       const hr_build_plan_opts *opts)
{
    if (desc == NULL || opts == NULL)
        return hr_fail(HR_ERR_INVALID, "no_argument", "hr_build_schedule_plan: no %s",
                       desc ? "options" : "description");
    HR_CHECK_OPTS(desc, hr_chunk_desc);
    HR_CHECK_OPTS(opts, hr_build_plan_opts);
    if ((n > 0 && inputs == NULL) || (desc->n_layers > 0 && desc->layers == NULL))
        return hr_fail(HR_ERR_INVALID, "no_argument",
                       "hr_build_schedule_plan: %d inputs and %d layers, but no list",
                       n, desc->n_layers);
    if (n < 0 || n > HR_NODE_MAX || desc->n_layers < 0)
        return hr_fail(HR_ERR_INVALID, "input_count",
                       "hr_build_schedule_plan: %d inputs (0 to %d), %d layers", n,
                       HR_NODE_MAX, desc->n_layers);
    for (int i = 0; i < desc->n_layers; i++)
        HR_CHECK_OPTS(&desc->layers[i], hr_layer_desc);
    return HR_OK;
}

static hr__chunk_plan *allocate(const hr_chunk_desc *desc, char **states)
{
    size_t head = aligned(sizeof(hr__chunk_plan) +
                          (size_t)desc->n_layers * sizeof(hr_layer_plan));
    size_t bytes = head + aligned(desc->state_bytes);
    for (int i = 0; i < desc->n_layers; i++)
        bytes += aligned(desc->layers[i].state_bytes);
    hr__chunk_plan *plan = hr__pool_get(bytes);
    if (plan == NULL)
        return NULL;
    plan->bytes = bytes;
    *states = (char *)plan + head;
    return plan;
}

static void *take_state(char **states, size_t bytes)
{
    void *state = bytes ? *states : NULL;
    *states += aligned(bytes);
    return state;
}

static int last_decoder_layer(const hr_chunk_desc *desc)
{
    int last = desc->n_layers - 1;
    while (last >= 0 && desc->layers[last].mtp)
        last--;
    return last;
}

static void init_ends(hr__chunk_plan *plan, const hr_chunk_desc *desc)
{
    hr__slot_opts opts = {.names = &hr__preprocess_names,
                          .event = plan->base.event,
                          .stream_fn = hr__comp_stream,
                          .number = -1};
    bool norm = desc->final_norm && last_decoder_layer(desc) < 0;
    plan->pre = (hr__slot_node){
        .ctx = &plan->ctx, .slot = HR_SLOTS, .fn = preprocess, .layer = plan};
    hr__slot_init(&plan->pre, &opts);
    opts.names = &hr__postprocess_names;
    plan->post = (hr__slot_node){.ctx = &plan->ctx,
                                 .slot = HR_SLOTS,
                                 .fn = desc->postprocess,
                                 .layer = desc->chunk,
                                 .norm = norm ? HR__NORM_INPUT : HR__NORM_NONE};
    hr__slot_init(&plan->post, &opts);
}

static void init_layers(hr__chunk_plan *plan, const hr_chunk_desc *desc,
                        const hr_build_plan_opts *opts, char *states)
{
    hr_layer_plan_opts lo = {HR_INIT(hr_layer_plan_opts),
                             .event = plan->base.event,
                             .microbatch = opts->microbatch,
                             .delay_wgrad = opts->delay_wgrad || opts->wgrad_store,
                             .early_attn_release = opts->early_attn_release,
                             .serial = opts->serial,
                             .ncclep_zero_copy = opts->ncclep_zero_copy};
    int norm_layer = desc->final_norm ? last_decoder_layer(desc) : -1;
    for (int i = 0; i < desc->n_layers; i++) {
        const hr_layer_desc *layer = &desc->layers[i];
        hr__layer_place place = {.state = take_state(&states, layer->state_bytes),
                                 .chunk = &plan->chunk,
                                 .norm = i == norm_layer};
        hr__layer_plan_init(&plan->layers[i], layer, &lo, &place);
    }
    plan->n_layers = plan->layers_left = desc->n_layers;
}

static hr_status fill(hr__chunk_plan *plan, const hr_chunk_desc *desc,
                      hr_tensor *const *inputs, int n, const hr_build_plan_opts *opts,
                      char *states)
{
    plan->base.ops = &hr__chunk_plan_ops;
    plan->serial = opts->serial;
    plan->wgrad_store = opts->wgrad_store;
    plan->vp_stage = desc->vp_stage;
    plan->preprocess = desc->preprocess ? desc->preprocess : default_preprocess;
    plan->postprocess = desc->postprocess;
    plan->state_fini = desc->state_fini;
    plan->chunk = (hr__chunk_ctx){.state = take_state(&states, desc->state_bytes),
                                  .chunk = desc->chunk,
                                  .final_norm = desc->final_norm};
    plan->ctx.chunk = &plan->chunk;
    plan->ctx.state = plan->chunk.state;
    plan->ctx.microbatch = opts->microbatch;
    for (int i = 0; i < n; i++)
        plan->inputs[i] = hr_tensor_retain(inputs[i]);
    plan->n_inputs = n;
    hr_device *dev = hr_device_current();
    if (dev == NULL)
        return hr_fail(HR_ERR_STATE, "no_device",
                       "hr_build_schedule_plan: no current device");
    HR_TRY(hr_event_create(dev, &plan->base.event));
    init_ends(plan, desc);
    init_layers(plan, desc, opts, states);
    return HR_OK;
}

hr_status hr_build_schedule_plan(const hr_chunk_desc *chunk, hr_tensor *const *inputs,
                                 int n, const hr_build_plan_opts *opts,
                                 hr_schedule_plan **out)
{
    char *states = NULL;
    *out = NULL;
    HR_TRY(check(chunk, inputs, n, opts));
    hr__chunk_plan *plan = allocate(chunk, &states);
    if (plan == NULL)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a plan of %d layers",
                       chunk->n_layers);
    hr_status st = fill(plan, chunk, inputs, n, opts, states);
    if (st < 0) {
        hr__chunk_plan_ops.destroy(&plan->base);
        return st;
    }
    *out = &plan->base;
    return HR_OK;
}

void hr__chunk_plan_release(hr__chunk_plan *plan)
{
    if (plan->released)
        return;
    plan->released = true;
    hr__wgrad_batch_drop(plan->chunk.batch);
    plan->chunk.batch = NULL;
    for (int i = 0; i < plan->n_layers; i++)
        hr__layer_plan_release(&plan->layers[i]);
    plan->layers_left = 0;
    hr__slot_fini(&plan->post);
    hr__slot_fini(&plan->pre);
    for (int i = 0; i < plan->n_inputs; i++)
        hr_tensor_release(plan->inputs[i]);
    plan->n_inputs = 0;
    if (plan->state_fini)
        plan->state_fini(plan->chunk.state);
}

static void destroy(hr_schedule_plan *base)
{
    hr__chunk_plan *plan = (hr__chunk_plan *)base;
    hr__chunk_plan_release(plan);
    hr_event_destroy(base->event);
    hr__pool_put(plan, plan->bytes);
}

const hr_schedule_plan_ops hr__chunk_plan_ops = {
    .name = "model chunk",
    .run = hr__chunk_plan_run,
    .destroy = destroy,
};

int hr_chunk_plan_layers_left(const hr_schedule_plan *plan)
{
    return plan->ops == &hr__chunk_plan_ops
               ? ((const hr__chunk_plan *)plan)->layers_left
               : 0;
}

bool hr__plan_ends_with_layers(const hr_schedule_plan *plan)
{
    return plan->ops != &hr__chunk_plan_ops ||
           ((const hr__chunk_plan *)plan)->postprocess == NULL;
}

bool hr__plan_begins_with_layers(const hr_schedule_plan *plan)
{
    const hr__chunk_plan *chunk = (const hr__chunk_plan *)plan;
    if (plan->ops != &hr__chunk_plan_ops)
        return true;
    return chunk->n_inputs > 0 && chunk->pre.node.n_out > 0 &&
           chunk->pre.node.out[0] == chunk->inputs[0];
}
