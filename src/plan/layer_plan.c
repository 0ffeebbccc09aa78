/* Making a layer's nodes and taking them apart. */
#include "plan/layer_plan.h"

#include <stdlib.h>

#include "base/try.h"

/* The slot whose output is the layer's, MTP's own head aside: there the final norm goes. */
static int last_real_slot(const hr_layer_desc *desc)
{
    for (int s = HR_SLOT_COMBINE; s >= HR_SLOT_PRE; s--)
        if (desc->slot[s])
            return s;
    return -1;
}

static bool on_comm_stream(int slot)
{
    return slot == HR_SLOT_DISPATCH || slot == HR_SLOT_COMBINE;
}

hr_status hr__layer_plan_init(hr_layer_plan *plan, const hr_layer_desc *desc,
                              const hr_layer_plan_opts *opts,
                              const hr__layer_place *place)
{
    int norm_slot = place->norm ? last_real_slot(desc) : -1;
    plan->desc = *desc;
    plan->early_attn_release = opts->early_attn_release;
    plan->ctx.chunk = place->chunk;
    plan->ctx.state = place->state;
    plan->ctx.microbatch = opts->microbatch;
    for (int s = 0; s < HR_SLOTS; s++) {
        hr__slot_node *sn = &plan->slot[s];
        bool comm = on_comm_stream(s) && !opts->serial;
        sn->ctx = &plan->ctx;
        sn->slot = (hr_slot)s;
        sn->fn = desc->slot[s];
        sn->layer = desc->layer;
        sn->wgrad_done = desc->wgrad_done;
        sn->norm = s == norm_slot ? HR__NORM_OUTPUT : HR__NORM_NONE;
        hr_status st = hr__slot_init(
            sn, &(hr__slot_opts){.names = &hr__slot_names[s],
                                 .event = opts->event,
                                 .stream_fn = comm ? hr__comm_stream : hr__comp_stream,
                                 .free_input = desc->free_input[s],
                                 .zero_copy = opts->ncclep_zero_copy,
                                 .delay_wgrad = opts->delay_wgrad,
                                 .number = desc->number});
        if (st < 0) {
            while (s-- > 0)
                hr__slot_fini(&plan->slot[s]);
            return st;
        }
    }
    return HR_OK;
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
    hr_layer_plan *plan = calloc(1, sizeof *plan);
    void *state = desc->state_bytes ? calloc(1, desc->state_bytes) : NULL;
    hr_status st = HR_OK;
    if (plan == NULL || (desc->state_bytes && state == NULL))
        st = hr_fail(HR_ERR_NOMEM, NULL, "layer plan: no memory for %zu bytes of state",
                     desc->state_bytes);
    if (st >= 0)
        st = hr__layer_plan_init(plan, desc, opts, &(hr__layer_place){.state = state});
    if (st < 0) {
        free(state);
        free(plan);
        return st;
    }
    *out = plan;
    return HR_OK;
}

void hr_layer_plan_destroy(hr_layer_plan *plan)
{
    if (plan == NULL)
        return;
    hr__layer_plan_release(plan);
    free(plan->ctx.state);
    free(plan);
}
