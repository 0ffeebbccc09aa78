/* The engine: takes the part of the graph that the roots reach, counts for each function the
 * edges that end there, and runs the newest of those that wait for none.
 *
 *     take roots ── discover ── seed ──> [ pop newest, run, hand on ]* ──> let go
 *
 * Up to and including `discover` a failure changes nothing; after it the graph is spent. */
#include "autograd/accumulate.h"
#include "autograd/ready.h"
#include "base/try.h"
#include "tensor/pool.h"
#include "trace/probe.h"

struct leaf_entry {
    hr_tensor *leaf; /* retained until it has its gradient */
    hr_tensor *sum;
    int waiting_for;
    const struct run *run;
    struct leaf_entry *outer; /* of a pass in whose middle this one runs */
    struct leaf_entry *next;
};

enum { GRADS_INLINE = 8 };

struct run {
    struct leaf_entry first_leaf;    /* most passes end at one */
    hr_function *first, **last_next; /* all that are taken, each retained */
    hr_function *ready;
    struct leaf_entry *leaves;
    bool started;
};

/* ---- discover ------------------------------------------------------------------------- */
static hr_status take_function(struct run *r, hr_function *fn)
{
    if (fn->state == HR__FN_RUNNING && fn->run == r)
        return HR_OK;
    if (fn->state != HR__FN_LIVE)
        return hr_fail(HR_ERR_STATE, "spent", "function '%s' %s", fn->cls->name,
                       fn->state == HR__FN_RUNNING
                           ? "is in the middle of another backward"
                           : "has run backward already: its graph is spent");
    fn->state = HR__FN_RUNNING;
    fn->run = r;
    fn->waiting_for = 0;
    fn->next_in_run = NULL;
    hr__function_retain(fn);
    *r->last_next = fn;
    r->last_next = &fn->next_in_run;
    return HR_OK;
}

static hr_status take_leaf(struct run *r, hr_tensor *leaf, struct leaf_entry **out)
{
    struct leaf_entry *e = leaf->engine;
    if (!e || e->run != r) {
        e = r->leaves ? hr__pool_get(sizeof *e) : &r->first_leaf;
        if (!e)
            return hr_fail(HR_ERR_NOMEM, "nomem", "no memory for a backward pass");
        e->leaf = hr_tensor_retain(leaf);
        e->run = r;
        e->outer = leaf->engine;
        e->next = r->leaves;
        leaf->engine = r->leaves = e;
    }
    *out = e;
    return HR_OK;
}

static hr_status count_edges(struct run *r, hr_function *fn)
{
    struct leaf_entry *leaf;
    for (int i = 0; i < fn->n_inputs; i++) {
        struct hr__edge *e = &fn->edge[i];
        if (!e->needs)
            continue;
        if (e->fn) {
            HR_TRY(take_function(r, e->fn));
            e->fn->waiting_for++;
        } else {
            HR_TRY(take_leaf(r, e->leaf, &leaf));
            leaf->waiting_for++;
        }
    }
    return HR_OK;
}

/* The list of what was taken is the queue of what is still to be looked at. */
static hr_status discover(struct run *r, hr_tensor *const *roots, int n)
{
    struct leaf_entry *leaf;
    for (int i = 0; i < n; i++) {
        if (roots[i]->graph)
            HR_TRY(take_function(r, hr__function_of(roots[i])));
        else
            HR_TRY(take_leaf(r, roots[i], &leaf));
    }
    for (hr_function *fn = r->first; fn; fn = fn->next_in_run)
        HR_TRY(count_edges(r, fn));
    return HR_OK;
}

/* ---- hand on -------------------------------------------------------------------------- */
static hr_status leaf_ready(struct leaf_entry *e)
{
    hr_tensor *sum = e->sum;
    e->sum = NULL;
    return sum ? hr__grad_accumulate(e->leaf, sum) : HR_OK;
}

static bool shape_is(const hr_tensor *g, int ndim, const int64_t *shape)
{
    bool same = g->ndim == ndim;
    for (int i = 0; same && i < ndim; i++)
        same = g->shape[i] == shape[i];
    return same;
}

/* Takes `g`. */
static hr_status deposit(hr_tensor **slot, hr_tensor *g, int ndim, const int64_t *shape,
                         const char *from, int input)
{
    char text[HR__SHAPE_TEXT];
    if (shape_is(g, ndim, shape))
        return hr__grad_deposit(slot, g);
    hr_status st =
        hr_fail(HR_ERR_INVALID, "grad_shape",
                "function '%s' backward: gradient %s for input %d, which has "
                "%d dimensions from %lld on",
                from, hr__shape_text(g, text), input, ndim,
                ndim > 0 ? (long long)shape[0] : 1LL);
    hr_tensor_release(g);
    return st;
}

/* Bring `g` (taken; may be NULL) along edge `i`, and count it as brought. */
static hr_status hand_on(struct run *r, hr_function *from, int i, hr_tensor *g)
{
    struct hr__edge *e = &from->edge[i];
    const char *name = from->cls->name;
    if (!e->needs) {
        hr_tensor_release(g);
        return HR_OK;
    }
    if (e->fn) {
        struct hr__output *o = &e->fn->output[e->output];
        if (g) {
            HR_TRY(hr__grad_as(&g, (hr_dtype)o->dtype));
            HR_TRY(deposit(&o->grad, g, o->ndim, o->shape, name, i));
        }
        if (--e->fn->waiting_for == 0)
            hr__ready_push(&r->ready, e->fn);
        return HR_OK;
    }
    struct leaf_entry *leaf = e->leaf->engine;
    if (g)
        HR_TRY(deposit(&leaf->sum, g, e->leaf->ndim, e->leaf->shape, name, i));
    return --leaf->waiting_for == 0 ? leaf_ready(leaf) : HR_OK;
}

/* ---- run ------------------------------------------------------------------------------ */
/* Where no gradient arrived none leaves: backward is not called. */
static hr_status call_backward(hr_function *fn, hr_tensor **grad_out,
                               hr_tensor **grad_in)
{
    bool any = false;
    for (int j = 0; j < fn->n_outputs; j++) {
        grad_out[j] = fn->output[j].grad;
        fn->output[j].grad = NULL;
        any = any || grad_out[j];
    }
    hr_status st = any ? fn->cls->backward(fn, grad_out, grad_in) : HR_OK;
    fn->state = HR__FN_SPENT;
    hr__function_drop_saved(fn, hr_stream_current());
    for (int j = 0; j < fn->n_outputs; j++)
        hr_tensor_release(grad_out[j]);
    return st;
}

static hr_status run_in(struct run *r, hr_function *fn, hr_tensor **grad_in)
{
    hr_status st = call_backward(fn, grad_in + fn->n_inputs, grad_in);
    for (int i = 0; i < fn->n_inputs; i++) {
        if (st >= 0)
            st = hand_on(r, fn, i, grad_in[i]);
        else
            hr_tensor_release(grad_in[i]);
    }
    hr__function_drop_edges(fn);
    return st;
}

static hr_status run_function(struct run *r, hr_function *fn)
{
    int n = fn->n_inputs + fn->n_outputs;
    if (n <= GRADS_INLINE) {
        hr_tensor *grads[GRADS_INLINE] = {0};
        return run_in(r, fn, grads);
    }
    size_t bytes = (size_t)n * sizeof(hr_tensor *);
    hr_tensor **grads = hr__pool_get(bytes);
    if (!grads)
        return hr_fail(HR_ERR_NOMEM, "nomem", "no memory for a backward pass");
    hr_status st = run_in(r, fn, grads);
    hr__pool_put(grads, bytes);
    return st;
}

static hr_status seed(struct run *r, hr_tensor *root, hr_tensor *grad)
{
    hr_tensor *g = hr_tensor_retain(grad);
    if (!g)
        HR_TRY(hr__grad_ones(root, &g));
    if (root->graph)
        return hr__grad_deposit(&hr__function_of(root)->output[root->graph_output].grad,
                                g);
    return hr__grad_deposit(&((struct leaf_entry *)root->engine)->sum, g);
}

static hr_status run_all(struct run *r, hr_tensor *const *roots,
                         hr_tensor *const *grads, int n)
{
    hr_function *fn;
    r->started = true;
    for (int i = 0; i < n; i++)
        HR_TRY(seed(r, roots[i], grads ? grads[i] : NULL));
    for (struct leaf_entry *e = r->leaves; e; e = e->next)
        if (e->waiting_for == 0)
            HR_TRY(leaf_ready(e));
    for (fn = r->first; fn; fn = fn->next_in_run)
        if (fn->waiting_for == 0)
            hr__ready_push(&r->ready, fn);
    while ((fn = hr__ready_pop(&r->ready)) != NULL)
        HR_TRY(run_function(r, fn));
    return HR_OK;
}

/* ---- let go --------------------------------------------------------------------------- */
static void let_go(struct run *r)
{
    hr_function *fn = r->first;
    while (fn) {
        hr_function *next = fn->next_in_run;
        fn->run = NULL;
        if (!r->started) {
            fn->state = HR__FN_LIVE;
        } else if (fn->state != HR__FN_SPENT) { /* the pass failed before its turn */
            fn->state = HR__FN_SPENT;
            hr__function_drop_saved(fn, hr_stream_current());
            hr__function_drop_edges(fn);
        }
        for (int j = 0; j < fn->n_outputs; j++) {
            hr_tensor_release(fn->output[j].grad);
            fn->output[j].grad = NULL;
        }
        hr__function_release(fn);
        fn = next;
    }
    while (r->leaves) {
        struct leaf_entry *e = r->leaves;
        r->leaves = e->next;
        e->leaf->engine = e->outer;
        hr_tensor_release(e->sum);
        hr_tensor_release(e->leaf);
        if (e != &r->first_leaf)
            hr__pool_put(e, sizeof *e);
    }
}

/* ---- hr_backward ---------------------------------------------------------------------- */
static hr_status check_root(hr_tensor *root, hr_tensor *grad, int i)
{
    char sr[HR__SHAPE_TEXT], sg[HR__SHAPE_TEXT];
    if (!root)
        return hr_fail(HR_ERR_INVALID, "output_not_tensor", "backward: root %d is NULL",
                       i);
    if (!root->requires_grad)
        return hr_fail(HR_ERR_STATE, "output_needs_no_grad",
                       "backward: root %d ('%s') is outside any graph", i, root->name);
    if (!grad && root->count != 1)
        return hr_fail(HR_ERR_INVALID, "grad_missing",
                       "backward: no gradient for root %d ('%s') of %lld elements", i,
                       root->name, (long long)root->count);
    if (grad && !hr_tensor_same_shape(root, grad))
        return hr_fail(
            HR_ERR_INVALID, "grad_shape", "backward: gradient %s for root %d ('%s') %s",
            hr__shape_text(grad, sg), i, root->name, hr__shape_text(root, sr));
    if (grad && hr_tensor_dtype(grad) != hr_tensor_dtype(root))
        return hr_fail(HR_ERR_INVALID, "grad_dtype",
                       "backward: gradient of type %s for root %d ('%s') of type %s",
                       hr_dtype_name(hr_tensor_dtype(grad)), i, root->name,
                       hr_dtype_name(hr_tensor_dtype(root)));
    return grad ? hr_tensor_check(grad, "backward, root gradient") : HR_OK;
}

static hr_status probe_backward(hr_tensor *const *roots, hr_tensor *const *grads, int n)
{
    size_t bytes = 2 * (size_t)n * sizeof(void *);
    const void **list = hr__pool_get(bytes);
    if (!list)
        return hr_fail(HR_ERR_NOMEM, "nomem", "no memory for a backward pass");
    for (int i = 0; i < n; i++) {
        list[i] = roots[i];
        list[n + i] = grads ? grads[i] : NULL;
    }
    HR_PROBE(.kind = HR_PROBE_RUN_BACKWARD, .list = list, .value = n);
    hr__pool_put(list, bytes);
    return HR_OK;
}

hr_status hr_backward(hr_tensor *const *roots, hr_tensor *const *grads, int n)
{
    struct run r = {.last_next = &r.first};
    if (n < 0 || (n > 0 && !roots))
        return hr_fail(HR_ERR_INVALID, "no_roots", "backward: %d roots", n);
    if (hr__probe_fn)
        HR_TRY(probe_backward(roots, grads, n));
    for (int i = 0; i < n; i++)
        HR_TRY(check_root(roots[i], grads ? grads[i] : NULL, i));
    bool mode = hr_grad_mode_set(false);
    hr_status st = discover(&r, roots, n);
    if (st >= 0)
        st = run_all(&r, roots, grads, n);
    let_go(&r);
    hr_grad_mode_set(mode);
    return st < 0 ? st : HR_OK;
}
