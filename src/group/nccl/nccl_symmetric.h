/* nccl_symmetric.h: symmetric memory of NCCL's, registered as windows of a group's communicator. */
#ifndef HR_NCCL_SYMMETRIC_H
#define HR_NCCL_SYMMETRIC_H
#include "group/nccl/nccl_member.h"

hr_status hr__nccl_window_make(hr_group *g, size_t bytes, hr__window **out);
void hr__nccl_window_leave(hr__window *w);
void hr__nccl_window_delete(void *window, void *memory);

/* The communicator of `m` goes: its windows are plain memory from then on. Issuing thread. */
void hr__nccl_windows_close(hr__nccl_member *m);
/* Those that nobody uses any more go; all of them at the job's end. Issuing thread, which may then free memory. */
void hr__nccl_windows_free(hr__nccl_job *job, bool all);

#endif
