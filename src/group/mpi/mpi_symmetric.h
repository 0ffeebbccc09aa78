/* Symmetric memory of the MPI engine: windows that MPI shares within a host. */
#ifndef HR_MPI_SYMMETRIC_H
#define HR_MPI_SYMMETRIC_H
#include "group/mpi/mpi_member.h"
#include "group/rows.h"

hr_status hr__mpi_window_make(hr_group *g, size_t bytes, hr__window **out);
void hr__mpi_window_leave(hr__window *w);
void hr__mpi_window_delete(void *window, void *memory);
/* At the end of the job, when all have come to it: collective. */
void hr__mpi_windows_free(hr__mpi_job *job);

/* What the members have called with, after the first step of rows: counts[] of all are in the scratch
 * memory, and their heads with the exchange. */
hr_status hr__mpi_rows_check(hr__mpi_member *m, const hr__call *mine, hr__where where);

#endif
