/* The five slots: their names, and which of them may free what they get. */
#include "plan/slot.h"

#define NAMES(n)                                                                       \
    {                                                                                  \
        n, n " forward", n " backward", n " wgrad"                                     \
    }

const hr__node_names hr__slot_names[HR_SLOTS] = {
    [HR_SLOT_PRE] = NAMES("pre_dispatch_computation"),
    [HR_SLOT_DISPATCH] = NAMES("moe_dispatch"),
    [HR_SLOT_MLP] = NAMES("mlp"),
    [HR_SLOT_COMBINE] = NAMES("moe_combine"),
    [HR_SLOT_MTP] = NAMES("mtp_post_process"),
};

const hr__node_names hr__preprocess_names = NAMES("pre_process");
const hr__node_names hr__postprocess_names = NAMES("post_process");

const char *hr_slot_name(hr_slot slot)
{
    return slot >= 0 && slot < HR_SLOTS ? hr__slot_names[slot].name : "?";
}

/* Quantised experts keep a copy of their own. Else the first product keeps what it was given,
 * unless a sort by expert came between; these backends deliver sorted. */
static bool mlp_input_is_spare(const hr_free_input_facts *facts)
{
    bool sorts = facts->local_experts > 1 || facts->dispatcher != HR_DISPATCH_ALLTOALL;
    bool sorted_on_arrival =
        facts->backend == HR_FLEX_HYBRIDEP || facts->backend == HR_FLEX_NCCLEP;
    return facts->quantized || (sorts && !sorted_on_arrival);
}

bool hr_free_input_policy(hr_slot slot, const hr_free_input_facts *facts)
{
    if (!facts->moe)
        return false;
    switch (slot) {
    case HR_SLOT_DISPATCH: /* the flex dispatcher keeps its input; so does a graph */
        return facts->dispatcher != HR_DISPATCH_FLEX && !facts->preprocess_captured;
    case HR_SLOT_MLP:
        return mlp_input_is_spare(facts);
    case HR_SLOT_COMBINE: /* a plain sum: nothing of it is saved */
        return true;
    default:
        return false;
    }
}
