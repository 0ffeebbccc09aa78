/* What is in place of the NCCL engine where the build has none: HR__WHY_NO_NCCL is CMake's reason. */
#include "headrace/group_nccl.h"

#ifndef HR__WHY_NO_NCCL
#define HR__WHY_NO_NCCL "this build has no NCCL engine"
#endif

const char *hr_nccl_library(const char **why)
{
    if (why)
        *why = HR__WHY_NO_NCCL;
    return NULL;
}

static hr_status off(const char *what, hr_group **out)
{
    if (out)
        *out = NULL;
    return hr_fail(HR_ERR_UNSUPPORTED, "no_nccl", "%s: %s", what, HR__WHY_NO_NCCL);
}

hr_status hr_group_over_nccl(hr_group *base, const hr_nccl_opts *opts, hr_group **out)
{
    return off("hr_group_over_nccl", out);
}

hr_status hr_group_wrap_nccl(void *comm, hr_group *base, const hr_nccl_opts *opts,
                             hr_group **out)
{
    return off("hr_group_wrap_nccl", out);
}

void *hr_group_nccl_comm(const hr_group *g)
{
    return NULL;
}
