/* hr_mpi_launched(): launchers leave their mark in the environment; MPI need not be up for it. */
#include "headrace/group_mpi.h"
#include <stdlib.h>

bool hr_mpi_launched(void)
{
    static const char *const marks[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "PMIX_RANK"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (getenv(marks[i]))
            return true;
    return false;
}
