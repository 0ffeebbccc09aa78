/* layer_plan.json: one layer's forward beside another's backward. */
#include "stub_layer.h"

#include <string.h>

typedef struct layer_side {
    stub_layer stub;
    hr_layer_plan *plan; /* NULL: none */
    hr_tensor *x;
} layer_side;

static rec the_rec; /* large, and one at a time */

static void make_side(rec *r, json_t *c, const char *name, const char *event,
                      layer_side *side)
{
    const char *kind = json_string_value(json_object_get(c, name));
    char x[8];
    hr_layer_desc desc;
    *side = (layer_side){0};
    if (kind == NULL)
        return;
    stub_describe(&side->stub, r, name, kind, c, &desc);
    hr_layer_plan_opts opts = {
        HR_INIT(hr_layer_plan_opts), .event = rec_event(r, event),
        .delay_wgrad = case_int(c, "dw", 1), .early_attn_release = case_has(c, "early"),
        .ncclep_zero_copy = case_has(c, "zc")};
    rec_need(hr_layer_plan_create(&desc, &opts, &side->plan), "layer plan");
    snprintf(x, sizeof x, "%s.x", name);
    side->x = rec_tensor_make(r, x, true);
}

static json_t *run_pair(rec *r, json_t *c, layer_side *f, layer_side *b, hr_status *st)
{
    hr_tensor *f_out, *b_grad;
    hr_tensor *g = b->plan ? rec_tensor_make(r, "b.g", false) : NULL;
    rec_start(r);
    *st = hr_layer_plan_run(f->plan, b->plan, f->x, g, case_has(c, "last"), &f_out,
                            &b_grad);
    json_t *ret = json_pack("[o,o]", rec_json(r, f_out), rec_json(r, b_grad));
    hr_tensor_release(b_grad);
    return ret;
}

static verdict judge(rec *r, cmp *names, json_t *c, hr_status st, json_t *ret,
                     outcome *o)
{
    json_t *trace = rec_stop(r);
    if (st < 0) {
        json_decref(trace);
        json_decref(ret);
        return out_differs(o, "failed: %s", hr_last_error());
    }
    verdict v =
        cmp_trace(names, json_object_get(c, "trace"), trace, plan_skip, o, "trace");
    if (v == EQUAL)
        return cmp_value(names, json_object_get(c, "ret"), ret, o, "result");
    json_decref(ret);
    return v;
}

verdict run_layer_case(json_t *c, outcome *o)
{
    static cmp names;
    rec *r = &the_rec;
    layer_side f, b;
    hr_tensor *out, *none;
    hr_status st;
    const char *reason = plan_left_out(c);
    if (reason)
        return out_left(o, reason);
    rec_open(r, true);
    cmp_init(&names);
    plan_streams(r, c);
    hr_range_enable(case_int(c, "nvtx", 1));
    make_side(r, c, "f", "evF", &f);
    make_side(r, c, "b", "evB", &b);
    if (b.plan)
        rec_need(hr_layer_plan_run(b.plan, NULL, b.x, NULL, false, &out, &none),
                 "forward");
    json_t *ret = run_pair(r, c, &f, &b, &st);
    verdict v = judge(r, &names, c, st, ret, o);
    hr_range_enable(true);
    hr_layer_plan_destroy(f.plan);
    hr_layer_plan_destroy(b.plan);
    cmp_fini(&names);
    rec_close(r);
    return v;
}
