/* The order in which one layer's forward and another's backward are issued: while a transfer of
 * the one is under way, the other computes.
 *
 *     compute        [mtp B]          pre F   mlp B           mlp W   [pre B]  mlp F           [pre B] [mtp F] pre W
 *     communication          comb B           disp F  disp B                           comb F
 *
 * (from left to right in order of issue; pre B stands before mlp F where the attention's memory
 * is to be released early.) */
#include "base/try.h"
#include "plan/layer_plan.h"

static hr_status fwd(hr_layer_plan *f, hr_slot slot, hr__flow *x)
{
    return f ? hr__slot_forward(&f->slot[slot], x) : HR_OK;
}

static hr_status bwd(hr_layer_plan *b, hr_slot slot, hr__grads *g)
{
    return b ? hr__slot_backward(&b->slot[slot], g) : HR_OK;
}

static hr_status wgrad(hr_layer_plan *b, hr_slot slot)
{
    return b ? hr__slot_wgrad(&b->slot[slot]) : HR_OK;
}

/* All but MLP's, in the order of backward. A transfer has some only if it asked for a queue. */
static hr_status last_wgrads(hr_layer_plan *b)
{
    if (b && b->slot[HR_SLOT_COMBINE].queue)
        HR_TRY(wgrad(b, HR_SLOT_COMBINE));
    if (b && b->slot[HR_SLOT_DISPATCH].queue)
        HR_TRY(wgrad(b, HR_SLOT_DISPATCH));
    return wgrad(b, HR_SLOT_PRE);
}

hr_status hr__layer_run(hr_layer_plan *f, hr_layer_plan *b, hr__flow *x, hr__grads *g,
                        bool is_last_layer_in_bwd)
{
    bool early = b && b->early_attn_release;
    HR_TRY(bwd(b, HR_SLOT_MTP, g));
    HR_TRY(bwd(b, HR_SLOT_COMBINE, g));
    HR_TRY(fwd(f, HR_SLOT_PRE, x));
    HR_TRY(bwd(b, HR_SLOT_MLP, g));
    HR_TRY(fwd(f, HR_SLOT_DISPATCH, x));
    HR_TRY(wgrad(b, HR_SLOT_MLP));
    HR_TRY(bwd(b, HR_SLOT_DISPATCH, g));
    if (early)
        HR_TRY(bwd(b, HR_SLOT_PRE, g));
    HR_TRY(fwd(f, HR_SLOT_MLP, x));
    HR_TRY(fwd(f, HR_SLOT_COMBINE, x));
    if (!early)
        HR_TRY(bwd(b, HR_SLOT_PRE, g));
    HR_TRY(fwd(f, HR_SLOT_MTP, x));
    return is_last_layer_in_bwd ? HR_OK : last_wgrads(b);
}

hr_status hr_layer_plan_run(hr_layer_plan *f, hr_layer_plan *b, hr_tensor *f_input,
                            hr_tensor *b_grad, bool is_last_layer_in_bwd,
                            hr_tensor **f_out, hr_tensor **b_grad_out)
{
    hr__flow x = {&f_input, 1};
    hr__grads g = {.t = {b ? hr_tensor_retain(b_grad) : NULL}, .n = b ? 1 : 0};
    *f_out = NULL;
    *b_grad_out = NULL;
    hr_status st = hr__layer_run(f, b, &x, &g, is_last_layer_in_bwd);
    if (st >= 0) {
        *f_out = f && x.n ? x.t[0] : NULL;
        *b_grad_out = g.n ? hr_tensor_retain(g.t[0]) : NULL;
    }
    hr__grads_drop(&g);
    return st;
}

hr_status hr_layer_plan_wgrad(hr_layer_plan *b)
{
    return last_wgrads(b);
}
