/* What is in place of the MPI engine where the build has none: HR__WHY_NO_MPI is CMake's reason. */
#include "headrace/group_mpi.h"

#ifndef HR__WHY_NO_MPI
#define HR__WHY_NO_MPI "this build has no MPI engine"
#endif

static hr_status off(const char *what)
{
    return hr_fail(HR_ERR_UNSUPPORTED, "no_mpi", "%s: %s", what, HR__WHY_NO_MPI);
}

const char *hr_mpi_library(const char **why)
{
    if (why)
        *why = HR__WHY_NO_MPI;
    return NULL;
}

hr_status hr_mpi_run(const hr_mpi_opts *opts, hr_rank_fn fn, void *arg)
{
    return off("hr_mpi_run");
}

int hr_mpi_speaker(void)
{
    return 0;
}

int hr_mpi_finish(hr_status st)
{
    return st < 0;
}

hr_status hr_group_wrap_mpi(const void *comm, hr_device *dev, const hr_mpi_opts *opts,
                            hr_group **out)
{
    if (out)
        *out = NULL;
    return off("hr_group_wrap_mpi");
}
