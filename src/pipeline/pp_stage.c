/* Where a rank stands in the pipeline, and a virtual stage among a rank's. */
#include "headrace/pipeline.h"

bool hr_is_pp_first_stage(const hr_group *group)
{
    return group == NULL || hr_group_rank(group) == 0;
}

bool hr_is_pp_last_stage(const hr_group *group)
{
    return group == NULL || hr_group_rank(group) == hr_group_size(group) - 1;
}

/* hr_group_global_rank() answers HR_NO_RANK outside of the group, so there is no ring. */
static int global_rank(const hr_group *group, int rank)
{
    return group ? hr_group_global_rank(group, rank) : HR_NO_RANK;
}

int hr_get_pp_first_rank(const hr_group *group)
{
    return global_rank(group, 0);
}

int hr_get_pp_last_rank(const hr_group *group)
{
    return group ? global_rank(group, hr_group_size(group) - 1) : HR_NO_RANK;
}

int hr_get_pp_next_rank(const hr_group *group)
{
    return group ? global_rank(group, hr_group_rank(group) + 1) : HR_NO_RANK;
}

int hr_get_pp_prev_rank(const hr_group *group)
{
    return group ? global_rank(group, hr_group_rank(group) - 1) : HR_NO_RANK;
}

static hr_status check_vp(int vp_stage, int vp_size)
{
    if (vp_size <= 1 && vp_stage != 0 && vp_stage != HR_NO_STAGE)
        return hr_fail(HR_ERR_INVALID, "vp_stage",
                       "virtual stage %d, but the virtual size is %d", vp_stage,
                       vp_size);
    return HR_OK;
}

hr_status hr_is_vp_first_stage(int vp_stage, int vp_size, bool *yes)
{
    hr_status st = check_vp(vp_stage, vp_size);
    if (st == HR_OK)
        *yes = vp_size <= 1 || vp_stage == 0;
    return st;
}

hr_status hr_is_vp_last_stage(int vp_stage, int vp_size, bool *yes)
{
    hr_status st = check_vp(vp_stage, vp_size);
    if (st == HR_OK)
        *yes = vp_size <= 1 || vp_stage == vp_size - 1;
    return st;
}
