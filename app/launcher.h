/* What a launcher (mpirun, srun) tells a process that it has started, by the environment: known before MPI is
 * up, and also where the build has none.
 */
#ifndef HR_APP_LAUNCHER_H
#define HR_APP_LAUNCHER_H
#include <stdbool.h>

/* How many processes it has started for this job; 0: none has, or it does not say. */
int hr_app_launch_size(void);
/* Which of them this is; -1: none has, or it does not say. */
int hr_app_launch_rank(void);
/* This process is one of several that are to work together. */
bool hr_app_launch_is_shared(void);

#endif
