/* chunk_plan.json: one chunk's forward beside another's backward, with hooks. */
#include "stub_layer.h"

#include <string.h>

typedef struct chunk_side {
    stub_chunk stub;
    hr_schedule_plan *plan; /* NULL: none */
} chunk_side;

static rec the_rec; /* large, and one at a time */
static chunk_side f_side, b_side;

static int vp_stage(json_t *c, const char *key)
{
    return case_int(c, key, HR_NO_STAGE);
}

static void make_side(rec *r, json_t *c, const char *name, const char *event,
                      chunk_side *side)
{
    json_t *kinds = json_object_get(c, name);
    char key[8], input[16];
    hr_tensor *x = NULL;
    memset(side, 0, sizeof *side);
    if (!json_is_array(kinds))
        return;
    snprintf(key, sizeof key, "%spre", name);
    bool pre = case_int(c, key, 1);
    snprintf(key, sizeof key, "%spost", name);
    stub_describe_chunk(&side->stub, r, name, kinds, c, case_has(c, key));
    snprintf(key, sizeof key, "%svp", name);
    side->stub.chunk.vp_stage = vp_stage(c, key);
    if (!pre) {
        snprintf(input, sizeof input, "%s.input", name);
        x = rec_tensor_make(r, input, true);
    }
    hr_build_plan_opts opts = {HR_INIT(hr_build_plan_opts),
                               .delay_wgrad = case_int(c, "dw", 1),
                               .early_attn_release = case_has(c, "early"),
                               .ncclep_zero_copy = case_has(c, "zc")};
    rec_need(
        hr_build_schedule_plan(&side->stub.chunk, &x, x ? 1 : 0, &opts, &side->plan),
        "plan");
    rec_event_is(r, side->plan->event, event);
}

/* ---- hooks ---------------------------------------------------------------------------------- */
static json_t *stage_json(int vp)
{
    return vp == HR_NO_STAGE ? json_null() : json_integer(vp);
}

static hr_status pre_hook(rec *r, const char *which, int vp)
{
    rec_add(r, "[s,s,o,s]", "hook", which, stage_json(vp), rec_current(r));
    return HR_OK;
}

static hr_status post_hook(rec *r, const char *which, int vp, hr_tensor *t)
{
    rec_add(r, "[s,s,o,s,o]", "hook", which, stage_json(vp), rec_current(r),
            rec_json(r, t));
    return HR_OK;
}

static hr_status pre_forward(void *ctx, int vp)
{
    return pre_hook(ctx, "pre_forward", vp);
}

static hr_status pre_backward(void *ctx, int vp)
{
    return pre_hook(ctx, "pre_backward", vp);
}

static hr_status post_forward(void *ctx, hr_tensor *t, int vp)
{
    return post_hook(ctx, "post_forward", vp, t);
}

static hr_status post_backward(void *ctx, hr_tensor *t, int vp)
{
    return post_hook(ctx, "post_backward", vp, t);
}

/* ---- the case ------------------------------------------------------------------------------- */
static json_t *left(const chunk_side *side)
{
    return side->plan ? json_integer(hr_chunk_plan_layers_left(side->plan))
                      : json_null();
}

/* We close a layer's range after a failure too; the original leaves it open. */
static void forget_last_pops(json_t *trace, size_t length)
{
    while (json_array_size(trace) > length) {
        json_t *last = json_array_get(trace, json_array_size(trace) - 1);
        if (strcmp(json_string_value(json_array_get(last, 0)), "pop") != 0)
            return;
        json_array_remove(trace, json_array_size(trace) - 1);
    }
}

static verdict judge(rec *r, cmp *names, json_t *c, hr_status st, json_t *ret,
                     outcome *o)
{
    const char *why = json_string_value(json_object_get(c, "why"));
    json_t *trace = rec_stop(r);
    verdict v;
    if ((why != NULL) != (st < 0) || (why && strcmp(why, hr_last_reason()) != 0)) {
        json_decref(trace);
        json_decref(ret);
        return out_differs(o, "expected %s, got %s", why ? why : "success",
                           st < 0 ? hr_last_error() : "success");
    }
    if (why)
        forget_last_pops(trace, json_array_size(json_object_get(c, "trace")));
    v = cmp_trace(names, json_object_get(c, "trace"), trace, plan_skip, o, "trace");
    if (v == EQUAL && why == NULL)
        v = cmp_value(names, json_object_get(c, "ret"), ret, o, "result");
    else
        json_decref(ret);
    if (v == EQUAL)
        v = cmp_value(names, json_object_get(c, "left"),
                      json_pack("[o,o]", left(&f_side), left(&b_side)), o,
                      "layers left");
    return v;
}

static json_t *run_pair(rec *r, json_t *c, hr_status *st)
{
    int mask = case_int(c, "hooks", 0);
    hr_plan_hooks hooks = {
        r, mask & 1 ? pre_forward : NULL, mask & 2 ? pre_backward : NULL,
        mask & 4 ? post_forward : NULL, mask & 8 ? post_backward : NULL};
    hr_tensor *out, *g = NULL;
    if (b_side.plan && !case_has(c, "no_grad"))
        g = rec_tensor_make(r, "b.g", false);
    rec_start(r);
    *st = hr_schedule_plan_run(f_side.plan, b_side.plan, g, &hooks, &out);
    json_t *ret = rec_json(r, out);
    hr_tensor_release(out);
    return ret;
}

verdict run_chunk_case(json_t *c, outcome *o)
{
    static cmp names;
    rec *r = &the_rec;
    hr_tensor *out;
    hr_status st;
    const char *reason = plan_left_out(c);
    if (reason)
        return out_left(o, reason);
    rec_open(r, true);
    cmp_init(&names);
    plan_streams(r, c);
    hr_range_enable(case_int(c, "nvtx", 1));
    make_side(r, c, "f", "evF", &f_side);
    make_side(r, c, "b", "evB", &b_side);
    if (b_side.plan) {
        rec_need(hr_schedule_plan_run(b_side.plan, NULL, NULL, NULL, &out), "forward");
        hr_tensor_release(out);
    }
    json_t *ret = run_pair(r, c, &st);
    verdict v = judge(r, &names, c, st, ret, o);
    hr_range_enable(true);
    hr_schedule_plan_destroy(f_side.plan);
    hr_schedule_plan_destroy(b_side.plan);
    cmp_fini(&names);
    rec_close(r);
    return v;
}
