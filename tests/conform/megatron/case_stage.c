/* stage_grad.json: the gradient of the dispatch, staged into the dispatcher's buffer; by itself, and
 * in a node whose forward ends in the staging function. */
#include "compare.h"

#include <string.h>

static rec the_rec; /* large, and one at a time */

typedef struct staged {
    rec *r;
    hr_tensor *buffer; /* NULL: none */
} staged;

static hr_status get_buffer(void *ctx, hr_tensor **buffer)
{
    *buffer = ((staged *)ctx)->buffer;
    return HR_OK;
}

static hr_tensor *shaped(rec *r, const char *name, json_t *shape, bool requires_grad)
{
    int64_t dims[HR_MAX_DIMS];
    hr_tensor *t;
    size_t i;
    json_t *d;
    json_array_foreach(shape, i, d) dims[i] = json_integer_value(d);
    rec_need(hr_tensor_zeros(HR_F32, (int)json_array_size(shape), dims, &t), name);
    rec_need(hr_tensor_set_requires_grad(t, requires_grad), name);
    rec_name(r, t, name);
    hr_tensor_release(t);
    rec_settle(r);
    return t;
}

static verdict compare(rec *r, cmp *names, json_t *expect, hr_status st, json_t *ret,
                       outcome *o)
{
    static const char *const skip[] = {"op_bwd", "accum", NULL};
    const char *why = json_string_value(json_object_get(expect, "why"));
    json_t *trace = rec_stop(r);
    if ((why != NULL) != (st < 0) || (why && strcmp(why, hr_last_reason()) != 0)) {
        json_decref(trace);
        json_decref(ret);
        return out_differs(o, "expected %s, got %s", why ? why : "success",
                           st < 0 ? hr_last_error() : "success");
    }
    verdict v =
        cmp_trace(names, json_object_get(expect, "trace"), trace, skip, o, "trace");
    if (v == EQUAL && why == NULL)
        return cmp_value(names, json_object_get(expect, "ret"), ret, o, "result");
    json_decref(ret);
    return v;
}

/* ---- by itself ------------------------------------------------------------------------------ */
static const char *direct_left_out(json_t *c)
{
    if (json_array_size(json_object_get(c, "grad")) > HR_MAX_DIMS)
        return "more dimensions than tensors have here";
    return NULL;
}

static verdict direct(rec *r, cmp *names, json_t *c, outcome *o)
{
    json_t *shape = json_object_get(c, "grad"), *buf = json_object_get(c, "buf");
    staged s = {.r = r};
    hr_tensor *x = shaped(r, "x", shape, true), *g = shaped(r, "g", shape, false), *y;
    if (json_is_array(buf))
        s.buffer = shaped(r, "buf", buf, false);
    rec_need(hr_stage_dispatch_bwd_grad(x, &(hr_grad_staging){get_buffer, &s}, &y),
             "stage");
    rec_start(r);
    hr_status st = hr_backward(&y, &g, 1);
    hr_tensor_release(y);
    /* what the function hands on is what the leaf got; the second, for the buffer, is no gradient */
    json_t *ret =
        json_pack("[o,n]", hr_tensor_grad(x) ? json_string("buf") : json_null());
    return compare(r, names, c, st, ret, o);
}

/* ---- in a node ------------------------------------------------------------------------------- */
static hr_status op_backward(hr_function *fn, hr_tensor *const *grad_out,
                             hr_tensor **grad_in)
{
    return hr_tensor_zeros(HR_F32, 2, (int64_t[]){2, 3}, &grad_in[0]);
}

static const hr_function_class op_class = {.name = "dispatch", .backward = op_backward};

static hr_status forward(void *ctx, hr_node *node, hr_tensor *const *in, int n,
                         hr_tensor **out, int *n_out)
{
    staged *s = ctx;
    hr_tensor *tok;
    hr_function *fn;
    json_t *x = rec_json(s->r, in[0]);
    rec_add(s->r, "[s,[o]]", "call", x);
    rec_need(hr_function_create(&op_class, in, 1, &fn), "dispatch");
    rec_need(hr_tensor_zeros(HR_F32, 2, (int64_t[]){2, 3}, &tok), "dispatch");
    rec_name(s->r, tok, "tok");
    rec_need(hr_function_finish(fn, &tok, 1), "dispatch");
    hr_status st =
        hr_stage_dispatch_bwd_grad(tok, &(hr_grad_staging){get_buffer, s}, &out[0]);
    hr_tensor_release(tok);
    if (st >= 0)
        rec_name(s->r, out[0], "tok.id");
    *n_out = 1;
    return st;
}

static void give_buffer(rec *r, json_t *c, staged *s)
{
    const char *buf = json_string_value(json_object_get(c, "buf"));
    if (buf == NULL)
        return;
    json_t *shape =
        strcmp(buf, "ok") == 0 ? json_pack("[i,i]", 2, 3) : json_pack("[i]", 5);
    s->buffer = shaped(r, "buf", shape, false);
    json_decref(shape);
}

static verdict in_node(rec *r, cmp *names, json_t *c, outcome *o)
{
    staged s = {.r = r};
    hr_node *node;
    hr_tensor *x = rec_tensor_make(r, "x", case_has(c, "rg"));
    hr_tensor *g = rec_tensor_make(r, "g", false), *const * out, *dx[HR_NODE_MAX] = {0};
    int n;
    json_t *steps = json_object_get(c, "steps");
    give_buffer(r, c, &s);
    rec_need(hr_schedule_node_create(
                 &(hr_schedule_node_opts){
                     HR_INIT(hr_schedule_node_opts), .name = "moe_dispatch",
                     .forward = forward, .ctx = &s, .stream = rec_stream(r, "comm"),
                     .event = rec_event(r, "ev0"), .free_input = case_has(c, "free"),
                     .ncclep_zero_copy = case_has(c, "zc")},
                 &node),
             "node");
    rec_start(r);
    hr_status st = hr_node_forward(node, &x, 1, &out, &n);
    json_t *ret = n ? rec_json(r, out[0]) : json_null();
    verdict v = compare(r, names, json_array_get(steps, 0), st, ret, o);
    if (v == EQUAL) {
        rec_start(r);
        st = hr_node_backward(node, &g, 1, dx, &n);
        v = compare(r, names, json_array_get(steps, 1), st, rec_json(r, dx[0]), o);
        hr_tensor_release(dx[0]);
    }
    hr_node_destroy(node);
    return v;
}

verdict run_stage_case(json_t *c, outcome *o)
{
    static cmp names;
    rec *r = &the_rec;
    bool by_itself = json_object_get(c, "grad") != NULL;
    const char *reason = by_itself ? direct_left_out(c) : NULL;
    if (reason)
        return out_left(o, reason);
    rec_open(r, by_itself); /* the recordings show the engine only in nodes */
    cmp_init(&names);
    verdict v = by_itself ? direct(r, &names, c, o) : in_node(r, &names, c, o);
    cmp_fini(&names);
    rec_close(r);
    return v;
}
