/* layer_node.json: which slots free their inputs, and single layer nodes with tensors set aside. */
#include "stub_layer.h"

#include <string.h>

static int slot_of(const char *name)
{
    for (int s = 0; s < HR_SLOTS; s++)
        if (strcmp(name, hr_slot_name((hr_slot)s)) == 0)
            return s;
    return HR_SLOTS;
}

static hr_free_input_facts facts_of(json_t *c)
{
    const char *d = json_string_value(json_object_get(c, "dispatcher"));
    const char *b = json_string_value(json_object_get(c, "backend"));
    const char *g = json_string_value(json_object_get(c, "graph_module"));
    hr_free_input_facts f = {HR_INIT(hr_free_input_facts), .moe = case_has(c, "moe"),
                             .quantized = case_has(c, "fp8") || case_has(c, "fp4"),
                             .local_experts = case_int(c, "local_experts", 1),
                             .preprocess_captured =
                                 g && strcmp(g, "moe_preprocess") == 0};
    if (d && strcmp(d, "allgather") == 0)
        f.dispatcher = HR_DISPATCH_ALLGATHER;
    if (d && strcmp(d, "flex") == 0)
        f.dispatcher = HR_DISPATCH_FLEX;
    if (b && strcmp(b, "deepep") == 0)
        f.backend = HR_FLEX_DEEPEP;
    if (b && strcmp(b, "hybridep") == 0)
        f.backend = HR_FLEX_HYBRIDEP;
    if (b && strcmp(b, "ncclep") == 0)
        f.backend = HR_FLEX_NCCLEP;
    return f;
}

static verdict policy(json_t *c, outcome *o)
{
    hr_free_input_facts f = facts_of(c);
    const char *name;
    json_t *want;
    json_object_foreach(json_object_get(c, "free"), name, want)
    {
        bool got = hr_free_input_policy((hr_slot)slot_of(name), &f);
        if (got != (json_integer_value(want) != 0))
            return out_differs(o, "%s: expected %d, got %d", name,
                               (int)json_integer_value(want), got);
    }
    return EQUAL;
}

/* ---- a layer node ----------------------------------------------------------------------------- */
typedef struct one_node {
    rec r;
    json_t *c;
    int n_side;
    hr_tensor *side[HR_NODE_MAX];
} one_node;

static one_node the_node; /* large, and one at a time */

static hr_status run_dw(const hr_wgrad_item *it)
{
    rec *r = &the_node.r;
    rec_add(r, "[s,s,s]", "dw", it->name, rec_current(r));
    return HR_OK;
}

static hr_status push_dw(hr_wgrad_queue *q)
{
    hr_status st = hr_wgrad_push(q, &(hr_wgrad_item){.run = run_dw, .name = "m0"});
    return st < 0 ? st
                  : hr_wgrad_push(q, &(hr_wgrad_item){.run = run_dw, .name = "m1"});
}

static hr_status sub_backward(hr_function *fn, hr_tensor *const *grad_out,
                              hr_tensor **grad_in)
{
    rec *r = &the_node.r;
    rec_add(r, "[s,s,s]", "bwd", "sub", rec_current(r));
    return hr_tensor_zeros(HR_F32, 2, (int64_t[]){2, 3}, &grad_in[0]);
}

static const hr_function_class sub_class = {.name = "sub", .backward = sub_backward};

static hr_status sub(void *layer, hr_layer_ctx *ctx, hr_tensor *const *in, int n,
                     hr_tensor **out, int *n_out)
{
    one_node *t = layer;
    hr_function *fn;
    char name[16];
    hr_tensor *made[HR_NODE_MAX + 1];
    hr_wgrad_queue *q = hr_layer_ctx_queue(ctx);
    rec_add(&t->r, "[s,s,s]", "fwd", "sub", rec_current(&t->r));
    rec_need(hr_function_create(&sub_class, in, 1, &fn), "sub");
    for (int i = 0; i <= t->n_side; i++) {
        rec_need(hr_tensor_zeros(HR_F32, 2, (int64_t[]){2, 3}, &made[i]), "sub");
        snprintf(name, sizeof name, i ? "side%d" : "y", i - 1);
        rec_name(&t->r, made[i], name);
    }
    rec_need(hr_function_finish(fn, made, t->n_side + 1), "sub");
    /* the original's modules have their work whether backward came to it or not */
    if (q)
        rec_need(push_dw(q), "delayed work");
    for (int i = 0; i < t->n_side; i++) {
        rec_need(hr_node_detach(ctx, made[i + 1], &t->side[i]), "side");
        hr_tensor_release(made[i + 1]);
    }
    out[0] = made[0];
    *n_out = 1;
    return HR_OK;
}

static hr_status wgrad_done(void *layer, hr_layer_ctx *ctx, hr_slot slot)
{
    one_node *t = layer;
    rec_add(&t->r, "[s,s,s]", "wgrad_hook", "m0", rec_current(&t->r));
    rec_add(&t->r, "[s,s,s]", "wgrad_hook", "m1", rec_current(&t->r));
    return HR_OK;
}

static hr_status post_forward(void *layer, hr_layer_ctx *ctx)
{
    rec_add(&((one_node *)layer)->r, "[s]", "post_fwd_hook");
    return HR_OK;
}

static hr_status post_backward(void *layer, hr_layer_ctx *ctx)
{
    rec_add(&((one_node *)layer)->r, "[s]", "post_bwd_hook");
    return HR_OK;
}

/* A layer with the one slot. All is done on "comm", also what is the compute stream's. */
static hr_layer_plan *make_plan(one_node *t)
{
    int slot = slot_of(json_string_value(json_object_get(t->c, "slot")));
    hr_layer_plan *plan;
    hr_layer_desc desc = {HR_INIT(hr_layer_desc), .layer = t};
    desc.slot[slot] = sub;
    desc.free_input[slot] = case_has(t->c, "free");
    desc.wgrad_done = case_has(t->c, "param_hooks") ? wgrad_done : NULL;
    desc.post_forward = case_has(t->c, "layer_hooks") ? post_forward : NULL;
    desc.post_backward = case_has(t->c, "layer_hooks") ? post_backward : NULL;
    rec_need(hr_layer_plan_create(&desc,
                                  &(hr_layer_plan_opts){
                                      HR_INIT(hr_layer_plan_opts),
                                      .event = rec_event(&t->r, "ev0"),
                                      .delay_wgrad = case_has(t->c, "delay_wgrad"),
                                  },
                                  &plan),
             "layer plan");
    return plan;
}

static void give_side_grads(one_node *t)
{
    for (int i = 0; i < t->n_side && case_has(t->c, "side_grads"); i++) {
        hr_tensor *g;
        rec_need(hr_tensor_zeros(HR_F32, 2, (int64_t[]){2, 3}, &g), "side gradient");
        rec_need(hr_tensor_set_grad(t->side[i], g), "side gradient");
        hr_tensor_release(g);
    }
}

/* Forward, backward, delayed weight gradients, the same again. */
static hr_status do_step(one_node *t, hr_layer_plan *plan, int step, json_t **ret)
{
    hr_tensor *out = NULL, *grad = NULL, *none, *g = NULL, *x = rec_find(&t->r, "x");
    hr_status st;
    if (step == 1) {
        g = rec_tensor_make(&t->r, "g", false);
        give_side_grads(t);
    }
    rec_start(&t->r);
    if (step == 0)
        st = hr_layer_plan_run(plan, NULL, x, NULL, true, &out, &none);
    else if (step == 1)
        st = hr_layer_plan_run(NULL, plan, NULL, g, true, &none, &grad);
    else
        st = hr_layer_plan_wgrad(plan);
    *ret = rec_json(&t->r, step == 0 ? out : grad);
    hr_tensor_release(grad);
    return st;
}

static verdict check_step(one_node *t, cmp *names, json_t *expect, hr_status st,
                          json_t *ret, outcome *o)
{
    static const char *const skip[] = {"accum", NULL};
    const char *why = json_string_value(json_object_get(expect, "why"));
    json_t *trace = rec_stop(&t->r), *want = json_object_get(expect, "ret");
    json_array_append_new(names->keep, ret);
    if ((why != NULL) != (st < 0) || (why && strcmp(why, hr_last_reason()) != 0)) {
        json_decref(trace);
        return out_differs(o, "expected %s, got %s", why ? why : "success",
                           st < 0 ? hr_last_error() : "success");
    }
    if (why &&
        strcmp(why, "wgrad_already_run") == 0) { /* refused before the range opens */
        json_decref(trace);
        return EQUAL;
    }
    verdict v =
        cmp_trace(names, json_object_get(expect, "trace"), trace, skip, o, "trace");
    if (v == EQUAL && want && why == NULL)
        v = cmp_value(names, want, json_incref(ret), o, "result");
    return v;
}

static verdict run_steps(one_node *t, cmp *names, outcome *o)
{
    json_t *steps = json_object_get(t->c, "steps"), *step, *ret;
    hr_layer_plan *plan = make_plan(t);
    verdict v = EQUAL;
    size_t i;
    json_array_foreach(steps, i, step)
    {
        hr_status st = do_step(t, plan, (int)i, &ret);
        v = check_step(t, names, step, st, ret, o);
        if (v != EQUAL)
            break;
    }
    rec_stop(&t->r);
    hr_layer_plan_destroy(plan);
    return v;
}

static verdict layer_node(json_t *c, outcome *o)
{
    static cmp names;
    one_node *t = &the_node;
    hr_stream *previous;
    rec_open(&t->r, false);
    cmp_init(&names);
    t->c = c;
    t->n_side = case_int(c, "side", 0);
    hr_stream *comm = rec_stream(&t->r, "comm");
    rec_need(hr_set_streams(comm, false), "comm stream");
    rec_tensor_make(&t->r, "x", case_has(c, "rg"));
    hr_stream_enter(comm, &previous);
    verdict v = run_steps(t, &names, o);
    hr_stream_exit(comm, previous);
    cmp_fini(&names);
    rec_close(&t->r);
    return v;
}

verdict run_policy_case(json_t *c, outcome *o)
{
    if (json_object_get(c, "free") && json_is_object(json_object_get(c, "free")))
        return policy(c, o);
    return layer_node(c, o);
}
