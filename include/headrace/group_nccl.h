/* headrace/group_nccl.h: groups whose transfers between GPUs are NCCL's.
 *
 * Ranks are threads of a process (hr_local_run()) or processes (hr_mpi_run()), each with a CUDA device of its own
 * GPU. Their world, called the base below, is where they meet, hear of failures and keep time; over it stands a
 * second world whose operations run on the GPUs:
 *
 *     static hr_status train(hr_group *base, void *arg)
 *     {
 *         hr_group *world;
 *         HR_TRY(hr_group_over_nccl(base, NULL, &world));   // all ranks; groups are made of `world`
 *         ...
 *         hr_group_release(world);
 *     }
 *
 * All of group.h holds, but for what NCCL does its own way:
 *  - Sums are taken in NCCL's own order: the same on all members, equal from run to run only. A maximum or a
 *    minimum of f32 leaves NaN out.
 *  - Members that call different things are found, as ERR_MISMATCH, where they are threads of one process. Between
 *    processes they wait for each other in vain and end at the time limit, if NCCL does not find it.
 *  - A wait that hangs ends while this rank waits for its device or issues an operation; not while it computes on
 *    its own.
 *  - On streams of one device several groups may be under way at once, but the first operation of a group may make
 *    issuing wait for its members: all ranks should come to the first operations of their groups in one order.
 *  - Symmetric memory is NCCL's, registered as windows. hr_rows_store() and hr_rows_load() are ERR_UNSUPPORTED.
 *
 * Buffers may lie in memory of the GPU or of the host; those of the host go through memory that both reach.
 * Which library, or why there is none, is in `headrace info`. HEADRACE_NCCL names one by its path.
 */
#ifndef HR_GROUP_NCCL_H
#define HR_GROUP_NCCL_H
#include "headrace/group.h"
HR_BEGIN_C

typedef struct hr_nccl_opts {
    size_t size;
    double timeout_s; /* of each wait; 0: 300 */
} hr_nccl_opts;

/* The library and its version, one line; NULL: none can be used here, and *why says so. */
HR_API const char *hr_nccl_library(const char **why);

/* Do groups of this device need NCCL? True where kernels of the host, which other engines move bytes by, cannot
 * reach its memory. */
HR_API bool hr_nccl_is_needed(const hr_device *dev);

/* Collective over `base`, a world whose ranks have CUDA devices on GPUs of their own.
 *
 * Owner:   *out is the caller's, for hr_group_release(), before which all its groups are released; it borrows
 *          `base`, which must outlive it.
 * Errors:  the same on all ranks. ERR_UNSUPPORTED "no_nccl" (no library, a device that is not CUDA's),
 *          "shared_gpu" (two ranks on one GPU); ERR_INVALID, ERR_NOMEM, ERR_DEVICE "nccl", ERR_TIMEOUT. */
HR_API HR_RESULT hr_status hr_group_over_nccl(hr_group *base, const hr_nccl_opts *opts,
                                              hr_group **out);

/* The same for an engine that has a communicator of these ranks already: `comm` is its ncclComm_t, which carries
 * the operations of *out; groups made of *out have communicators of their own.
 *
 * Owner:   the communicator stays its owner's and must outlive *out; a failure of the job aborts it, and then
 *          hr_group_nccl_comm() is NULL and its owner has nothing to destroy.
 * Errors:  also ERR_INVALID "nccl_comm" (it has other ranks, or another GPU). */
HR_API HR_RESULT hr_status hr_group_wrap_nccl(void *comm, hr_group *base,
                                              const hr_nccl_opts *opts, hr_group **out);

/* The ncclComm_t of a group, for calls of one's own on the group's streams, which all members make in the same
 * order. NULL: not over NCCL, or aborted. */
HR_API void *hr_group_nccl_comm(const hr_group *g);

HR_END_C
#endif
