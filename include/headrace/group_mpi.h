/* headrace/group_mpi.h: groups whose ranks are processes, on the MPI library of the build.
 *
 *     mpirun -n 4 program
 *
 *     hr_status st = hr_mpi_run(NULL, train, &args);   // world of 4, one rank a process
 *     if (st < 0)                                      // the same sentence on all of them
 *         fprintf(stderr, "%s\n", hr_last_error());
 *     return hr_mpi_finish(st);
 *
 * All of group.h holds. The first failure that a rank hears of ends its waits; at the end of the job all
 * agree on the one that came first. Symmetric memory is there within a host.
 *
 * Which library, and whether it lets many threads in at once, is in `headrace info`. Without one all
 * calls here are ERR_UNSUPPORTED with the reason.
 */
#ifndef HR_GROUP_MPI_H
#define HR_GROUP_MPI_H
#include "headrace/group.h"
HR_BEGIN_C

typedef struct hr_mpi_opts {
    size_t size;
    const char *backend; /* of this rank's device; NULL "host" */
    int cores;           /* of this rank; 0: its share of what its host lets it use */
    double timeout_s;    /* of each wait; 0: 300 */
    /* Calls of MPI one at a time, even if the library lets many threads in; also where it does not,
     * and by HEADRACE_MPI_THREADS=serialized, which the library then is told as well. */
    int serialise;
    hr_device_opts device; /* size 0: defaults; rank and cores are set by the job */
    /* Where an MPI_Comm is: its processes are the ranks. Borrowed for the call. NULL: all. */
    const void *comm;
} hr_mpi_opts;

/* What the library says of itself, one line; NULL: this build has none, and *why says so. */
HR_API const char *hr_mpi_library(const char **why);

/* The process was started by mpirun, srun or another that speaks PMI: its environment says so. */
HR_API bool hr_mpi_launched(void);

/* Run fn(world, arg) on this process as one rank of the job, with a device of its own that is current
 * there, and return when all ranks have: HR_OK, or the first failure, the same on all, with its
 * sentence ("rank 2: ... (host n1)"). Starts MPI if nobody has; one job at a time. A rank that does
 * not come to the end of a job that has failed is waited for as long as the time limit says, and for five
 * seconds at least.
 * Errors: ERR_INVALID, ERR_UNSUPPORTED, ERR_NOMEM, ERR_DEVICE, ERR_IO "mpi", what fn returns. */
HR_API HR_RESULT hr_status hr_mpi_run(const hr_mpi_opts *opts, hr_rank_fn fn,
                                      void *arg);

/* Which rank is to say what came of it, so that it is said once: after hr_mpi_run() the lowest of those that came to
 * its end; 0 unless rank 0 was left behind. */
HR_API int hr_mpi_speaker(void);

/* End MPI, if hr_mpi_run() has started it; the process's last call of it, and what it exits with: 0, or 1
 * after a failure. Where a rank of a failed job was left behind, the launcher is told to end all. */
HR_API HR_RESULT int hr_mpi_finish(hr_status st);

/* A world for an engine that has brought up MPI itself, with MPI_THREAD_SERIALIZED at least. Collective
 * over the communicator, and so is its release, which comes after that of all its groups.
 *
 * Owner:  borrows `dev`, which must outlive *out, and the communicator for the call only.
 * Errors: as hr_mpi_run(). `backend`, `cores` and `device` of the options are not used. */
HR_API HR_RESULT hr_status hr_group_wrap_mpi(const void *comm, hr_device *dev,
                                             const hr_mpi_opts *opts, hr_group **out);

HR_END_C
#endif
