/* headrace/autograd.h: gradients. Operators record functions while grad mode is on; the engine
 * runs them backward, on the calling thread, newest ready function first, launching on the
 * current stream.
 *
 * Gradients of leaves accumulate in place into hr_tensor_grad(). A parameter's gradient is an
 * f32 buffer that may be supplied (hr_tensor_set_grad) and is zeroed by its owner; operators add
 * weight gradients to it themselves, always by the same path, so that bits do not depend on
 * who ran first or on whether the buffer is fresh.
 *
 * Types: what reaches a tensor inside the graph as its gradient gets that tensor's type (f32, bf16)
 * before anything else. A leaf keeps what came first; a sum of two that differ is f32.
 *
 * Threads: as tensors. Grad mode belongs to the calling thread.
 */
#ifndef HR_AUTOGRAD_H
#define HR_AUTOGRAD_H
#include "headrace/tensor.h"
HR_BEGIN_C

typedef struct hr_function hr_function;

HR_API bool hr_grad_mode(void);
HR_API bool hr_grad_mode_set(bool on); /* returns what it was; default on */

HR_API bool hr_tensor_requires_grad(const hr_tensor *t);
/* Of a leaf; ERR_STATE for an output of a function. The probe sees it. */
HR_API HR_RESULT hr_status hr_tensor_set_requires_grad(hr_tensor *t, bool on);
HR_API bool hr_tensor_is_leaf(const hr_tensor *t);
HR_API hr_tensor *hr_tensor_grad(const hr_tensor *t); /* borrowed; NULL: none */
/* Retains `g` (NULL: forget). ERR_INVALID if shapes differ, or `g` is `t` or a view of it. */
HR_API HR_RESULT hr_status hr_tensor_set_grad(hr_tensor *t, hr_tensor *g);
/* The gradient buffer of leaf `t`, made and zeroed if there is none. Borrowed. */
HR_API HR_RESULT hr_status hr_grad_buffer(hr_tensor *t, hr_tensor **out);

/* An alias outside the graph (Tensor.detach); requires no grad. The probe sees it. */
HR_API HR_RESULT hr_status hr_tensor_detach(hr_tensor *t, hr_tensor **out);
/* `out` takes `t`'s place in the graph: same function and output, same need of grad. */
HR_API HR_RESULT hr_status hr_tensor_share_graph(hr_tensor *t, hr_tensor *out);

/* ---- functions ------------------------------------------------------------------------- */
/* Gradients by input: `grad_in[i]` is NULL (none, or added to the leaf already) or one
 * reference for the engine. `grad_out[j]` is NULL where nothing reached output j; one at least
 * is not: where no gradient arrives, backward is not called and none leaves. */
typedef struct hr_function_class {
    const char *name;
    size_t ctx_bytes; /* zeroed, given by hr_function_ctx() */
    hr_status (*backward)(hr_function *fn, hr_tensor *const *grad_out,
                          hr_tensor **grad_in);
    void (*fini)(void *ctx); /* may be NULL */
} hr_function_class;

/* Starts a function over `inputs` (entries may be NULL). *out is NULL, and HR_OK, where nothing
 * needs a gradient: grad mode off or no input that requires it. Save, finish and abandon take
 * a NULL function and do nothing. */
HR_API HR_RESULT hr_status hr_function_create(const hr_function_class *cls,
                                              hr_tensor *const *inputs, int n,
                                              hr_function **out);
HR_API void *hr_function_ctx(hr_function *fn);
/* Keep `t` until backward, with a claim of its own, whatever becomes of `t`. Returns the slot
 * in *slot (may be NULL); slots count from 0. NULL `t` keeps NULL. */
HR_API HR_RESULT hr_status hr_function_save(hr_function *fn, hr_tensor *t, int *slot);
HR_API hr_tensor *hr_function_saved(hr_function *fn, int slot); /* borrowed */
/* Does input number `input` need a gradient? */
HR_API bool hr_function_needs(const hr_function *fn, int input);
/* Borrowed; NULL but for leaves that need a gradient. */
HR_API hr_tensor *hr_function_input(const hr_function *fn, int input);
/* Ends it: the outputs (NULL and integer ones apart) require grad and point to the function.
 * Takes `fn`, on failure too. */
HR_API HR_RESULT hr_status hr_function_finish(hr_function *fn,
                                              hr_tensor *const *outputs, int n);
/* Instead of finish, on an error path. NULL is fine. */
HR_API void hr_function_abandon(hr_function *fn);

/* ---- the engine ------------------------------------------------------------------------- */
/* From `n` roots with their gradients (an entry NULL: ones, for one element only). What is saved
 * is released as it is used; a graph runs backward once ("spent" afterwards). The probe sees it.
 * Errors, by reason: "output_needs_no_grad" (root outside any graph), "grad_missing", "grad_shape",
 * "grad_dtype", "spent": these change nothing. What a function returns ends the pass: the graph is spent then,
 * and leaves keep what they had got. */
HR_API HR_RESULT hr_status hr_backward(hr_tensor *const *roots, hr_tensor *const *grads,
                                       int n);

/* ---- delayed weight gradients ------------------------------------------------------------
 * A queue of weight-gradient work that backward leaves for later. Operators that know how (the
 * products) take a queue; NULL means now. Each item runs exactly once, in the order it came. */
typedef struct hr_wgrad_queue hr_wgrad_queue;
typedef struct hr_wgrad_item {
    hr_status (*run)(const struct hr_wgrad_item *it);
    hr_tensor *tensor[6]; /* retained by push; entries may be NULL */
    int64_t arg[4];
    const char *name;
} hr_wgrad_item;
HR_API HR_RESULT hr_status hr_wgrad_queue_create(hr_wgrad_queue **out);
/* Drops what was not run; NULL is fine. */
HR_API void hr_wgrad_queue_destroy(hr_wgrad_queue *q);
/* Each tensor is kept as an alias with a claim of its own; a leaf that requires grad is kept
 * itself (and claimed), so that the item finds its hr_grad_buffer(). */
HR_API HR_RESULT hr_status hr_wgrad_push(hr_wgrad_queue *q, const hr_wgrad_item *item);
/* All of it, on the current stream, in grad mode off. An item that fails ends it: its status is
 * returned and the rest is dropped. ERR_STATE "wgrad_empty" if there is nothing to run. */
HR_API HR_RESULT hr_status hr_wgrad_run(hr_wgrad_queue *q);
HR_API int hr_wgrad_pending(const hr_wgrad_queue *q); /* items */
HR_API void hr_wgrad_clear(hr_wgrad_queue *q);        /* drops them */

HR_END_C
#endif
