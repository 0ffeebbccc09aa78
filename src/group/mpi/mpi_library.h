/* mpi_library.h: the MPI library of the process: brought up once, entered by many threads or, where it
 * must be, by one at a time. */
#ifndef HR_MPI_LIBRARY_H
#define HR_MPI_LIBRARY_H
#define OMPI_SKIP_MPICXX  1
#define MPICH_SKIP_MPICXX 1
#include "headrace/group_mpi.h"
#include <mpi.h>

/* Bring MPI up unless it is, and find out whether calls have to come one at a time: `serialise` asks
 * for it. Errors: ERR_UNSUPPORTED "mpi_threads", "mpi_over"; ERR_IO "mpi". */
hr_status hr__mpi_start(bool serialise);
bool hr__mpi_is_serial(void);
/* A rank was left behind: MPI cannot be ended in good order any more. `first`: the lowest that was not. */
void hr__mpi_mark_broken(int first);

/* Around calls; nothing where many threads may be in. */
void hr__mpi_lock(void);
void hr__mpi_unlock(void);
/* What a call returned, as a status: ERR_IO "mpi" with the library's sentence. */
hr_status hr__mpi_check(int rc, const char *call);

/* One call, locked and checked. */
#define HR__MPI(st, call)                                                              \
    do {                                                                               \
        hr__mpi_lock();                                                                \
        int rc_ = (call);                                                              \
        hr__mpi_unlock();                                                              \
        (st) = rc_ == MPI_SUCCESS ? HR_OK : hr__mpi_check(rc_, #call);                 \
    } while (0)
#define HR__MPI_TRY(call)                                                              \
    do {                                                                               \
        hr_status mpi_st_;                                                             \
        HR__MPI(mpi_st_, call);                                                        \
        if (mpi_st_ < 0)                                                               \
            return mpi_st_;                                                            \
    } while (0)

#endif
