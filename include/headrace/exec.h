/* headrace/exec.h: the executor: runs any checked schedule over stages, streams and groups.
 *
 * A schedule says in which order a rank computes (headrace/schedule.h); a stage says what it computes:
 * a handful of functions, the caller's own kernels or a chunk plan of headrace/plan.h. The executor
 * takes the actions of its rank in order, posts the transfers between ranks on streams of their
 * own, and never lets a buffer go that a transfer still reads.
 *
 *     hr_exec_create(&(hr_exec_opts){HR_INIT(hr_exec_opts), .pp = pp, .stages = mine,
 *                                    .n_stages = 1, .shapes = shapes}, &e);
 *     hr_exec_load(e, schedule, &program);          // checked and lowered once
 *     for (...)
 *         hr_exec_step(e, program, NULL, NULL);     // all microbatches, issued
 *     hr_device_synchronize(device);                // done, or why not
 *
 * A transfer of stage s to stage s + 1 (and of the gradient back) goes from rank to rank over a
 * channel for each ordered pair of ranks: a group and two streams (one at each end), so that no
 * transfer waits behind one of another pair. Along a channel the order of receives is the order of
 * sends; nothing depends on a transport that buffers.
 *
 * Failure: what a callback returns, and what fails on a device, reaches all ranks as the job's first
 * cause (headrace/group.h) with stage, microbatch and action in its sentence. A step that failed
 * leaves nothing: after hr_job_reset() the next one is exact.
 *
 * Threads: as devices: the issuing thread of its rank.
 */
#ifndef HR_EXEC_H
#define HR_EXEC_H
#include "headrace/group.h"
#include "headrace/plan.h"
#include "headrace/schedule.h"
HR_BEGIN_C

/* ---- scale of loss and gradients -----------------------------------------------------------
 * One contract for every schedule and layout. The library knows the counts of the whole step before
 * its first forward, and divides in one place: in the `scale` that the last stage gets. */
typedef struct hr_step_counts {
    hr_loss_mode mode;
    int64_t microbatches; /* of the step, on all data-parallel ranks */
    int64_t tokens;       /* valid ones of the step, likewise; 0 unless MEAN_TOKEN */
} hr_step_counts;

/* What the sum over the valid tokens of a microbatch's losses is multiplied with: 1 (SUM), 1 /
 * (its tokens x microbatches), 1 / all tokens. Nothing valid: 0. */
HR_API double hr_loss_scale(const hr_step_counts *c, int64_t tokens);
/* The same for a loss by sequence (load balance): 1, 1 / (microbatches x sequences in one), its valid
 * tokens / all tokens. */
HR_API double hr_sequence_loss_scale(const hr_step_counts *c, int64_t sequences,
                                     int64_t tokens);

/* ---- stages -------------------------------------------------------------------------------- */
/* Where a callback is. Valid during the call. */
typedef struct hr_exec_at {
    int stage; /* along the model */
    int chunk; /* of this rank's stages, counted along the model */
    int microbatch;
    bool first, last; /* of the model */
    bool backward;    /* this forward will have a backward */
    bool split;       /* that comes as input gradient, then weight gradients */
    bool paired;      /* this work is one half of an overlapped pair */
    const hr_step_counts *step;
    double scale; /* last stage: hr_loss_scale(); else 0 */
} hr_exec_at;

/* One half of an overlapped pair. */
typedef struct hr_exec_half {
    void *ctx; /* of its stage */
    const hr_exec_at *at;
    hr_tensor *in;   /* input, or gradient of the output */
    hr_tensor **out; /* output, or gradient of the input: one reference */
} hr_exec_half;

/* What one stage does. All run on the issuing thread, with the compute stream current, and issue
 * only; what comes in is ordered before what they issue there. `in` and `grad` are borrowed: a stage
 * that needs them later retains them; the executor gives up its claims when the backward of the
 * microbatch is issued, and those of what a stage puts out when it is sent, or at once where the function
 * fails. Gradients of parameters accumulate where the caller keeps them.
 *
 * The first stage has no input (NULL) and puts out no gradient; the last has no gradient coming in
 * and puts out no output (NULL): its forward makes the loss, times at->scale, and its backward
 * begins there. */
typedef struct hr_exec_stage {
    size_t size;
    int stage; /* along the model */
    void *ctx;
    hr_status (*forward)(void *ctx, const hr_exec_at *at, hr_tensor *in,
                         hr_tensor **out);
    hr_status (*backward)(void *ctx, const hr_exec_at *at, hr_tensor *grad,
                          hr_tensor **grad_in);
    /* The backward in two; NULL: schedules with split backward are refused. */
    hr_status (*input_grad)(void *ctx, const hr_exec_at *at, hr_tensor *grad,
                            hr_tensor **grad_in);
    hr_status (*weight_grad)(void *ctx, const hr_exec_at *at);
    /* The forward `f` of this stage beside the backward (or input gradient) `b` of one, this or
     * another, with the same `pair`. The hooks are to be called as by hr_schedule_plan_run(): inputs are
     * there after pre_forward, pre_backward; outputs leave with post_forward, post_backward. Those
     * not called by the end are made up for. NULL: one after the other. */
    hr_status (*pair)(const hr_exec_half *f, const hr_exec_half *b,
                      const hr_plan_hooks *hooks);
    /* All gradients of this stage's parameters are issued: a place to start their reduction. Every
     * rank of a data-parallel group calls it in the same order. May be NULL. */
    hr_status (*reduce)(void *ctx, int stage);
    /* Last stage, MEAN_MICROBATCH and MEAN_TOKEN: the valid tokens of a microbatch, before the step. */
    hr_status (*tokens)(void *ctx, int microbatch, int64_t *tokens);
    /* A step failed: drop all that is kept between a forward and a backward. May be NULL. */
    void (*drop)(void *ctx);
} hr_exec_stage;

/* ---- the executor ---------------------------------------------------------------------------- */
typedef struct hr_exec_shape {
    hr_dtype dtype;
    int ndim;
    int64_t dim[HR_MAX_DIMS];
} hr_exec_shape;

typedef struct hr_exec hr_exec;
typedef struct hr_program hr_program;

typedef struct hr_exec_opts {
    size_t size;
    hr_group *pp;    /* rank r of it runs order r of the schedules */
    hr_group *world; /* all ranks that step together; NULL: pp */
    int dp;          /* pipelines side by side, for the scale of losses; 0: 1 */
    const hr_exec_stage *stages; /* of this rank; copied */
    int n_stages;
    /* Of the input of each stage of the model, [0] unused. NULL: shapes vary, and go ahead of the data
     * on the same channel; the host then waits for a shape where its tensor is needed. */
    const hr_exec_shape *shapes;
    int n_shapes;
    uint64_t fingerprint; /* of what else must be alike on all ranks (layout, sizes) */
} hr_exec_opts;

/* Collective over `world`.
 *
 * Owner:   retains the groups. ERR_INVALID, ERR_NOMEM, errors of hr_group_create(). */
HR_API HR_RESULT hr_status hr_exec_create(const hr_exec_opts *opts, hr_exec **out);
HR_API void
hr_exec_destroy(hr_exec *e); /* blocks until its transfers have run; NULL is fine */

/* What this rank does in one step: the schedule is checked, lowered (unless it is) and laid out for
 * this rank. Any number of them: with other schedules, counts of microbatches, or forward only.
 * Collective over `world`: what is refused is refused on all ranks alike, schedules are compared, and
 * channels that are new are made; no microbatch is sent.
 *
 * Owner:   *out for hr_program_destroy(), before the executor; `s` may go.
 * Errors:  those of hr_schedule_check(); ERR_MISMATCH "exec_differs"; ERR_INVALID "exec_ranks" (made for another number of ranks),
 *          "exec_stage" (a stage of this rank without functions, or functions for one that is
 *          elsewhere), "exec_split" (input gradients, but a stage has none), "exec_shapes";
 *          ERR_UNSUPPORTED "exec_sequence" (parts of sequences), "exec_shards" (weights to gather). */
HR_API HR_RESULT hr_status hr_exec_load(hr_exec *e, const hr_schedule *s,
                                        hr_program **out);
HR_API void hr_program_destroy(hr_program *p); /* NULL is fine */

typedef struct hr_exec_step_opts {
    size_t size;
    hr_loss_mode mode;
} hr_exec_step_opts;

/* Run one step. All ranks of `world` first compare what they are about to run, which is also when they
 * learn the counts of the step: the host waits for that, and for variable shapes; the rest is
 * issued. A program without backward runs with grad mode off.
 *
 * Errors:  ERR_MISMATCH "exec_differs", on all ranks, naming two that disagree and in what; what
 *          callbacks return, with stage, microbatch and action put before; the job's first
 *          failure. */
HR_API HR_RESULT hr_status hr_exec_step(hr_exec *e, const hr_program *p,
                                        const hr_exec_step_opts *opts,
                                        hr_step_counts *counts);

/* ---- a stage made of plans --------------------------------------------------------------------
 * For models in the five slots of headrace/plan.h: a pair then interleaves layers, and its transfers
 * hang on the plan's hooks. */
typedef struct hr_plan_stage hr_plan_stage;

typedef struct hr_plan_stage_opts {
    size_t size;
    int stage;
    void *ctx;
    /* The plan of one microbatch; `in` (NULL: the first stage) is its first input and wants a gradient.
     * `opts` are to be given to hr_build_schedule_plan(). The library destroys it. */
    hr_status (*plan)(void *ctx, const hr_exec_at *at, hr_tensor *in,
                      const hr_build_plan_opts *opts, hr_schedule_plan **out);
    /* Last stage: the loss of a microbatch from the plan's output, times at->scale. */
    hr_status (*loss)(void *ctx, const hr_exec_at *at, hr_tensor *output,
                      hr_tensor **loss);
    hr_status (*reduce)(void *ctx, int stage);                       /* may be NULL */
    hr_status (*tokens)(void *ctx, int microbatch, int64_t *tokens); /* may be NULL */
    int vp_stage;     /* as in hr_chunk_desc */
    bool delay_wgrad; /* whole backwards: weight gradients fill the gaps of the plan */
    bool serial;      /* pairs run one after the other, all on the compute stream */
    bool ncclep_zero_copy;
    /* Keep only the input, and run the forward again before the backward; not in pairs. `plan`
     * and `loss` are then called twice for a microbatch, first with grad mode off. */
    bool recompute;
} hr_plan_stage_opts;

HR_API HR_RESULT hr_status hr_plan_stage_create(const hr_plan_stage_opts *opts,
                                                hr_plan_stage **out);
HR_API void hr_plan_stage_destroy(hr_plan_stage *s); /* NULL is fine */
/* For hr_exec_opts.stages; borrowed. */
HR_API const hr_exec_stage *hr_plan_stage_fns(const hr_plan_stage *s);

/* ---- gradients over ranks ----------------------------------------------------------------------
 * Sums, in rank order, of each parameter's gradient: first over its copies (tied embeddings, and the
 * two replicas of a bidirectional placement), then over data-parallel ranks. What has no copies is
 * reduced in buckets as soon as its stage is through, while later backward work runs; what has
 * waits for the end of the step.
 *
 * Sharded, a data-parallel rank gets the sums of its own range of each parameter alone, so that it need
 * keep no more of the optimiser's state, and its weights of that range go to the others afterwards:
 *
 *     hr_grads_begin(g);                                    // {.shard = true}, each entry its weights
 *     ... backward, which calls hr_grads_reduce() ...
 *     HR_TRY(hr_grads_finish(g));                           // reduce-scatter
 *     for (int i = 0; i < n; i++)                           // squares of hr_grads_range(g, i)
 *     HR_TRY(hr_grads_norm(g, squares, &norm));
 *     for (int i = 0; i < n; i++)                           // update of hr_grads_range(g, i)
 *     HR_TRY(hr_grads_gather(g));                           // all-gather
 *
 * Sums, norm and so the weights have the same bits either way. */
typedef struct hr_grads hr_grads;

/* Whoever shares a gradient has it with the same count, stage and id, and the same neighbours. */
typedef struct hr_grad_desc {
    float *grad; /* device memory, f32; borrowed */
    int64_t count;
    int stage; /* where there are copies: the same for all of them */
    int id; /* of all parameters of the model, alike on all ranks: order of the norm */
    hr_group *copies; /* ranks that hold it, this one among them; NULL: only this */
    hr_group
        *over;    /* data-parallel ranks: dense ones dp, experts dp / ep; NULL: none */
    void *weight; /* sharded: device memory, `count` of opts.weight_dtype; borrowed */
} hr_grad_desc;

typedef struct hr_grads_opts {
    size_t size;
    const hr_grad_desc *grads; /* copied; neighbours in memory join in a bucket */
    int n;
    int ids;             /* of the model; more than any id */
    hr_group *world;     /* all ranks, for the norm */
    hr_stream *stream;   /* of the reductions; the groups are used on no other */
    size_t bucket_bytes; /* 0: 4 MiB */
    bool shard;          /* alike on all ranks */
    hr_dtype weight_dtype;
} hr_grads_opts;

/* Collective over `world`, which compares who holds what.
 *
 * Owner:   retains the groups.
 * Errors:  ERR_INVALID "grads_entry" (of any rank); ERR_MISMATCH "grads_ids": a parameter without holder, or with
 *          holders that do not name each other, "grads_shard": some ranks shard; ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_grads_create(const hr_grads_opts *opts, hr_grads **out);
HR_API void hr_grads_destroy(hr_grads *g); /* NULL is fine */

/* Elements `begin` to `begin + count - 1` of a gradient. */
typedef struct hr_grad_range {
    int64_t begin, count;
} hr_grad_range;
/* The range of entry `i` that is this rank's own, sharded or not: with P ranks in `over` the rank's share of
 * ceil(count / P) elements, so that the last ranks may have fewer, or none. The ranges of those ranks make the
 * whole, and follow from count, P and the rank in `over` alone. {0, 0} for an entry that is not there. */
HR_API hr_grad_range hr_grads_range(const hr_grads *g, int i);

/* A new step: nothing is reduced yet. */
HR_API void hr_grads_begin(hr_grads *g);
/* For hr_exec_stage.reduce: issue the buckets of `stage`, behind what is on the current stream. */
HR_API HR_RESULT hr_status hr_grads_reduce(hr_grads *g, int stage);
/* What is left: stages not reduced yet, then copies; then the current stream waits for all. Once a
 * step. Sharded, a gradient is then the sum in the rank's own range, and of no use elsewhere.
 * Both: ERR_STATE "grads_twice"; sharded ERR_NOMEM, for a bucket of several parameters travels packed, in memory
 * that is freed behind it. */
HR_API HR_RESULT hr_status hr_grads_finish(hr_grads *g);
/* The global norm: `squares` (device memory, f64, one for each entry of opts.grads: the sum of squares of its
 * own range, on the current stream) from all ranks, each parameter once: ranges in order of rank, then
 * parameters in order of id. So the bits depend on `over` of each parameter, and on nothing else of the layout.
 * Blocks. */
HR_API HR_RESULT hr_status hr_grads_norm(hr_grads *g, const double *squares,
                                         double *norm);
/* Sharded: the weights of each rank's own range, as they are behind what is on the current stream, to the
 * other ranks of `over`; the current stream then waits for it. Collective over these groups. Without
 * shards it does nothing. ERR_NOMEM, as above. */
HR_API HR_RESULT hr_status hr_grads_gather(hr_grads *g);

HR_END_C
#endif
