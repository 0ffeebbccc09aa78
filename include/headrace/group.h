/* headrace/group.h: ranks, process groups, point to point and collectives.
 *
 * A group is one communicator and one ordered channel: all its members issue the same
 * operations in the same order. All operations are ordered on the stream that they are given
 * and return at once; buffers are borrowed until they have run. One group on two streams
 * without an event between them is ERR_STATE. Where two streams must talk independently there
 * are two groups. Engines: "local" (ranks are threads of one process), and the same shaken in four
 * ways, for the tests of code that stands on groups; see hr_local_opts.engine.
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
    /* 0: where the job has all CPUs of the process and one a rank at least, each rank keeps
     * to its own share of them; -1: never. */
    int bind;
    double timeout_s; /* of each wait; 0: 300 */
    /* Imitated link: 1e9 bits a second each way a rank; 0: as fast as memory; else at least 1e-6. */
    double link_gbps;
    double link_us;        /* imitated latency of an operation, microseconds */
    hr_device_opts device; /* size 0: defaults; rank and cores are set by the job */
    /* Real transports, each at another end of what the rules leave open, so that code which relies
     * on more than the rules fails on one of them:
     *
     * "local"             a send ends when its receive has taken the bytes, as soon as it can
     * "local-rendezvous"  the same, promised: no send ends without its receive
     * "local-buffered"    a send is copied at once and ends without its receive
     * "local-delays"      operations begin, read and end after delays that follow from `seed`
     * "local-late"        an operation begins, and so reads its sources and writes its results,
     *                     when somebody waits for it or for what is queued behind it: another
     *                     stream that has come to the wait, a thread that synchronises; a
     *                     source that was overwritten or released too early is wrong by then.
     *                     Freed memory is filled as by device.poison = 1 unless that is -1
     *
     * NULL: HEADRACE_GROUP_ENGINE in the environment, else "local". */
    const char *engine;
    /* Delays: the longest, 0: 200. Late: after how long what nobody waits for begins all the same,
     * for peers may need it; 0: 20,000. */
    double delay_us;
    uint64_t seed;
} hr_local_opts;

/* The i-th of those names; NULL past the end. */
HR_API const char *hr_local_engine_name(int i);

/* Run fn(world, arg) on `n` new threads, one a rank, each with a device of its own that is
 * current there, and return when all have returned: HR_OK, or the first failure in time with
 * its sentence ("rank 2: ...").
 * Errors: ERR_INVALID (n < 1; "group_engine" with the list), ERR_NOMEM, ERR_DEVICE, what fn
 *         returns. */
typedef hr_status (*hr_rank_fn)(hr_group *world, void *arg);
HR_API HR_RESULT hr_status hr_local_run(int n, const hr_local_opts *opts, hr_rank_fn fn,
                                        void *arg);

/* Mark the job as failed with `st` and the calling thread's last error, unless it has failed
 * already; wakes every wait. From any thread. Neither blocks. */
HR_API void hr_group_abort(hr_group *g, hr_status st);
HR_API HR_RESULT hr_status hr_group_status(hr_group *g); /* the job's first failure */

/* Where this rank of the job is, for people: "; rank 1 is in all_reduce 3 of the group of ranks 0,1
 * [gradients, stage 1] (64 bytes)" for each operation of any of its groups that has begun and has not
 * ended; "" in none. From any thread. */
HR_API void hr_group_where(const hr_group *g, char *buf, size_t cap);

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
HR_API const char *hr_group_engine(const hr_group *g); /* "local-late" */
/* "imitated link, 8 Gbit/s and 20 us" or "" : reports that used it say so. Valid as long as g. */
HR_API const char *hr_group_link_note(const hr_group *g);

/* What an operation is for: failures and time-outs say it, nothing else uses it. Belongs to what
 * this thread issues on `g` from now on; NULL: nothing to say but the node that is open then, if one is
 * (hr_span_begin()). Copied, at no cost to speak of. */
typedef struct hr_op_label {
    const char *what;             /* literal or interned: "send forward"; NULL: none */
    int stage, chunk, microbatch; /* -1: none */
} hr_op_label;
HR_API void hr_group_set_label(hr_group *g, const hr_op_label *label);

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
/* recv holds size * count elements, by rank. In place if send is my part of recv. */
HR_API HR_RESULT hr_status hr_all_gather(hr_group *g, const void *send, void *recv,
                                         int64_t count, hr_dtype t, hr_stream *s);
/* send holds size * count elements; mine come back reduced. In place if recv is my part of send. */
HR_API HR_RESULT hr_status hr_reduce_scatter(hr_group *g, const void *send, void *recv,
                                             int64_t count, hr_dtype t, hr_reduce op,
                                             hr_stream *s);
HR_API HR_RESULT hr_status hr_broadcast(hr_group *g, void *buf, size_t bytes, int root,
                                        hr_stream *s);
HR_API HR_RESULT hr_status hr_barrier(hr_group *g, hr_stream *s);

/* ---- symmetric memory: buffers that peers reach into ----------------------------------------
 * A window is device memory that every member has in the same size and at the same offset of the
 * group's symmetric space: offsets follow from the order of the creations alone. Tensors over
 * its storage are symmetric (hr_tensor_is_symmetric()). Peers touch it within the two operations
 * below and nowhere else: nobody begins before all members have, and nobody ends before all are
 * through; so its owner has only its own streams to order.
 */
typedef struct hr_window hr_window;

/* Collective over `g`, in the same order on all; blocks until every member has called (time limit
 * applies). `home` is the home stream of its storage. Contents are not initialised.
 *
 * Owner:   *out is the caller's, for hr_window_destroy(); it retains `g`.
 * Errors:  ERR_MISMATCH "window_mismatch" (members ask for different sizes), ERR_INVALID,
 *          ERR_UNSUPPORTED (an engine without), ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_window_create(hr_group *g, size_t bytes, hr_stream *home,
                                            hr_window **out);
/* Blocks until the group's operations have run; the bytes go with the storage's last claim. NULL
 * is fine. */
HR_API void hr_window_destroy(hr_window *w);
HR_API hr_storage *hr_window_storage(const hr_window *w); /* borrowed */
HR_API int64_t hr_window_offset(const hr_window *w);      /* the same on all members */
/* Where member `rank` has it; NULL outside the group, and where an engine cannot tell. */
HR_API void *hr_window_peer(const hr_window *w, int rank);

/* Rows between plain memory and windows, where only device memory knows how many. `counts` is the
 * same on all: counts[p * size * parts + e] rows of member p belong to part e; member r has
 * the parts r * parts .. r * parts + parts - 1.
 *
 *     plain   (mine)   part 0 | part 1 | ...                      all parts of all members
 *     window  (r's)    part r*parts: member 0, member 1, ... | part r*parts+1: member 0, ...
 *
 * Rows past the end of a window are left out: a store drops them, a load gives zeros. */
typedef struct hr_rows {
    size_t size;
    const int32_t *counts; /* device memory */
    int parts;
    size_t row_bytes;
    void *plain;
    int64_t plain_rows; /* room; ERR_INVALID when it runs, if the counts say more */
    hr_window *window;  /* of this group */
    size_t at;          /* where in the window row 0 is; the same on all members */
    int64_t window_rows;
} hr_rows;

/* My plain rows into the windows of those whose parts they are; and back from there. The host
 * waits nowhere. The members' counts are compared: ERR_MISMATCH names the pair. */
HR_API HR_RESULT hr_status hr_rows_store(hr_group *g, const hr_rows *rows,
                                         hr_stream *s);
HR_API HR_RESULT hr_status hr_rows_load(hr_group *g, const hr_rows *rows, hr_stream *s);

/* ---- rank layout: which ranks stand together ------------------------------------------------
 * Data alone, as Megatron's RankGenerator and initialize_model_parallel(): nothing communicates,
 * and every rank computes the same lists to hand to hr_group_create().
 *
 * A world is a grid of axes. The order says which axis runs fastest: in "tp-cp-ep-dp-pp" ranks 0
 * and 1 differ in tp first. The groups of "tp-dp" hold the ranks that differ in tp and dp alone:
 *
 *     hr_rank_layout l;
 *     hr_rank_groups g;
 *     HR_TRY(hr_rank_layout_init(&l, &(hr_rank_layout_opts){HR_INIT(hr_rank_layout_opts),
 *                                    .tp = 2, .dp = 2, .pp = 2}));   // 8 ranks
 *     HR_TRY(hr_rank_layout_groups(&l, "dp", &g));   // {0 2} {1 3} {4 6} {5 7}
 *     hr_rank_groups_fini(&g);
 */
#define HR_RANK_AXIS_MAP(X)                                                            \
    X(TP, "tp")               /* tensor */                                             \
    X(PP, "pp")               /* pipeline */                                           \
    X(DP, "dp")               /* data */                                               \
    X(EP, "ep")               /* experts */                                            \
    X(CP, "cp")               /* context */                                            \
    X(GTP_REMAT, "gtp_remat") /* weights that are gathered anew when needed */

typedef enum hr_rank_axis {
#define X(name, text) HR_AXIS_##name,
    HR_RANK_AXIS_MAP(X)
#undef X
        HR_RANK_AXES
} hr_rank_axis;

enum { HR_MAX_RANKS = 1 << 20 };                         /* of a layout */
HR_API const char *hr_rank_axis_name(hr_rank_axis axis); /* "tp"; "?" if unknown */

typedef struct hr_rank_layout_opts {
    size_t size;
    int tp, cp, ep, dp, pp, gtp_remat; /* how many ranks along each; 0: 1 */
    int offset;                        /* added to every rank */
    /* NULL: "tp-cp-ep-dp-pp". Capitals are fine; axes of one rank may be left out and come last. */
    const char *order;
} hr_rank_layout_opts;

typedef struct hr_rank_layout {
    hr_rank_axis axis[HR_RANK_AXES]; /* fastest first, each once */
    int extent[HR_RANK_AXES];        /* of axis[i] */
    int ranks, offset;
} hr_rank_layout;

/* Errors: ERR_INVALID "layout_size" (below 0, more than HR_MAX_RANKS ranks), "layout_ep_cp" (both
 * larger than 1 in one layout: experts have a layout of their own), "layout_axis" (a word in the order
 * that is no axis, or stands there twice), "layout_order" (an axis of more than one rank is missing). */
HR_API HR_RESULT hr_status hr_rank_layout_init(hr_rank_layout *l,
                                               const hr_rank_layout_opts *opts);

/* Lists of one length: ranks[i * size] to ranks[i * size + size - 1] are the i-th. */
typedef struct hr_rank_groups {
    int n, size;
    int *ranks;
} hr_rank_groups;
HR_API void hr_rank_groups_fini(hr_rank_groups *g);

/* The groups that span the axes in `axes` ("dp", "tp-dp"; their order there means nothing).
 * Errors: ERR_INVALID "layout_token", ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_rank_layout_groups(const hr_rank_layout *l,
                                                 const char *axes, hr_rank_groups *out);
/* The same without names: axis i has extent[i] ranks, fastest first, and is spanned if mask[i].
 * There are `ranks` / (size of a group) groups; ranks beyond the last whole one are in none.
 * Errors: ERR_INVALID "layout_size", ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_rank_groups_masked(int ranks, const int *extent,
                                                 const bool *mask, int n_axes,
                                                 hr_rank_groups *out);

/* `order` with the axis gtp_remat put in behind the axis `after`; where that is missing behind tp,
 * and in front where that is missing too. One that has it stays as it is. ERR_INVALID
 * "layout_order": no room. */
HR_API HR_RESULT hr_status hr_rank_order_inject(const char *order, const char *after,
                                                char *out, size_t cap);

/* Which of a pipeline group's ranks hold the word embedding: the first and the last; returns how
 * many. The position embedding is the first one's. */
HR_API int hr_embedding_ranks(const int *pp_ranks, int n, int out[2]);

/* The whole set-up of a world: every group, in the order in which all ranks create them. */
#define HR_WORLD_GROUP_MAP(X)                                                          \
    X(GTP_REMAT, "GTP_WEIGHT_REMAT_GROUP")                                             \
    X(DP_CP, "DATA_PARALLEL_GROUP_WITH_CP")                                            \
    X(DP, "DATA_PARALLEL_GROUP")                                                       \
    X(CP, "CONTEXT_PARALLEL_GROUP")                                                    \
    X(TP_PP, "MODEL_PARALLEL_GROUP")                                                   \
    X(TP, "TENSOR_MODEL_PARALLEL_GROUP")                                               \
    X(PP, "PIPELINE_MODEL_PARALLEL_GROUP")                                             \
    X(EMBEDDING, "EMBEDDING_GROUP")                                                    \
    X(POSITION_EMBEDDING, "POSITION_EMBEDDING_GROUP")                                  \
    X(TP_DP_CP, "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP")                              \
    X(TP_DP, "TENSOR_AND_DATA_PARALLEL_GROUP")                                         \
    X(TP_CP, "TENSOR_AND_CONTEXT_PARALLEL_GROUP")                                      \
    X(EXPERT_GTP_REMAT, "EXPERT_GTP_WEIGHT_REMAT_GROUP")                               \
    X(EXPERT, "EXPERT_MODEL_PARALLEL_GROUP")                                           \
    X(EXPERT_TP, "EXPERT_TENSOR_PARALLEL_GROUP")                                       \
    X(EXPERT_TP_EP, "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP")                          \
    X(EXPERT_TP_EP_PP, "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP")                  \
    X(EXPERT_TP_EP_PP_GTP, "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP_WITH_EGTP")    \
    X(EXPERT_DP, "EXPERT_DATA_PARALLEL_GROUP")                                         \
    X(OPTIMIZER, "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP")

typedef enum hr_world_group {
#define X(name, text) HR_WORLD_##name,
    HR_WORLD_GROUP_MAP(X)
#undef X
        HR_WORLD_GROUPS
} hr_world_group;

HR_API const char *hr_world_group_name(hr_world_group kind); /* "?" if unknown */

typedef struct hr_world_layout_opts {
    size_t size;
    int ranks;      /* of the world; 0: 1 */
    int tp, cp, pp; /* 0: 1; data parallel is what is left of the world */
    int ep;         /* 0: 1; experts lie on the same ranks, over tp and dp */
    int expert_tp;  /* 0: as tp */
    int vp;         /* virtual stages a rank; 0: not interleaved */
    const char *order;
} hr_world_layout_opts;

typedef struct hr_world_layout hr_world_layout;

/* Errors: those of hr_rank_layout_init(); ERR_INVALID "world_size" (the world does not divide),
 * "world_vp" (virtual stages without a pipeline), "world_pp_last" (pp does not come last in the order,
 * and experts have another data parallel size), "world_pp_groups" (dense and expert layers would be
 * piped through different ranks); ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_world_layout_create(const hr_world_layout_opts *opts,
                                                  hr_world_layout **out);
HR_API void hr_world_layout_destroy(hr_world_layout *w); /* NULL is fine */

/* How many groups there are, and the i-th to be created; *ranks is borrowed. Past the end: HR_WORLD_GROUPS,
 * no ranks. */
HR_API int hr_world_layout_count(const hr_world_layout *w);
HR_API hr_world_group hr_world_layout_at(const hr_world_layout *w, int i,
                                         const int **ranks, int *n);
/* The group of that kind that `rank` is in: its place in the order of creation; -1 for none. */
HR_API int hr_world_layout_find(const hr_world_layout *w, hr_world_group kind,
                                int rank);

HR_END_C
#endif
