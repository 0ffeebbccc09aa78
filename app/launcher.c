/* launcher.c: see launcher.h. */
#include "launcher.h"
#include "headrace/group_mpi.h"
#include <stdlib.h>

/* The first of those names whose value is a number. */
static int number(const char *const *names, int n, int none)
{
    for (int i = 0; i < n; i++) {
        const char *text = getenv(names[i]);
        char *end = NULL;
        long v = text ? strtol(text, &end, 10) : -1;
        if (text && end != text && !*end && v >= 0 && v <= 1 << 20)
            return (int)v;
    }
    return none;
}

int hr_app_launch_size(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_STEP_NUM_TASKS"};
    return number(names, sizeof names / sizeof names[0], 0);
}

int hr_app_launch_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "SLURM_PROCID"};
    return number(names, sizeof names / sizeof names[0], -1);
}

bool hr_app_launch_is_shared(void)
{
    int n = hr_app_launch_size();
    return n > 1 || (n == 0 && hr_mpi_launched());
}
