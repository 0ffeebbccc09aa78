/* nccl_job.h: a rank of a job over NCCL: its GPU, its groups, and the watch that ends what hangs. Meetings, the one
 * failure, the end of a rank and resets are those of the base, the world that this one stands on.
 *
 * Calls of NCCL are made by the issuing thread alone, aborts included: whoever fails the job tells the base, and
 * each rank's issuing thread aborts its own communicators when it next waits for its device or issues.
 *
 * Lock order: a board's `mu`, then a job's `mu`, of which no thread holds two; both are leaves otherwise. */
#ifndef HR_NCCL_JOB_H
#define HR_NCCL_JOB_H
#include "device/cuda/cuda_device.h"
#include "group/group_ops.h"
#include "group/nccl/nccl_library.h"
#include <pthread.h>

struct hr__nccl_member;
struct hr__nccl_piece;
struct hr__nccl_window;

typedef struct hr__nccl_job {
    const hr__nccl *lib;
    hr__gpu_device *dev;
    hr_group *base; /* borrowed */
    int rank;
    int64_t limit_ns;
    hr__cuda_watch watch;
    struct hr__nccl_piece *pieces; /* issuing thread: memory that host and GPU reach */
    struct hr__nccl_window *windows; /* issuing thread */
    pthread_mutex_t mu;
    struct hr__nccl_member
        *members; /* mu to change and for other threads; oldest first */
} hr__nccl_job;

hr_status hr__nccl_job_create(hr_group *base, double timeout_s, hr__nccl_job **out);
void hr__nccl_job_destroy(hr__nccl_job *job); /* its groups are gone */

/* The job has failed, with the calling thread's last error: all ranks hear of it; this one's communicators end.
 * Issuing thread. */
void hr__nccl_fail(hr__nccl_job *job, hr_status st);
/* The job's failure; its communicators are aborted then. Issuing thread. */
hr_status hr__nccl_look_status(hr__nccl_job *job);
/* As a watch is asked: errors, failures of others, time limits. Issuing thread. */
void hr__nccl_look(void *job);

/* Append the operations of the rank that are under way; how many. From any thread. */
int hr__nccl_under_way(hr__nccl_job *job, char *buf, size_t cap);

#endif
