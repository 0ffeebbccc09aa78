/* headrace/pipeline.h: the seed module: stage helpers, the compute and the communication stream,
 * schedule nodes, the abstract plan. Names are Megatron-Core's (core.pipeline_parallel.utils).
 *
 * A node is a piece of a model that runs on one stream. Nodes that share an event run one after
 * the other whatever their streams are: each waits for the event, works, and records it again.
 *
 *     hr_schedule_node_create(&(hr_schedule_node_opts){HR_INIT(hr_schedule_node_opts),
 *         .name = "mlp", .forward = mlp, .ctx = layer, .stream = compute, .event = e}, &node);
 *     hr_node_forward(node, &x, 1, &y, &n);    // y[0..n-1] borrowed
 *     hr_node_backward(node, &dy, 1, dx, &n);  // dx[0..n-1] the caller's; the node is spent
 *
 * Threads: as devices: one issuing thread at a time.
 */
#ifndef HR_PIPELINE_H
#define HR_PIPELINE_H
#include "headrace/autograd.h"
#include "headrace/group.h"
HR_BEGIN_C

/* ---- where a rank stands -----------------------------------------------------------------
 * `group` is the pipeline group, an argument as in Megatron. NULL is a world that was not set up:
 * one rank that is first and last at once, without neighbours. Ranks are global ones; None is
 * HR_NO_RANK. */

/* Megatron: is_pp_first_stage, is_pp_last_stage. */
HR_API bool hr_is_pp_first_stage(const hr_group *group);
HR_API bool hr_is_pp_last_stage(const hr_group *group);

/* Megatron: get_pp_first_rank, get_pp_last_rank. Without a group HR_NO_RANK, where the original
 * fails. */
HR_API int hr_get_pp_first_rank(const hr_group *group);
HR_API int hr_get_pp_last_rank(const hr_group *group);

/* Megatron: get_pp_next_rank, get_pp_prev_rank. HR_NO_RANK past the ends: no ring, unlike the
 * neighbours of Megatron's communicator. */
HR_API int hr_get_pp_next_rank(const hr_group *group);
HR_API int hr_get_pp_prev_rank(const hr_group *group);

/* Megatron: is_vp_first_stage, is_vp_last_stage. `vp_stage` may be HR_NO_STAGE, `vp_size` 0 for
 * none. The answer is in *yes, since an assertion of the original is a status here.
 * Errors: ERR_INVALID "vp_stage": a stage other than 0 or none while vp_size <= 1. */
HR_API HR_RESULT hr_status hr_is_vp_first_stage(int vp_stage, int vp_size, bool *yes);
HR_API HR_RESULT hr_status hr_is_vp_last_stage(int vp_stage, int vp_size, bool *yes);

/* Megatron: make_viewless. Same storage and place in the graph, no base; what is no view comes back
 * itself, retained. No copy. Unlike the original's, the result carries a claim of its own on the
 * bytes. The probe sees what was made. */
HR_API HR_RESULT hr_status hr_make_viewless(hr_tensor *t, hr_tensor **out);

/* ---- streams: state of the current device -------------------------------------------------
 * Megatron keeps one pair a process (_COMM_STREAM, _COMP_STREAM); ranks that are threads need one
 * a device. Its _COMP_STREAM and _USE_DYNAMIC_COMP_STREAM are never read there, so there is no
 * symbol for them: the compute stream is always the current one. */

/* Megatron: set_streams. Choose the communication stream: `comm` (borrowed) or, if NULL, a new one of
 * the device, of its greatest priority if `high_priority`. The first call of a device wins; later
 * ones do nothing. Destroying the stream takes the choice back. There is no argument for the compute
 * stream, which the original accepts and ignores.
 * Errors: ERR_STATE "no_device", ERR_INVALID for a stream of another device, ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_set_streams(hr_stream *comm, bool high_priority);
/* Megatron: get_comp_stream. The calling thread's current stream. */
HR_API hr_stream *hr_get_comp_stream(void);
/* Megatron: get_comm_stream. NULL before hr_set_streams(). */
HR_API hr_stream *hr_get_comm_stream(void);

/* ---- nodes -----------------------------------------------------------------------------
 * Megatron: ScheduleNode and NoopScheduleNode are one type here, hr_node. What differs:
 * - Values are tensors, in lists of up to HR_NODE_MAX; a bare value is a list of one, None is NULL.
 * - Inputs and outputs of plain Python values have no counterpart; a context pointer does that.
 * - Bytes have claims (tensor.h): `free_input` gives up two, where the original resizes the storage
 *   to nothing whoever else uses it.
 * - Misuse is refused before anything is done (no wait, no range); the reason is the original's.
 */
enum { HR_NODE_MAX = 8 }; /* inputs, and outputs, of a node at most */

typedef struct hr_node hr_node;

/* Megatron: the forward_func of a node. `in[i]` are detached copies of the node's inputs (NULL
 * where the input was). Write each output with one reference, which the node takes (also on
 * failure), and their number; *n_out is 0 before. A view among them becomes viewless. `in[i]`
 * itself, retained, is allowed. */
typedef hr_status (*hr_node_forward_fn)(void *ctx, hr_node *node, hr_tensor *const *in,
                                        int n, hr_tensor **out, int *n_out);

/* Megatron: the backward_func of a node. In place of the engine: leave gradients in
 * hr_tensor_grad() of hr_node_input(node, i). Write into `used` which gradients the work on the
 * node's stream reads (borrowed, up to 2 * HR_NODE_MAX; NULL entries are skipped): they are marked
 * for that stream. *n_used is 0 before. */
typedef hr_status (*hr_node_backward_fn)(void *ctx, hr_node *node,
                                         hr_tensor *const *outputs,
                                         hr_tensor *const *grads, int n,
                                         hr_tensor **used, int *n_used);

/* Megatron: one of bwd_dw_callables. Weight-gradient work that hr_node_backward_dw() runs, in order. */
typedef struct hr_node_wgrad {
    const char *name;
    hr_status (*run)(void *ctx);
    void *ctx;
} hr_node_wgrad;

typedef struct hr_schedule_node_opts {
    size_t size;
    const char *name; /* of its ranges and spans; interned; NULL: "schedule_node" */
    hr_node_forward_fn forward;
    hr_node_backward_fn backward; /* NULL: the engine */
    void *ctx;                    /* of both, of stream_fn, wgrad_done and the hooks */
    /* Borrowed. NULL: whatever stream is current, as long as nothing has to be marked for it
     * (gradients, freed inputs: ERR_STATE "no_stream"). */
    hr_stream *stream;
    hr_stream *(*stream_fn)(void *ctx); /* instead: asked once, at first use */
    hr_event *event; /* borrowed, shared with the nodes before and after */
    /* After forward give up the bytes of the inputs: the claims of the handles given and of the
     * node's own copies. */
    bool free_input;
    bool ncclep_zero_copy;       /* inputs in symmetric memory are not freed */
    const hr_node_wgrad *wgrads; /* copied; with names kept by address */
    int n_wgrads;
    hr_wgrad_queue *wgrad_queue; /* borrowed; run after `wgrads` */
    /* After those, on the node's stream; may be NULL. */
    hr_status (*wgrad_done)(void *ctx);

    /* Hooks, each may be NULL: outside of the node's stream and range, after its record. The pre_ ones
     * come before the wait; a post_ one comes only after success, when inputs are marked and freed,
     * or where weight gradients are delayed (`wgrads`, `wgrad_queue`) after those, post_backward. */
    hr_status (*pre_forward)(void *ctx);
    hr_status (*post_forward)(void *ctx);
    hr_status (*pre_backward)(void *ctx);
    hr_status (*post_backward)(void *ctx);
} hr_schedule_node_opts;

/* Megatron: ScheduleNode(...). The stream is given, or a function for it, or neither. */
HR_API HR_RESULT hr_status hr_schedule_node_create(const hr_schedule_node_opts *opts,
                                                   hr_node **out);
/* Megatron: NoopScheduleNode. What goes in comes out, forward and backward; no stream, no event, no
 * range. */
HR_API HR_RESULT hr_status hr_noop_node_create(hr_node **out);
HR_API void hr_node_destroy(hr_node *node); /* NULL is fine */

/* For the timeline; -1 (the default) takes the thread's, see hr_mark_set(). */
HR_API void hr_node_set_mark(hr_node *node, int layer, int microbatch);
HR_API const char *hr_node_name(const hr_node *node);

/* Megatron: ScheduleNode.forward. Wait for the event, push the range "<name> forward", make the
 * stream current, detach the inputs, call; leave, pop, record, also on failure; then mark the
 * inputs for the stream and free them where asked. Running forward again forgets the earlier run.
 *
 * Owner:   `in` is borrowed and retained as needed. **out is borrowed: valid until the node's
 *          backward, next forward or destroy. A noop's are the inputs.
 * Order:   enqueues on the node's stream.
 * Errors:  ERR_STATE "spent", "no_stream", "no_device"; ERR_INVALID "input_count", "no_argument";
 *          ERR_CALLBACK "output_count"; ERR_CALLBACK "callback" where the callback failed without a
 *          word of its own, else its status and reason, and its sentence behind the node's name. */
HR_API HR_RESULT hr_status hr_node_forward(hr_node *node, hr_tensor *const *in, int n,
                                           hr_tensor *const **out, int *n_out);

/* Megatron: ScheduleNode.backward. The same with "<name> backward" and the engine, from the stored
 * outputs. Afterwards the node is spent; after a failure it is as before.
 *
 * Owner:   in_grads has room for HR_NODE_MAX; the *n_in gradients (NULL: none) are the caller's,
 *          one reference each. They are for reading: where backward only hands on, they share the
 *          bytes of `grads`, with a claim of their own.
 * Errors:  ERR_STATE "spent", "no_output", "no_stream"; "grad_count" (ERR_INVALID; ERR_STATE on a
 *          spent node, which has one absent output); those of hr_backward()
 *          ("output_needs_no_grad", "grad_missing", "output_not_tensor", ...). */
HR_API HR_RESULT hr_status hr_node_backward(hr_node *node, hr_tensor *const *grads,
                                            int n, hr_tensor **in_grads, int *n_in);

/* Megatron: TransformerLayerNode.backward_dw. Delayed weight gradients under "<name> wgrad" on the
 * node's stream. Neither waits for the event nor records it. Nothing to do without any; allowed on
 * a spent node.
 * Errors:  ERR_STATE "wgrad_already_run" the second time; what the work returns. */
HR_API HR_RESULT hr_status hr_node_backward_dw(hr_node *node);

/* Megatron: ScheduleNode.get_output. The stored outputs, borrowed; *n 0 and *out NULL once spent.
 * ERR_STATE "no_output" before the first forward has finished. */
HR_API HR_RESULT hr_status hr_node_get_output(hr_node *node, hr_tensor *const **out,
                                              int *n);
/* Megatron: ScheduleNode.get_grad. Gradients of the stored inputs, borrowed, NULL where none; grads has
 * room for HR_NODE_MAX. ERR_STATE "no_inputs": none are stored, or no longer. */
HR_API HR_RESULT hr_status hr_node_get_grad(hr_node *node, hr_tensor **grads, int *n);

/* Megatron: ScheduleNode._release_state. Give up inputs and outputs, as backward does at its end;
 * for a node that will run none. ERR_STATE "spent" if that has happened. */
HR_API HR_RESULT hr_status hr_node_release(hr_node *node);

HR_API int hr_node_inputs(const hr_node *node);              /* stored; 0 once spent */
HR_API hr_tensor *hr_node_input(const hr_node *node, int i); /* borrowed */
HR_API bool hr_node_spent(const hr_node *node);
/* NULL: none, or not asked yet. */
HR_API hr_stream *hr_node_stream(const hr_node *node);

/* Megatron: stream_acquire_context. What forward and backward stand in: wait, push `range` (NULL
 * or "": none), enter ... exit, pop, record, whatever `body` returns. A body in place of a with
 * statement; it belongs to a node, which has stream and event. */
HR_API HR_RESULT hr_status hr_node_acquire(hr_node *node, const char *range,
                                           hr_status (*body)(void *arg), void *arg);

/* ---- staging the dispatch gradient ---------------------------------------------------------
 * Megatron: StageDispatchBwdGrad. It asks its dispatcher there; here `staging` is the dispatcher's
 * side of that, so that this room need not know moe. Identity on `tokens` (the dispatch's output);
 * its backward copies the gradient into the buffer that `staging` has at that time, and hands that
 * on. Only where the buffer is a requirement of the transfer (symmetric memory). `staging` is
 * copied, its ctx must live until backward.
 * Errors of backward: ERR_STATE "no_buffer", ERR_INVALID "shape". */
typedef struct hr_grad_staging {
    hr_status (*get_buffer)(void *ctx, hr_tensor **buffer); /* borrowed; NULL: none */
    void *ctx;
} hr_grad_staging;
HR_API HR_RESULT hr_status hr_stage_dispatch_bwd_grad(hr_tensor *tokens,
                                                      const hr_grad_staging *staging,
                                                      hr_tensor **out);

/* ---- the abstract plan --------------------------------------------------------------------
 * Megatron: AbstractSchedulePlan. A class with a class method `run` there, a table of functions here;
 * build_schedule_plan is whatever function of the model makes one (for chunks of layers:
 * hr_build_schedule_plan() in plan.h). */
typedef struct hr_schedule_plan hr_schedule_plan;

/* Called by a plan's run; each may be NULL. The post_forward hook runs on the communication stream
 * (a send of `output` belongs there), the others on the compute stream. */
typedef struct hr_plan_hooks {
    void *ctx;
    hr_status (*pre_forward)(void *ctx, int vp_stage);
    hr_status (*pre_backward)(void *ctx, int vp_stage);
    hr_status (*post_forward)(void *ctx, hr_tensor *output, int vp_stage);
    hr_status (*post_backward)(void *ctx, hr_tensor *grad, int vp_stage);
} hr_plan_hooks;

typedef struct hr_schedule_plan_ops {
    const char *name;
    /* `f` or `b` may be NULL, not both. *output: one reference, NULL without `f`. */
    hr_status (*run)(hr_schedule_plan *f, hr_schedule_plan *b, hr_tensor *grad,
                     const hr_plan_hooks *hooks, hr_tensor **output);
    void (*destroy)(hr_schedule_plan *plan);
} hr_schedule_plan_ops;

/* A plan's object starts with this. */
struct hr_schedule_plan {
    const hr_schedule_plan_ops *ops;
    hr_event *event; /* orders the plan's nodes; a loss node joins by it */
};

/* Megatron: AbstractSchedulePlan.run. Run the forward of plan `f` together with the backward of
 * plan `b`, either may be NULL.
 *
 * Owner:   grad borrowed; *output the caller's, one reference; NULL without `f`. The plans stay
 *          the caller's.
 * Errors:  ERR_INVALID "no_plan", "same_plan", "plan_kinds" (two plans of different tables), and what the
 *          table's run returns: that of hr_build_schedule_plan() has "no_grad_given" (a backward plan
 *          without gradient), and the errors of its nodes and hooks. */
HR_API HR_RESULT hr_status hr_schedule_plan_run(hr_schedule_plan *f,
                                                hr_schedule_plan *b, hr_tensor *grad,
                                                const hr_plan_hooks *hooks,
                                                hr_tensor **output);
HR_API void hr_schedule_plan_destroy(hr_schedule_plan *plan); /* NULL is fine */

/* ---- CPUs near the device -----------------------------------------------------------------
 * Bind the calling thread and the threads of its current device, and all that those start later, to
 * the CPUs nearest to that device: a GPU's by PCI locality (sysfs, else hwloc, else NVML); for a
 * host device the share of its rank, `cores` CPUs that lie together. Always within the CPUs that the
 * calling thread may use now, which the original overrides. A thread that may use no more CPUs than
 * its host device has cores stays as it is.
 *
 * Order:   blocks until the device's streams are empty.
 * Errors:  ERR_STATE "no_device"; ERR_UNSUPPORTED "affinity_unknown" (nobody says what is near),
 *          "affinity_elsewhere" (nothing near may be used), "too_few_cpus" (for a share a rank);
 *          ERR_PARSE "pci_bus_id"; ERR_DEVICE "affinity_refused". All threads are then bound as before. */
HR_API HR_RESULT hr_status hr_set_ideal_affinity_for_current_gpu(void);

HR_END_C
#endif
