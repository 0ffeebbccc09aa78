/* What a function is made of. For src/autograd only.
 *
 *     input ──edge──> its function (or itself, a leaf)        what backward walks along
 *     output ─graph─> this function                           what keeps it alive
 *
 * A function holds its inputs' functions, never the inputs, so that the graph keeps no
 * activation alive but those that were saved. Once it has run backward it holds nothing. */
#ifndef HR_FUNCTION_H
#define HR_FUNCTION_H
#include "headrace/autograd.h"
#include "tensor/tensor_impl.h"

enum { HR__SAVED_INLINE = 4 };

enum hr__function_state {
    HR__FN_OPEN,    /* between create and finish */
    HR__FN_LIVE,    /* in the graph */
    HR__FN_RUNNING, /* taken by a backward pass */
    HR__FN_SPENT
};

struct hr__edge {
    hr_function *fn; /* where the gradient of the input goes, at its output `output` */
    int output;
    bool needs;      /* the input requires a gradient */
    hr_tensor *leaf; /* the input itself, if it is a leaf that needs one */
};

struct hr__output {
    hr_tensor *grad; /* the engine's, while it runs */
    uint8_t ndim, dtype;
    bool differentiable;
    int64_t shape[HR_MAX_DIMS];
};

struct hr_function {
    struct hr__graph graph; /* first: tensors know a function by it */
    const hr_function_class *cls;
    uint64_t seq; /* of its thread; the newest ready one runs first */
    enum hr__function_state state;
    int n_inputs, n_outputs, n_saved, saved_cap;
    struct hr__edge *edge;     /* in this block, as is ctx */
    struct hr__output *output; /* first_output, or a block of its own; from finish on */
    struct hr__output first_output;
    hr_tensor **saved; /* first_saved, or a block of its own */
    hr_tensor *first_saved[HR__SAVED_INLINE];
    void *ctx; /* NULL once its fini ran */
    size_t block_bytes;

    const void *run; /* the pass that has taken it; all of this is that pass's */
    int waiting_for; /* edges that end here and have not brought their gradient */
    hr_function *next_in_run;
    hr_function *heap_child, *heap_next; /* see ready.h */
};

static inline hr_function *hr__function_of(const hr_tensor *t)
{
    return (hr_function *)t->graph;
}

void hr__function_retain(hr_function *fn);
void hr__function_release(hr_function *fn);
/* Give up what is saved, at the position of `s` (NULL: of each home stream), and the ctx. */
void hr__function_drop_saved(hr_function *fn, hr_stream *s);
void hr__function_drop_edges(hr_function *fn);
/* Make `out` the one output of a function that hands its gradient on to leaf `t`. */
hr_status hr__function_identity(hr_tensor *t, hr_tensor *out);

#endif
