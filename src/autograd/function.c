/* Functions: built by operators in forward, released without recursion. The engine that runs
 * them is in engine.c. */
#include "autograd/function.h"
#include "base/try.h"
#include "tensor/pool.h"
#include <string.h>

static _Thread_local bool grad_mode_off; /* so that zero is the default: on */
static _Thread_local uint64_t next_seq;

bool hr_grad_mode(void)
{
    return !grad_mode_off;
}

bool hr_grad_mode_set(bool on)
{
    bool was = !grad_mode_off;
    grad_mode_off = !on;
    return was;
}

/* ---- the end of a function ------------------------------------------------------------ */
void hr__function_drop_saved(hr_function *fn, hr_stream *s)
{
    for (int i = 0; i < fn->n_saved; i++) {
        hr_tensor *t = fn->saved[i];
        fn->saved[i] = NULL;
        if (t)
            hr__tensor_unclaim(t, s);
        hr_tensor_release(t);
    }
    fn->n_saved = 0;
    if (fn->ctx && fn->cls->fini)
        fn->cls->fini(fn->ctx);
    fn->ctx = NULL;
}

void hr__function_drop_edges(hr_function *fn)
{
    for (int i = 0; i < fn->n_inputs; i++) {
        struct hr__edge *e = &fn->edge[i];
        hr_function *to = e->fn;
        hr_tensor *leaf = e->leaf;
        e->fn = NULL;
        e->leaf = NULL;
        if (to)
            hr__function_release(to);
        hr_tensor_release(leaf);
    }
}

static void destroy(hr_function *fn)
{
    hr__function_drop_saved(fn, NULL);
    hr__function_drop_edges(fn);
    for (int j = 0; j < fn->n_outputs; j++)
        hr_tensor_release(fn->output[j].grad);
    if (fn->output != &fn->first_output)
        hr__pool_put(fn->output, (size_t)fn->n_outputs * sizeof *fn->output);
    if (fn->saved != fn->first_saved)
        hr__pool_put(fn->saved, (size_t)fn->saved_cap * sizeof *fn->saved);
    hr__pool_put(fn, fn->block_bytes);
}

void hr__function_retain(hr_function *fn)
{
    atomic_fetch_add(&fn->graph.refs, 1);
}

/* Destroying one function may release the next, by whatever path, and so on along a graph of
 * any depth: the outermost call destroys them all, one after the other. */
static void release_graph(struct hr__graph *g)
{
    static _Thread_local hr_function *doomed;
    static _Thread_local bool destroying;
    hr_function *fn = (hr_function *)g;
    if (!hr__count_drop(&g->refs))
        return;
    fn->next_in_run = doomed;
    doomed = fn;
    if (destroying)
        return;
    destroying = true;
    while (doomed) {
        fn = doomed;
        doomed = fn->next_in_run;
        destroy(fn);
    }
    destroying = false;
}

void hr__function_release(hr_function *fn)
{
    release_graph(&fn->graph);
}

void hr_function_abandon(hr_function *fn)
{
    if (fn && fn->state == HR__FN_OPEN) /* else its outputs hold it */
        hr__function_release(fn);
}

/* ---- building one --------------------------------------------------------------------- */
static size_t round16(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

static hr_function *new_function(const hr_function_class *cls, int n)
{
    size_t edges_at = round16(sizeof(hr_function));
    size_t ctx_at = edges_at + round16((size_t)n * sizeof(struct hr__edge));
    size_t bytes = ctx_at + cls->ctx_bytes;
    hr_function *fn = hr__pool_get(bytes);
    if (!fn)
        return NULL;
    atomic_init(&fn->graph.refs, 1);
    fn->graph.release = release_graph;
    fn->cls = cls;
    fn->seq = next_seq++;
    fn->n_inputs = n;
    fn->edge = (struct hr__edge *)((char *)fn + edges_at);
    fn->saved = fn->first_saved;
    fn->saved_cap = HR__SAVED_INLINE;
    fn->ctx = (char *)fn + ctx_at;
    fn->block_bytes = bytes;
    return fn;
}

static void connect(struct hr__edge *e, hr_tensor *input)
{
    e->needs = hr_tensor_requires_grad(input);
    if (!e->needs)
        return;
    e->fn = hr__function_of(input);
    e->output = input->graph_output;
    if (e->fn)
        hr__function_retain(e->fn);
    else
        e->leaf = hr_tensor_retain(input);
}

hr_status hr_function_create(const hr_function_class *cls, hr_tensor *const *inputs,
                             int n, hr_function **out)
{
    bool needed = false;
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "hr_function_create: `out` is NULL");
    *out = NULL;
    if (!cls || !cls->backward || n < 0 || (n > 0 && !inputs))
        return hr_fail(HR_ERR_INVALID, "function",
                       "hr_function_create: no class, no backward, or no inputs");
    for (int i = 0; i < n; i++)
        needed = needed || hr_tensor_requires_grad(inputs[i]);
    if (!needed || !hr_grad_mode())
        return HR_OK;
    hr_function *fn = new_function(cls, n);
    if (!fn)
        return hr_fail(HR_ERR_NOMEM, "nomem", "no memory for function '%s'", cls->name);
    for (int i = 0; i < n; i++)
        connect(&fn->edge[i], inputs[i]);
    *out = fn;
    return HR_OK;
}

void *hr_function_ctx(hr_function *fn)
{
    return fn ? fn->ctx : NULL;
}

static hr_status grow_saved(hr_function *fn)
{
    size_t bytes = (size_t)fn->saved_cap * sizeof *fn->saved;
    hr_tensor **more = hr__pool_get(2 * bytes);
    if (!more)
        return hr_fail(HR_ERR_NOMEM, "nomem", "no memory to save for '%s'",
                       fn->cls->name);
    memcpy(more, fn->saved, bytes);
    if (fn->saved != fn->first_saved)
        hr__pool_put(fn->saved, bytes);
    fn->saved = more;
    fn->saved_cap *= 2;
    return HR_OK;
}

hr_status hr_function_save(hr_function *fn, hr_tensor *t, int *slot)
{
    hr_tensor *kept = NULL;
    if (slot)
        *slot = -1;
    if (!fn)
        return HR_OK;
    if (fn->state != HR__FN_OPEN)
        return hr_fail(HR_ERR_STATE, "not_open", "hr_function_save: '%s' is finished",
                       fn->cls->name);
    if (fn->n_saved == fn->saved_cap)
        HR_TRY(grow_saved(fn));
    if (t) {
        HR_TRY(hr_tensor_check(t, fn->cls->name));
        HR_TRY(hr__tensor_share(t, t->offset, t->ndim, t->shape, &kept));
    }
    if (slot)
        *slot = fn->n_saved;
    fn->saved[fn->n_saved++] = kept;
    return HR_OK;
}

hr_tensor *hr_function_saved(hr_function *fn, int slot)
{
    return fn && slot >= 0 && slot < fn->n_saved ? fn->saved[slot] : NULL;
}

bool hr_function_needs(const hr_function *fn, int input)
{
    return fn && input >= 0 && input < fn->n_inputs && fn->edge[input].needs;
}

hr_tensor *hr_function_input(const hr_function *fn, int input)
{
    return fn && input >= 0 && input < fn->n_inputs ? fn->edge[input].leaf : NULL;
}

static hr_status check_outputs(const hr_function *fn, hr_tensor *const *outputs, int n)
{
    if (n < 1 || !outputs)
        return hr_fail(HR_ERR_INVALID, "outputs", "function '%s': %d outputs",
                       fn->cls->name, n);
    for (int j = 0; j < n; j++)
        if (outputs[j] && hr_tensor_requires_grad(outputs[j]))
            return hr_fail(HR_ERR_STATE, "output_in_graph",
                           "function '%s': output %d ('%s') has its place in a graph",
                           fn->cls->name, j, outputs[j]->name);
    return HR_OK;
}

/* Returns how many references of `fn` that took. */
static int adopt_output(hr_function *fn, int j, hr_tensor *t)
{
    struct hr__output *o = &fn->output[j];
    if (!t || !hr__dtype_is_real((hr_dtype)t->dtype) || t->graph)
        return 0;
    o->differentiable = true;
    o->ndim = t->ndim;
    o->dtype = t->dtype;
    memcpy(o->shape, t->shape, sizeof o->shape);
    t->graph = &fn->graph;
    t->graph_output = j;
    t->requires_grad = true;
    return 1;
}

hr_status hr_function_finish(hr_function *fn, hr_tensor *const *outputs, int n)
{
    hr_status st = HR_OK;
    if (!fn)
        return HR_OK;
    if (fn->state != HR__FN_OPEN) /* its outputs hold it, not the caller */
        return hr_fail(HR_ERR_STATE, "not_open", "function '%s' finished twice",
                       fn->cls->name);
    st = check_outputs(fn, outputs, n);
    if (st >= 0)
        fn->output =
            n == 1 ? &fn->first_output : hr__pool_get((size_t)n * sizeof *fn->output);
    if (st >= 0 && !fn->output)
        st = hr_fail(HR_ERR_NOMEM, "nomem", "no memory for function '%s'",
                     fn->cls->name);
    if (st >= 0) {
        fn->n_outputs = n;
        fn->state = HR__FN_LIVE;
        int adopted = 0; /* from here on its outputs keep it; nobody else has it yet */
        for (int j = 0; j < n; j++)
            adopted += adopt_output(fn, j, outputs[j]);
        if (adopted > 0) {
            atomic_store_explicit(&fn->graph.refs, adopted, memory_order_relaxed);
            return HR_OK;
        }
    }
    hr__function_release(fn);
    return st;
}

/* ---- identity ------------------------------------------------------------------------- */
static hr_status pass_on(hr_function *fn, hr_tensor *const *grad_out,
                         hr_tensor **grad_in)
{
    grad_in[0] = hr_tensor_retain(grad_out[0]);
    return HR_OK;
}

hr_status hr__function_identity(hr_tensor *t, hr_tensor *out)
{
    static const hr_function_class identity = {.name = "identity", .backward = pass_on};
    hr_function *fn = new_function(&identity, 1);
    if (!fn)
        return hr_fail(HR_ERR_NOMEM, "nomem", "no memory for function 'identity'");
    connect(&fn->edge[0], t);
    return hr_function_finish(fn, &out, 1);
}
