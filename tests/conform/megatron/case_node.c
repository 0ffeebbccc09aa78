/* schedule_node.json: small programs on one or more nodes. The stand-in operation of a node takes
 * all its inputs, puts out zeros, and gives zeros back as gradients. */
#include "compare.h"

#include <string.h>

enum { NODES = 8 };

typedef struct stand_in {
    rec *r;
    json_t *spec, *fwd;
    const char *key;
    hr_tensor *weight; /* NULL: none */
    hr_node *node;
    bool noop, asked;
    bool misused; /* refused early: the original had stored inputs by then */
} stand_in;

typedef struct node_case {
    rec r;
    cmp c;
    int n;
    stand_in node[NODES];
} node_case;

static node_case nc; /* large, and one at a time */

/* ---- the operation ------------------------------------------------------------------------ */
static hr_status op_backward(hr_function *fn, hr_tensor *const *grad_out,
                             hr_tensor **grad_in)
{
    int n = *(int *)hr_function_ctx(fn);
    for (int i = 0; i < n; i++)
        if (hr_function_needs(fn, i)) {
            hr_status st = hr_tensor_zeros(HR_F32, 2, (int64_t[]){2, 3}, &grad_in[i]);
            if (st < 0)
                return st;
        }
    return HR_OK;
}

static const hr_function_class op_class = {
    .name = "stand-in", .ctx_bytes = sizeof(int), .backward = op_backward};

static hr_status one_output(rec *r, json_t *spec, hr_tensor **out)
{
    hr_tensor *base;
    int64_t shape[] = {2, 3};
    *out = NULL;
    if (json_is_null(spec))
        return HR_OK;
    hr_status st = hr_tensor_zeros(HR_F32, 2, shape, &base);
    if (st < 0)
        return st;
    if (case_int(spec, "view", 0)) {
        st = hr_tensor_view(base, 2, shape, out);
        hr_tensor_release(base);
    } else {
        *out = base;
    }
    if (st >= 0)
        rec_name(r, *out, json_string_value(json_object_get(spec, "n")));
    return st;
}

static hr_status operation(stand_in *s, hr_tensor *const *in, int n, hr_tensor **out,
                           int *n_out)
{
    hr_tensor *inputs[HR_NODE_MAX + 1], *linked[HR_NODE_MAX];
    json_t *outs = json_object_get(s->fwd, "outs"), *spec;
    hr_function *fn;
    int n_linked = 0;
    size_t i;
    for (int k = 0; k < n; k++)
        inputs[k] = in[k];
    inputs[n] = s->weight;
    rec_need(hr_function_create(&op_class, inputs, n + 1, &fn), "function");
    json_array_foreach(outs, i, spec)
    {
        rec_need(one_output(s->r, spec, &out[i]), "output");
        if (out[i] && case_int(spec, "rg", 1))
            linked[n_linked++] = out[i];
    }
    *n_out = (int)json_array_size(outs);
    if (fn)
        *(int *)hr_function_ctx(fn) = n + 1;
    if (n_linked > 0)
        return hr_function_finish(fn, linked, n_linked);
    hr_function_abandon(fn);
    return HR_OK;
}

static json_t *list(rec *r, hr_tensor *const *t, int n)
{
    json_t *a = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(a, rec_json(r, t[i]));
    return a;
}

static hr_status forward(void *ctx, hr_node *node, hr_tensor *const *in, int n,
                         hr_tensor **out, int *n_out)
{
    stand_in *s = ctx;
    const char *ret = json_string_value(json_object_get(s->fwd, "ret"));
    rec_add(s->r, "[s,o]", "call", list(s->r, in, n));
    if (strcmp(ret, "raise") == 0)
        return hr_fail(HR_ERR_CALLBACK, "callback", "as the case says");
    if (strcmp(ret, "identity") == 0) {
        out[0] = hr_tensor_retain(in[case_int(s->fwd, "i", 0)]);
        *n_out = 1;
        return HR_OK;
    }
    if (strcmp(ret, "identity_tuple") == 0) {
        for (int i = 0; i < n; i++)
            out[i] = hr_tensor_retain(in[i]);
        *n_out = n;
        return HR_OK;
    }
    return operation(s, in, n, out, n_out);
}

static void set_grads(hr_node *node)
{
    for (int i = 0; i < hr_node_inputs(node); i++) {
        hr_tensor *x = hr_node_input(node, i), *g;
        if (x == NULL || !hr_tensor_requires_grad(x))
            continue;
        rec_need(hr_tensor_zeros(HR_F32, 2, (int64_t[]){2, 3}, &g), "gradient");
        rec_need(hr_tensor_set_grad(x, g), "gradient");
        hr_tensor_release(g);
    }
}

static hr_status backward(void *ctx, hr_node *node, hr_tensor *const *outputs,
                          hr_tensor *const *grads, int n, hr_tensor **used, int *n_used)
{
    stand_in *s = ctx;
    json_t *spec = json_object_get(s->spec, "bwd");
    const char *ret = json_string_value(json_object_get(spec, "ret"));
    rec_add(s->r, "[s,o,o]", "bwd_call", list(s->r, outputs, n), list(s->r, grads, n));
    if (case_has(spec, "set"))
        set_grads(node);
    if (strcmp(ret, "raise") == 0)
        return hr_fail(HR_ERR_CALLBACK, "callback", "as the case says");
    if (strcmp(ret, "same") == 0 || strcmp(ret, "extra") == 0)
        for (int i = 0; i < n; i++)
            used[(*n_used)++] = grads[i];
    if (strcmp(ret, "extra") == 0) {
        hr_tensor *gx = rec_find(s->r, "gx");
        used[(*n_used)++] = gx ? gx : rec_tensor_make(s->r, "gx", false);
    }
    if (strcmp(ret, "first") == 0)
        used[(*n_used)++] = grads[0];
    return HR_OK;
}

static hr_stream *lazy_stream(void *ctx)
{
    stand_in *s = ctx;
    const char *name = json_string_value(json_object_get(s->spec, "stream")) + 5;
    s->asked = true;
    rec_add(s->r, "[s]", "stream_fn");
    return strcmp(name, "none") == 0 ? NULL : rec_stream(s->r, name);
}

/* ---- the case ----------------------------------------------------------------------------- */
static void make_tensor(rec *r, const char *name, json_t *spec)
{
    const char *base = json_string_value(json_object_get(spec, "view"));
    if (base) {
        hr_tensor *t;
        rec_need(hr_tensor_view(rec_find(r, base), 2, (int64_t[]){2, 3}, &t), name);
        rec_need(hr_tensor_set_requires_grad(t, case_has(spec, "rg")), name);
        rec_name(r, t, name);
        hr_tensor_release(t);
        return;
    }
    hr_tensor *t = rec_tensor_make(r, name, case_has(spec, "rg"));
    hr_storage_set_symmetric(hr_tensor_storage(t), case_has(spec, "symm"));
}

static void make_tensors(rec *r, json_t *tensors)
{
    const char *name;
    json_t *spec;
    json_object_foreach(tensors, name, spec) if (!case_has(spec, "view"))
        make_tensor(r, name, spec);
    json_object_foreach(tensors, name, spec) if (case_has(spec, "view"))
        make_tensor(r, name, spec);
}

static void make_node(node_case *c, stand_in *s, bool query)
{
    const char *stream = json_string_value(json_object_get(s->spec, "stream"));
    json_t *bwd = json_object_get(s->spec, "bwd");
    const char *event = json_string_value(json_object_get(s->spec, "event"));
    bool lazy = stream && strncmp(stream, "lazy:", 5) == 0;
    s->r = &c->r;
    s->fwd = json_object_get(s->spec, "fwd");
    if (case_has(s->fwd, "param"))
        s->weight = rec_tensor_make(&c->r, "w", true);
    hr_schedule_node_opts o = {
        HR_INIT(hr_schedule_node_opts),
        .name = json_string_value(json_object_get(s->spec, "name")),
        .forward = forward,
        .backward = json_is_object(bwd) ? backward : NULL,
        .ctx = s,
        .stream_fn = lazy ? lazy_stream : NULL,
        .event = event ? rec_event(&c->r, event) : NULL,
        .free_input = case_has(s->spec, "free"),
        /* where the query is missing the flag has no effect */
        .ncclep_zero_copy = case_has(s->spec, "zc") && query,
    };
    if (stream && !lazy && strcmp(stream, "none") != 0)
        o.stream = rec_stream(&c->r, stream);
    rec_need(hr_schedule_node_create(&o, &s->node), "node");
}

static void make_nodes(node_case *c, json_t *nodes, bool query)
{
    const char *key, *kind;
    json_t *spec;
    json_object_foreach(nodes, key, spec)
    {
        stand_in *s = &c->node[c->n++];
        *s = (stand_in){.spec = spec, .key = key, .r = &c->r};
        kind = json_string_value(json_object_get(spec, "kind"));
        s->noop = kind && strcmp(kind, "noop") == 0;
        if (s->noop)
            rec_need(hr_noop_node_create(&s->node), "noop");
        else
            make_node(c, s, query);
    }
}

static stand_in *find_node(node_case *c, const char *key)
{
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->node[i].key, key) == 0)
            return &c->node[i];
    return NULL;
}

static hr_tensor *argument(rec *r, json_t *name)
{
    if (!json_is_string(name))
        return NULL;
    hr_tensor *t = rec_find(r, json_string_value(name));
    return t ? t : rec_tensor_make(r, json_string_value(name), false);
}

static int arguments(rec *r, json_t *arg, hr_tensor **t)
{
    const char *kind = json_string_value(json_array_get(arg, 0));
    json_t *v = json_array_get(arg, 1), *each;
    size_t i;
    if (strcmp(kind, "noarg") == 0)
        return 0;
    if (strcmp(kind, "bare") == 0) {
        t[0] = argument(r, v);
        return 1;
    }
    json_array_foreach(v, i, each) t[i] = argument(r, each);
    return (int)json_array_size(v);
}

/* ---- steps -------------------------------------------------------------------------------- */
/* The gradient of input i is called after it, whatever tensor it turned out to be. */
static json_t *named_grad(rec *r, hr_tensor *g, json_t *input)
{
    char name[80];
    if (g == NULL)
        return json_null();
    json_t *now = rec_json(r, g);
    snprintf(name, sizeof name, "d(%s)", json_string_value(input));
    if (strncmp(json_string_value(now), name, strlen(name)) == 0)
        return now;
    json_decref(now);
    return json_string(rec_name(r, g, name));
}

static hr_status do_backward(stand_in *s, hr_tensor **t, int n, json_t **ret)
{
    hr_tensor *got[HR_NODE_MAX];
    json_t *inputs = json_array(), *a = json_array();
    int n_got;
    for (int i = 0; i < hr_node_inputs(s->node); i++)
        json_array_append_new(inputs, rec_json(s->r, hr_node_input(s->node, i)));
    hr_status st = hr_node_backward(s->node, t, n, got, &n_got);
    for (int i = 0; i < n_got; i++) {
        json_array_append_new(
            a, s->noop ? rec_json(s->r, got[i])
                       : named_grad(s->r, got[i], json_array_get(inputs, (size_t)i)));
        hr_tensor_release(got[i]);
    }
    json_decref(inputs);
    *ret = a;
    return st;
}

static hr_status body(void *arg)
{
    void **a = arg;
    rec_add(a[0], "[s,s]", "body", rec_current(a[0]));
    return a[1] ? hr_fail(HR_ERR_CALLBACK, "callback", "as the case says") : HR_OK;
}

static hr_status do_step(node_case *c, json_t *step, json_t **ret)
{
    const char *what = json_string_value(json_array_get(step, 0));
    stand_in *s = find_node(c, json_string_value(json_array_get(step, 1)));
    hr_tensor *t[16] = {0}, *const * out, *grads[HR_NODE_MAX];
    int n = 0, n_out = 0;
    hr_status st;
    if (strcmp(what, "fwd") == 0 || strcmp(what, "bwd") == 0)
        n = arguments(&c->r, json_array_get(step, 2), t);
    rec_start(&c->r);
    *ret = NULL;
    if (strcmp(what, "fwd") == 0) {
        st = hr_node_forward(s->node, t, n, &out, &n_out);
        *ret = list(&c->r, out, n_out);
    } else if (strcmp(what, "bwd") == 0) {
        st = do_backward(s, t, n, ret);
    } else if (strcmp(what, "get_output") == 0) {
        st = hr_node_get_output(s->node, &out, &n_out);
        *ret = out ? list(&c->r, out, n_out) : json_null();
    } else if (strcmp(what, "get_grad") == 0) {
        st = hr_node_get_grad(s->node, grads, &n_out);
        *ret = list(&c->r, grads, n_out);
    } else if (strcmp(what, "release") == 0) {
        st = hr_node_release(s->node);
        *ret = json_null();
    } else if (strcmp(what, "acquire") == 0) {
        void *arg[] = {&c->r, json_array_size(step) > 3 ? c : NULL};
        st = hr_node_acquire(s->node, json_string_value(json_array_get(step, 2)), body,
                             arg);
        *ret = json_null();
    } else { /* viewless */
        hr_tensor *v;
        st = hr_make_viewless(
            rec_find(&c->r, json_string_value(json_array_get(step, 1))), &v);
        *ret = rec_json(&c->r, v);
        hr_tensor_release(v);
    }
    return st;
}

static json_t *state_of(stand_in *s)
{
    hr_tensor *grads[HR_NODE_MAX], *const *out;
    int n;
    json_t *a = json_array();
    if (hr_node_get_grad(s->node, grads, &n) < 0) {
        json_array_append_new(a, json_null());
    } else {
        json_t *inputs = json_array();
        for (int i = 0; i < n; i++)
            json_array_append_new(inputs, rec_json(s->r, hr_node_input(s->node, i)));
        json_array_append_new(a, inputs);
    }
    if (hr_node_get_output(s->node, &out, &n) < 0) {
        json_array_append_new(a, json_string("unset"));
    } else {
        json_t *outs = out ? list(s->r, out, n) : json_null();
        json_array_append(a, single(outs));
        json_decref(outs);
    }
    json_array_append_new(a, json_integer(!hr_node_spent(s->node)));
    const char *stream = json_string_value(json_object_get(s->spec, "stream"));
    bool lazy = stream && strncmp(stream, "lazy:", 5) == 0;
    json_array_append_new(a, lazy && !s->asked
                                 ? json_string("fn")
                                 : rec_stream_json(s->r, hr_node_stream(s->node)));
    return a;
}

/* A misuse that we refuse before anything is done: the reason is compared like any other, the trace is
 * not, and from then on neither is the stored state: the original stores inputs in a node before it
 * finds it spent. */
static bool refused_early(const stand_in *s, const char *why)
{
    static const char *const early[] = {"spent", "no_argument", "output_not_tensor"};
    if (why == NULL || strcmp(hr_last_reason(), why) != 0)
        return false;
    for (size_t i = 0; i < sizeof early / sizeof early[0]; i++)
        if (strcmp(why, early[i]) == 0)
            return true;
    return hr_node_spent(s->node) && strcmp(why, "grad_count") == 0;
}

/* Such stored inputs are not there to be asked for. */
static bool asks_for_misused(const stand_in *s, const char *what)
{
    return s->misused && strcmp(what, "get_grad") == 0 &&
           strcmp(hr_last_reason(), "no_inputs") == 0;
}

static verdict check_step(node_case *c, json_t *step, json_t *expect, hr_status st,
                          json_t *ret, outcome *o)
{
    static const char *const skip[] = {"op_bwd", "accum", NULL};
    const char *what = json_string_value(json_array_get(step, 0));
    const char *why = json_string_value(json_object_get(expect, "why"));
    char where[64];
    stand_in *s = find_node(c, json_string_value(json_array_get(step, 1)));
    json_t *trace = rec_stop(&c->r);
    rec_settle(&c->r);
    snprintf(where, sizeof where, "%s %s", what,
             json_string_value(json_array_get(step, 1)));
    if (st < 0 && (refused_early(s, why) || asks_for_misused(s, what))) {
        s->misused = true;
        json_decref(trace);
        json_decref(ret);
        return EQUAL;
    }
    if ((why != NULL) != (st < 0) || (why && strcmp(why, hr_last_reason()) != 0)) {
        json_decref(trace);
        json_decref(ret);
        return out_differs(o, "%s: expected %s, got %s (%s)", where,
                           why ? why : "success", st < 0 ? hr_last_reason() : "success",
                           st < 0 ? hr_last_error() : "");
    }
    verdict v =
        cmp_trace(&c->c, json_object_get(expect, "trace"), trace, skip, o, where);
    if (v == EQUAL && why == NULL)
        v = cmp_value(&c->c, json_object_get(expect, "ret"), ret, o, where);
    else
        json_decref(ret);
    json_t *state = json_object_get(expect, "state");
    if (v == EQUAL && state && !s->misused) {
        json_t *want = json_copy(state); /* a stored tuple of one is the thing itself */
        json_array_set(want, 1, single(json_array_get(state, 1)));
        json_array_append(c->c.keep, want);
        v = cmp_value(&c->c, want, state_of(s), o, "state");
        json_decref(want);
    }
    return v;
}

static bool mentions_value(json_t *v)
{
    const char *key;
    json_t *each;
    size_t i;
    if (json_is_object(v)) {
        if (json_object_get(v, "v"))
            return true;
        json_object_foreach(v, key, each) if (mentions_value(each)) return true;
    }
    if (json_is_array(v))
        json_array_foreach(v, i, each) if (mentions_value(each)) return true;
    return false;
}

static const char PLAIN_VALUES[] = "plain Python values as inputs or outputs";

static const char *left_out(json_t *c)
{
    const char *key;
    json_t *node;
    if (mentions_value(json_object_get(c, "nodes")) ||
        mentions_value(json_object_get(c, "steps")))
        return PLAIN_VALUES;
    json_object_foreach(json_object_get(c, "nodes"), key, node)
    {
        const char *ret =
            json_string_value(json_object_get(json_object_get(node, "fwd"), "ret"));
        if (ret && (strcmp(ret, "none") == 0 || strcmp(ret, "list") == 0))
            return PLAIN_VALUES; /* a list or None is no tensor and no tuple */
    }
    return NULL;
}

static verdict run_steps(node_case *c, json_t *cs, outcome *o)
{
    json_t *steps = json_object_get(cs, "steps"), *step, *ret;
    size_t i;
    json_array_foreach(steps, i, step)
    {
        hr_status st = do_step(c, step, &ret);
        if (check_step(c, step, json_array_get(json_object_get(cs, "expect"), i), st,
                       ret, o) != EQUAL)
            return DIFFERENT;
    }
    return EQUAL;
}

verdict run_node_case(json_t *cs, outcome *o)
{
    node_case *c = &nc;
    const char *reason = left_out(cs);
    if (reason)
        return out_left(o, reason);
    rec_open(&c->r, false);
    cmp_init(&c->c);
    c->n = 0;
    hr_range_enable(case_int(cs, "nvtx", 1));
    make_tensors(&c->r, json_object_get(cs, "tensors"));
    make_nodes(c, json_object_get(cs, "nodes"), case_int(cs, "te", 1));
    verdict v = run_steps(c, cs, o);
    hr_range_enable(true);
    for (int i = 0; i < c->n; i++)
        hr_node_destroy(c->node[i].node);
    cmp_fini(&c->c);
    rec_close(&c->r);
    return v;
}
