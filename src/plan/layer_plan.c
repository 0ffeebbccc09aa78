/* Making a layer's nodes and taking them apart. */
#include "plan/layer_plan.h"

#include "base/try.h"
#include "tensor/pool.h"

/* The slot whose output is the layer's, MTP's own head aside: there the final norm goes. -1: none. */
static int last_real_slot(const hr_layer_desc *desc)
{
    int s = HR_SLOT_COMBINE;
    while (s >= HR_SLOT_PRE && desc->slot[s] == NULL)
        s--;
    return s;
}

static int first_real_slot(const hr_layer_desc *desc)
{
    int s = HR_SLOT_PRE;
    while (s < HR_SLOTS && desc->slot[s] == NULL)
        s++;
    return s;
}

static bool on_comm_stream(int slot)
{
    return slot == HR_SLOT_DISPATCH || slot == HR_SLOT_COMBINE;
}

static void init_slot(hr_layer_plan *plan, int s, const hr_layer_plan_opts *opts,
                      bool norm)
{
    const hr_layer_desc *desc = &plan->desc;
    hr__slot_node *sn = &plan->slot[s];
    bool comm = on_comm_stream(s) && !opts->serial;
    sn->ctx = &plan->ctx;
    sn->slot = (hr_slot)s;
    sn->fn = desc->slot[s];
    sn->layer = desc->layer;
    sn->wgrad_done = desc->wgrad_done;
    sn->post_forward = s == last_real_slot(desc) ? desc->post_forward : NULL;
    sn->post_backward = s == first_real_slot(desc) ? desc->post_backward : NULL;
    sn->norm = norm && s == last_real_slot(desc) ? HR__NORM_OUTPUT : HR__NORM_NONE;
    hr__slot_init(
        sn, &(hr__slot_opts){.names = &hr__slot_names[s],
                             .event = opts->event,
                             .stream_fn = comm ? hr__comm_stream : hr__comp_stream,
                             .free_input = desc->free_input[s],
                             .zero_copy = opts->ncclep_zero_copy,
                             .delay_wgrad = opts->delay_wgrad,
                             .number = desc->number});
}

void hr__layer_plan_init(hr_layer_plan *plan, const hr_layer_desc *desc,
                         const hr_layer_plan_opts *opts, const hr__layer_place *place)
{
    plan->desc = *desc;
    plan->early_attn_release = opts->early_attn_release;
    plan->ctx.chunk = place->chunk;
    plan->ctx.state = place->state;
    plan->ctx.microbatch = opts->microbatch;
    for (int s = 0; s < HR_SLOTS; s++)
        init_slot(plan, s, opts, place->norm);
}

void hr__layer_plan_release(hr_layer_plan *plan)
{
    if (plan->released)
        return;
    plan->released = true;
    for (int s = 0; s < HR_SLOTS; s++)
        hr__slot_fini(&plan->slot[s]);
    if (plan->desc.state_fini)
        plan->desc.state_fini(plan->ctx.state);
}

static hr_status check(const hr_layer_desc *desc, const hr_layer_plan_opts *opts)
{
    if (desc == NULL || opts == NULL)
        return hr_fail(HR_ERR_INVALID, "no_argument", "hr_layer_plan_create: no %s",
                       desc ? "options" : "description");
    HR_CHECK_OPTS(desc, hr_layer_desc);
    HR_CHECK_OPTS(opts, hr_layer_plan_opts);
    return HR_OK;
}

hr_status hr_layer_plan_create(const hr_layer_desc *desc,
                               const hr_layer_plan_opts *opts, hr_layer_plan **out)
{
    *out = NULL;
    HR_TRY(check(desc, opts));
    hr_layer_plan *plan = hr__pool_get(sizeof *plan);
    void *state = desc->state_bytes ? hr__pool_get(desc->state_bytes) : NULL;
    if (plan == NULL || (desc->state_bytes && state == NULL)) {
        hr__pool_put(state, desc->state_bytes);
        hr__pool_put(plan, sizeof *plan);
        return hr_fail(HR_ERR_NOMEM, NULL,
                       "layer plan: no memory for %zu bytes of state",
                       desc->state_bytes);
    }
    hr__layer_plan_init(plan, desc, opts, &(hr__layer_place){.state = state});
    *out = plan;
    return HR_OK;
}

void hr_layer_plan_destroy(hr_layer_plan *plan)
{
    if (plan == NULL)
        return;
    hr__layer_plan_release(plan);
    hr__pool_put(plan->ctx.state, plan->desc.state_bytes);
    hr__pool_put(plan, sizeof *plan);
}
