/* What a node does. The order of its steps is the contract, and the recorded traces of the
 * original are its judge:
 *
 *     ask for the stream | wait for the event | push the range | enter the stream
 *         detach inputs, call, make outputs viewless       or   run the engine
 *     exit | pop | record | mark tensors for the stream and free them
 *
 * exit, pop and record also happen after a failure. */
#include "autograd/lend_grad.h"
#include "base/try.h"
#include "pipeline/node.h"
#include "tensor/claim.h"
#include "trace/probe.h"

typedef struct scope {
    hr_stream *stream; /* that the node works on: its own or the current one */
    hr_stream *previous;
} scope;

static hr_status resolve_stream(hr_node *node, hr_stream **out)
{
    if (node->opts.stream_fn && !node->asked) {
        node->stream = node->opts.stream_fn(node->opts.ctx);
        node->asked = true;
    }
    *out = node->stream ? node->stream : hr_stream_current();
    if (*out == NULL)
        return hr_fail(HR_ERR_STATE, "no_device",
                       "node '%s': no stream, and no current device", node->names.name);
    return HR_OK;
}

static void enter(const hr_node *node, const char *range, hr_span_dir dir, scope *sc)
{
    if (range)
        hr_range_push(range);
    hr_stream_enter(node->stream, &sc->previous);
    hr_span_begin(sc->stream, &(hr_mark){.name = node->names.name,
                                         .layer = node->layer,
                                         .microbatch = node->microbatch,
                                         .dir = dir});
}

static hr_status leave(const hr_node *node, const char *range, const scope *sc,
                       hr_status st)
{
    hr_span_end(sc->stream);
    hr_stream_exit(node->stream, sc->previous);
    if (range)
        hr_range_pop();
    if (node->opts.event == NULL)
        return st;
    hr_status recorded = hr_event_record(node->opts.event, sc->stream);
    return st < 0 ? st : recorded;
}

typedef struct forward_args {
    hr_node *node;
    hr_tensor *const *in;
    int n;
} forward_args;

typedef struct backward_args {
    hr_node *node;
    hr_tensor *const *grads;
    int n;
    hr_tensor *used[2 * HR_NODE_MAX];
    int n_used;
} backward_args;

static hr_status acquire(hr_node *node, const char *range, hr_span_dir dir,
                         hr_status (*body)(void *arg), void *arg)
{
    scope sc;
    HR_TRY(resolve_stream(node, &sc.stream));
    if (node->opts.event)
        HR_TRY(hr_event_wait(node->opts.event, sc.stream));
    enter(node, range, dir, &sc);
    return leave(node, range, &sc, body(arg));
}

hr_status hr_node_acquire(hr_node *node, const char *range,
                          hr_status (*body)(void *arg), void *arg)
{
    if (node->noop)
        return body(arg);
    return acquire(node, range && range[0] ? range : NULL, HR_DIR_NONE, body, arg);
}

hr_status hr__node_callback_failed(const hr_node *node, const char *what, hr_status st)
{
    if (hr_last_error()[0])
        return hr_fail(st, hr_last_reason(), "node '%s' %s: %s", node->names.name, what,
                       hr_last_error());
    return hr_fail(HR_ERR_CALLBACK, "callback",
                   "node '%s' %s: the function failed with %s and no word",
                   node->names.name, what, hr_status_name(st));
}

/* A hook runs where the caller stands: on the current stream, in no range of the node. */
static hr_status call_hook(hr_node *node, hr_status (*hook)(void *ctx),
                           const char *what)
{
    if (hook == NULL)
        return HR_OK;
    hr_error_clear();
    hr_status st = hook(node->opts.ctx);
    return st < 0 ? hr__node_callback_failed(node, what, st) : HR_OK;
}

static bool has_wgrads(const hr_node *node)
{
    return node->opts.n_wgrads > 0 || node->opts.wgrad_queue != NULL;
}

/* ---- forward ---------------------------------------------------------------------------- */
static hr_status detach_input(hr_tensor *t, hr_tensor **out)
{
    hr_tensor *viewless = NULL;
    if (hr_tensor_base(t))
        HR_TRY(hr_make_viewless(t, &viewless));
    hr_status st = hr_tensor_detach(viewless ? viewless : t, out);
    hr_tensor_release(viewless);
    if (st >= 0)
        hr__grad_may_share(*out);
    return st;
}

static hr_status store_inputs(hr_node *node, hr_tensor *const *in, int n)
{
    hr_tensor *own[HR_NODE_MAX] = {0};
    hr_status st = HR_OK;
    for (int i = 0; i < n && st >= 0; i++)
        if (in[i])
            st = detach_input(in[i], &own[i]);
    for (int i = 0; i < n && st >= 0; i++)
        if (in[i])
            st = hr_tensor_set_requires_grad(own[i], hr_tensor_requires_grad(in[i]));
    if (st < 0) {
        for (int i = 0; i < n; i++)
            hr_tensor_release(own[i]);
        return st;
    }
    hr__node_drop_inputs(node);
    for (int i = 0; i < n; i++)
        node->in[i] = own[i];
    node->n_in = n;
    node->has_inputs = true;
    return HR_OK;
}

/* Takes `made`. */
static hr_status make_output(hr_tensor *made, hr_tensor **out)
{
    hr_status st = HR_OK;
    if (hr_tensor_base(made) == NULL) {
        *out = made;
    } else if (hr__tensor_forget_base(made)) {
        HR_PROBE(.kind = HR_PROBE_VIEWLESS, .a = made, .b = made);
        *out = made;
    } else {
        st = hr_make_viewless(made, out);
        hr_tensor_release(made);
    }
    return st;
}

/* Takes all of `made`, and puts viewless tensors in place of views. */
static hr_status store_outputs(hr_node *node, hr_tensor **made, int n)
{
    hr_tensor *viewless[HR_NODE_MAX] = {0};
    hr_status st = HR_OK;
    for (int i = 0; i < n; i++) {
        if (made[i] && st >= 0)
            st = make_output(made[i], &viewless[i]);
        else
            hr_tensor_release(made[i]);
    }
    if (st < 0) {
        for (int i = 0; i < n; i++)
            hr_tensor_release(viewless[i]);
        return st;
    }
    hr__node_drop_outputs(node);
    for (int i = 0; i < n; i++)
        node->out[i] = viewless[i];
    node->n_out = n;
    node->has_output = true;
    return HR_OK;
}

static hr_status forward_body(void *arg)
{
    forward_args *a = arg;
    hr_node *node = a->node;
    hr_tensor *made[HR_NODE_MAX] = {0};
    int n_made = 0;
    HR_TRY(store_inputs(node, a->in, a->n));
    hr_error_clear();
    hr_status st =
        node->opts.forward(node->opts.ctx, node, node->in, node->n_in, made, &n_made);
    if (st >= 0 && (n_made < 0 || n_made > HR_NODE_MAX))
        st = hr_fail(HR_ERR_CALLBACK, "output_count", "%d outputs; %d at most", n_made,
                     HR_NODE_MAX);
    if (st < 0) {
        for (int i = 0; i < HR_NODE_MAX; i++)
            hr_tensor_release(made[i]);
        return hr__node_callback_failed(node, "forward", st);
    }
    return store_outputs(node, made, n_made);
}

static bool is_output(const hr_node *node, const hr_tensor *t)
{
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] == t)
            return true;
    return false;
}

/* Give up the bytes of input `i`: the claim of the handle that came in and of our copy, which
 * stays as the leaf that gets the gradient. A copy that went out as an output keeps its own. */
static void free_one_input(hr_node *node, hr_tensor *given, hr_tensor *own)
{
    if (node->opts.ncclep_zero_copy) {
        bool symmetric = hr_tensor_is_symmetric(given);
        HR_PROBE(.kind = HR_PROBE_SYMMETRIC, .a = given, .value = symmetric);
        if (symmetric)
            return;
    }
    hr_tensor_drop(given, node->stream);
    if (!is_output(node, own))
        hr__tensor_unclaim(own, node->stream);
}

static hr_status free_inputs(hr_node *node, hr_tensor *const *in)
{
    for (int i = 0; i < node->n_in; i++) {
        if (in[i] == NULL)
            continue;
        HR_TRY(hr_tensor_record_stream(in[i], node->stream));
        free_one_input(node, in[i], node->in[i]);
    }
    return HR_OK;
}

static hr_status check_given(const hr_node *node, hr_tensor *const *t, int n,
                             const char *what)
{
    if (node == NULL)
        return hr_fail(HR_ERR_INVALID, "no_node", "node %s: no node", what);
    if (n > 0 && t == NULL)
        return hr_fail(HR_ERR_INVALID, "no_argument",
                       "node '%s' %s: %d tensors, but no list", node->names.name, what,
                       n);
    return HR_OK;
}

/* A spent node's outputs stand as one that is nothing: so the count of gradients is judged, as the
 * original does, before the node's state is. */
static hr_status check_spent(const hr_node *node, int n_grads)
{
    if (!node->spent)
        return HR_OK;
    if (n_grads != 1)
        return hr_fail(HR_ERR_STATE, "grad_count",
                       "node '%s' backward: its backward has run, so it has no output, "
                       "but %d output gradients",
                       node->names.name, n_grads);
    return hr_fail(HR_ERR_STATE, "spent", "node '%s' backward: its backward has run",
                   node->names.name);
}

static hr_status check_noop(int n, const char *what)
{
    if (n < 1 || n > HR_NODE_MAX)
        return hr_fail(HR_ERR_INVALID, n < 1 ? "no_argument" : "input_count",
                       "noop node %s: %d tensors; 1 to %d", what, n, HR_NODE_MAX);
    return HR_OK;
}

hr_status hr_node_forward(hr_node *node, hr_tensor *const *in, int n,
                          hr_tensor *const **out, int *n_out)
{
    *out = NULL;
    *n_out = 0;
    HR_TRY(check_given(node, in, n, "forward"));
    if (node->noop) {
        HR_TRY(check_noop(n, "forward"));
        *out = in;
        *n_out = n;
        return HR_OK;
    }
    if (n < 0 || n > HR_NODE_MAX)
        return hr_fail(HR_ERR_INVALID, "input_count",
                       "node '%s' forward: %d inputs; %d at most", node->names.name, n,
                       HR_NODE_MAX);
    if (node->spent)
        return hr_fail(HR_ERR_STATE, "spent", "node '%s' forward: its backward has run",
                       node->names.name);
    forward_args a = {node, in, n};
    HR_TRY(call_hook(node, node->opts.pre_forward, "pre-forward hook"));
    HR_TRY(acquire(node, node->names.forward, HR_DIR_FORWARD, forward_body, &a));
    if (node->opts.free_input)
        HR_TRY(free_inputs(node, in));
    HR_TRY(call_hook(node, node->opts.post_forward, "post-forward hook"));
    *out = node->out;
    *n_out = node->n_out;
    return HR_OK;
}

/* ---- backward --------------------------------------------------------------------------- */
hr_status hr__node_engine(hr_node *node, hr_tensor *const *grads, int n,
                          const hr__node_sides *sides, hr_tensor **used, int *n_used)
{
    hr_tensor *roots[2 * HR_NODE_MAX];
    for (int i = 0; i < n; i++) {
        if (node->out[i] == NULL)
            return hr_fail(HR_ERR_INVALID, "output_not_tensor", "output %d is nothing",
                           i);
        roots[i] = node->out[i];
        used[i] = grads[i];
    }
    for (int i = 0; i < sides->n; i++) {
        roots[n + i] = sides->root[i];
        used[n + i] = sides->grad[i];
    }
    *n_used = n + sides->n;
    return hr_backward(roots, used, *n_used);
}

static hr_status backward_body(void *arg)
{
    static const hr__node_sides none;
    backward_args *a = arg;
    hr_node *node = a->node;
    if (!node->has_output)
        return hr_fail(HR_ERR_STATE, "no_output",
                       "node '%s' backward: no forward has finished", node->names.name);
    if (a->n != node->n_out)
        return hr_fail(HR_ERR_INVALID, "grad_count",
                       "node '%s' backward: %d output%s but %d output gradient%s",
                       node->names.name, node->n_out, node->n_out == 1 ? "" : "s", a->n,
                       a->n == 1 ? "" : "s");
    hr_error_clear();
    hr_status st =
        node->opts.backward
            ? node->opts.backward(node->opts.ctx, node, node->out, a->grads, a->n,
                                  a->used, &a->n_used)
            : hr__node_engine(node, a->grads, a->n, &none, a->used, &a->n_used);
    return st < 0 ? hr__node_callback_failed(node, "backward", st) : HR_OK;
}

/* The gradients may come from another stream, whose memory must wait for this one. */
static hr_status mark_used(const hr_node *node, const backward_args *a)
{
    for (int i = 0; i < a->n_used; i++)
        if (a->used[i])
            HR_TRY(hr_tensor_record_stream(a->used[i], node->stream));
    return HR_OK;
}

/* The end of a node: its inputs' gradients become the caller's. */
static void take_grads(hr_node *node, hr_tensor **grads, int *n)
{
    for (int i = 0; i < node->n_in; i++)
        grads[i] = hr_tensor_retain(hr_tensor_grad(node->in[i]));
    *n = node->n_in;
    hr__node_release_state(node);
}

hr_status hr_node_backward(hr_node *node, hr_tensor *const *grads, int n,
                           hr_tensor **in_grads, int *n_in)
{
    *n_in = 0;
    HR_TRY(check_given(node, grads, n, "backward"));
    if (node->noop) {
        HR_TRY(check_noop(n, "backward"));
        for (int i = 0; i < n; i++)
            in_grads[i] = hr_tensor_retain(grads[i]);
        *n_in = n;
        return HR_OK;
    }
    HR_TRY(check_spent(node, n));
    HR_TRY(call_hook(node, node->opts.pre_backward, "pre-backward hook"));
    backward_args a = {.node = node, .grads = grads, .n = n};
    HR_TRY(acquire(node, node->names.backward, HR_DIR_BACKWARD, backward_body, &a));
    HR_TRY(mark_used(node, &a));
    take_grads(node, in_grads, n_in);
    if (has_wgrads(node)) /* the hook comes after those */
        return HR_OK;
    hr_status st = call_hook(node, node->opts.post_backward, "post-backward hook");
    while (st < 0 && *n_in > 0)
        hr_tensor_release(in_grads[--*n_in]);
    return st;
}

/* ---- delayed weight gradients ------------------------------------------------------------- */
static hr_status run_wgrads(hr_node *node)
{
    const hr_schedule_node_opts *o = &node->opts;
    for (int i = 0; i < o->n_wgrads; i++) {
        hr_error_clear();
        hr_status st = o->wgrads[i].run(o->wgrads[i].ctx);
        if (st < 0)
            return hr__node_callback_failed(node, "weight gradient", st);
    }
    return o->wgrad_queue && hr_wgrad_pending(o->wgrad_queue) > 0
               ? hr_wgrad_run(o->wgrad_queue)
               : HR_OK;
}

static hr_status wgrad_done(hr_node *node)
{
    scope sc;
    if (node->opts.wgrad_done == NULL)
        return HR_OK;
    hr_stream_enter(node->stream, &sc.previous);
    hr_error_clear();
    hr_status st = node->opts.wgrad_done(node->opts.ctx);
    hr_stream_exit(node->stream, sc.previous);
    return st < 0 ? hr__node_callback_failed(node, "weight gradients' end", st) : HR_OK;
}

hr_status hr_node_backward_dw(hr_node *node)
{
    scope sc;
    HR_TRY(check_given(node, NULL, 0, "weight gradient"));
    if (node->noop || !has_wgrads(node))
        return HR_OK;
    if (node->wgrad_run)
        return hr_fail(HR_ERR_STATE, "wgrad_already_run",
                       "node '%s': its delayed weight gradients have run",
                       node->names.name);
    HR_TRY(resolve_stream(node, &sc.stream));
    hr_stream_enter(node->stream, &sc.previous);
    hr_range_push(node->names.wgrad);
    hr_span_begin(sc.stream, &(hr_mark){.name = node->names.name,
                                        .layer = node->layer,
                                        .microbatch = node->microbatch,
                                        .dir = HR_DIR_WGRAD});
    hr_status st = run_wgrads(node);
    hr_span_end(sc.stream);
    hr_range_pop();
    hr_stream_exit(node->stream, sc.previous);
    if (st < 0)
        return st;
    node->wgrad_run = true;
    HR_TRY(wgrad_done(node));
    return call_hook(node, node->opts.post_backward, "post-backward hook");
}
