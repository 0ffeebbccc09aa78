/* headrace/group.h: ranks, process groups, point to point and collectives.
 *
 * A group is one communicator and one ordered channel: all its members issue the same
 * operations in the same order. All operations are ordered on the stream that they are given
 * and return at once; buffers are borrowed until they have run. One group on two streams
 * without an event between them is ERR_STATE. Where two streams must talk independently there
 * are two groups. Engines: "local" (ranks are threads of one process).
 *
 * Failure: a wait inside an operation has the job's time limit. The first failure of any rank
 * aborts the job: every rank's pending and later operations end, and each rank's device fails
 * with that first cause, which names the rank. hr_job_reset() starts again.
 *
 * Threads: a group belongs to its rank's issuing thread.
 */
#ifndef HR_GROUP_H
#define HR_GROUP_H
#include "headrace/tensor.h"
HR_BEGIN_C

typedef struct hr_group hr_group;

enum { HR_NO_RANK = -1, HR_NO_STAGE = -1 };

/* ---- jobs: ranks as threads -------------------------------------------------------------- */
typedef struct hr_local_opts {
    size_t size;
    const char *backend; /* of each rank's device; NULL "host" */
    int cores; /* all ranks together; 0: what the process may use, 1 a rank at least */
    int bind; /* 0: where the job has all CPUs of the process and one a rank at least, each
                            rank keeps to its own share of them; -1: never */
    double timeout_s; /* of each wait; 0: 300 */
    double
        link_gbps; /* imitated link: 1e9 bits a second each way a rank; 0: as fast as memory */
    double link_us;        /* imitated latency of an operation, microseconds */
    hr_device_opts device; /* size 0: defaults; rank and cores are set by the job */
} hr_local_opts;

/* Run fn(world, arg) on `n` new threads, one a rank, each with a device of its own that is
 * current there, and return when all have returned: HR_OK, or the first failure in time with
 * its sentence ("rank 2: ...").
 * Errors: ERR_INVALID (n < 1), ERR_NOMEM, ERR_DEVICE, what fn returns. */
typedef hr_status (*hr_rank_fn)(hr_group *world, void *arg);
HR_API HR_RESULT hr_status hr_local_run(int n, const hr_local_opts *opts, hr_rank_fn fn,
                                        void *arg);

/* Mark the job as failed with `st` and the calling thread's last error, unless it has failed
 * already; wakes every wait. From any thread. Neither blocks. */
HR_API void hr_group_abort(hr_group *g, hr_status st);
HR_API HR_RESULT hr_status hr_group_status(hr_group *g); /* the job's first failure */

/* Collective over the world: blocks until every rank has called, resets their devices, drops
 * what was under way; the next operation is exact. */
HR_API HR_RESULT hr_status hr_job_reset(hr_group *world);

/* ---- groups: counted ----------------------------------------------------------------------- */
/* Members are ranks *of the parent*, each once. Collective over the parent, all in the same order
 * with the same lists; a rank that is not in the list gets *out NULL. ranks NULL: all of the
 * parent. Blocks until every member of the parent has called (time limit applies). */
HR_API HR_RESULT hr_status hr_group_create(hr_group *parent, const int *ranks, int n,
                                           hr_group **out);
HR_API hr_group *hr_group_retain(hr_group *g);
HR_API void hr_group_release(hr_group *g); /* NULL is fine */
HR_API int hr_group_rank(const hr_group *g);
HR_API int hr_group_size(const hr_group *g);
HR_API int hr_group_global_rank(const hr_group *g, int rank); /* HR_NO_RANK outside */
HR_API hr_device *hr_group_device(const hr_group *g);
HR_API const char *hr_group_engine(const hr_group *g);
/* "imitated link, 8 Gbit/s and 20 us" or "" : reports that used it say so. Valid as long as g. */
HR_API const char *hr_group_link_note(const hr_group *g);

/* ---- operations ------------------------------------------------------------------------------ */
typedef struct hr_p2p {
    bool send;
    int peer; /* rank in the group */
    void *buf;
    size_t bytes; /* 0 is a message too */
} hr_p2p;
/* All at once: no order within a batch can deadlock. Across batches, per ordered pair, the order
 * of sends is the order of receives. Sizes that differ fail both with ERR_MISMATCH. */
HR_API HR_RESULT hr_status hr_group_batch(hr_group *g, const hr_p2p *ops, int n,
                                          hr_stream *s);

/* Rank r gets send_counts[r] elements from me, after those for ranks below it; what I get is
 * packed the same way. `counts` (size of the group) are copied; zero is ordinary. The two sides'
 * counts are always compared: ERR_MISMATCH names the pair. */
HR_API HR_RESULT hr_status hr_all_to_all_v(hr_group *g, const void *send,
                                           const int64_t *send_counts, void *recv,
                                           const int64_t *recv_counts,
                                           size_t element_bytes, hr_stream *s);

typedef enum hr_reduce { HR_SUM, HR_MAX, HR_MIN } hr_reduce;
/* Sums are taken in rank order: ((r0 + r1) + r2) + ..., so every rank has the same bits. In place
 * if send is recv. Types: F32, I32, I64. */
HR_API HR_RESULT hr_status hr_all_reduce(hr_group *g, const void *send, void *recv,
                                         int64_t count, hr_dtype t, hr_reduce op,
                                         hr_stream *s);
/* recv holds size * count elements, by rank. */
HR_API HR_RESULT hr_status hr_all_gather(hr_group *g, const void *send, void *recv,
                                         int64_t count, hr_dtype t, hr_stream *s);
/* send holds size * count elements; mine come back reduced. */
HR_API HR_RESULT hr_status hr_reduce_scatter(hr_group *g, const void *send, void *recv,
                                             int64_t count, hr_dtype t, hr_reduce op,
                                             hr_stream *s);
HR_API HR_RESULT hr_status hr_broadcast(hr_group *g, void *buf, size_t bytes, int root,
                                        hr_stream *s);
HR_API HR_RESULT hr_status hr_barrier(hr_group *g, hr_stream *s);

HR_END_C
#endif
