/* no_pipelining.json: a training step of several microbatches on one stage. The plan of a microbatch
 * is one opaque operation, or a real chunk plan of stub layers. */
#include "stub_layer.h"

#include <string.h>

enum { MICROBATCHES = 16 };

typedef struct step_plan {
    hr_schedule_plan base;
    int m;
    hr_schedule_plan *inner; /* NULL: opaque */
} step_plan;

typedef struct step_case {
    rec r;
    json_t *c;
    bool overlap, first_done;
    json_t *store;
    step_plan plan[MICROBATCHES + 1]; /* from number -1 on, as the next */
    stub_chunk chunk[MICROBATCHES + 1];
} step_case;

static step_case the_case; /* large, and one at a time */

/* ---- plans -------------------------------------------------------------------------------- */
static json_t *mb(const hr_schedule_plan *p)
{
    return p ? json_integer(((const step_plan *)p)->m) : json_null();
}

static hr_schedule_plan *inner(hr_schedule_plan *p)
{
    return p ? ((step_plan *)p)->inner : NULL;
}

static void write_run(step_case *s, hr_schedule_plan *f, hr_schedule_plan *b,
                      hr_tensor *g)
{
    if (s->overlap)
        rec_add(&s->r, "[s,o,o,o]", "run", mb(f), mb(b), rec_json(&s->r, g));
    else
        rec_add(&s->r, "[s,o]", f ? "F" : "B", mb(f ? f : b));
}

static hr_status plan_run(hr_schedule_plan *f, hr_schedule_plan *b, hr_tensor *g,
                          const hr_plan_hooks *hooks, hr_tensor **output)
{
    step_case *s = &the_case;
    char name[16];
    write_run(s, f, b, g);
    if (inner(f ? f : b))
        return hr_schedule_plan_run(inner(f), inner(b), g, NULL, output);
    if (f == NULL)
        return HR_OK;
    snprintf(name, sizeof name, "y%d", ((step_plan *)f)->m);
    *output = hr_tensor_retain(rec_tensor_make(&s->r, name, true));
    return HR_OK;
}

static void plan_destroy(hr_schedule_plan *p)
{
    hr_schedule_plan_destroy(inner(p));
}

static const hr_schedule_plan_ops plan_ops = {"recorded step", plan_run, plan_destroy};

static hr_status build_inner(step_case *s, step_plan *p)
{
    char name[16];
    snprintf(name, sizeof name, "m%d", p->m);
    stub_describe_chunk(&s->chunk[p->m + 1], &s->r, name,
                        json_object_get(s->c, "layers"), s->c,
                        case_int(s->c, "post", 1));
    hr_build_plan_opts opts = {HR_INIT(hr_build_plan_opts), .microbatch = p->m,
                               .delay_wgrad = case_int(s->c, "dw", 1),
                               .early_attn_release = case_has(s->c, "early")};
    return hr_build_schedule_plan(&s->chunk[p->m + 1].chunk, NULL, 0, &opts, &p->inner);
}

/* What the original asks the user's model for, one by one, is the business of this one function. */
static void write_forward_step(step_case *s, int m, bool overlap)
{
    json_t *first = json_object_get(s->c, "first_val");
    bool told_not_first = case_has(s->c, "fo") && json_is_false(first);
    if (!s->first_done && !told_not_first && m >= 0)
        rec_add(&s->r, "[s]", "first_mb");
    s->first_done = true;
    rec_add(&s->r, "[s,i]", "set_mb", m);
    rec_add(&s->r, "[s,[n]]", "set_input");
    rec_add(&s->r, "[s,i,i]", "step", m, (int)overlap);
}

static hr_status make_plan(void *ctx, int m, bool overlap, hr_schedule_plan **plan)
{
    step_case *s = ctx;
    step_plan *p = &s->plan[m + 1];
    char event[16];
    write_forward_step(s, m, overlap);
    *p = (step_plan){.base = {.ops = &plan_ops}, .m = m};
    snprintf(event, sizeof event, "ev%d", m);
    if (json_array_size(json_object_get(s->c, "layers")) > 0) {
        hr_status st = build_inner(s, p);
        if (st < 0)
            return st;
        p->base.event = p->inner->event;
        rec_event_is(&s->r, p->base.event, event);
    } else {
        p->base.event = rec_event(&s->r, event);
    }
    *plan = &p->base;
    return HR_OK;
}

/* ---- the loss ------------------------------------------------------------------------------- */
typedef struct loss_ctx {
    step_case *s;
    int m;
} loss_ctx;

static hr_status loss_backward(hr_function *fn, hr_tensor *const *grad_out,
                               hr_tensor **grad_in)
{
    loss_ctx *c = hr_function_ctx(fn);
    char name[16];
    snprintf(name, sizeof name, "loss%d", c->m);
    rec_add(&c->s->r, "[s,s,s]", "loss_bwd", name, rec_current(&c->s->r));
    return hr_tensor_zeros(HR_F32, 2, (int64_t[]){2, 3}, &grad_in[0]);
}

static const hr_function_class loss_class = {
    .name = "loss", .ctx_bytes = sizeof(loss_ctx), .backward = loss_backward};

static hr_status loss(void *ctx, int m, hr_tensor *output, hr_loss *out)
{
    step_case *s = ctx;
    char name[16];
    hr_function *fn;
    rec_add(&s->r, "[s,s,i,o,s]", "loss", "fwd", m, rec_json(&s->r, output),
            rec_current(&s->r));
    rec_need(hr_function_create(&loss_class, &output, 1, &fn), "loss");
    rec_need(hr_tensor_zeros(HR_F32, 0, NULL, &out->loss), "loss");
    snprintf(name, sizeof name, "loss%d", m);
    rec_name(&s->r, out->loss, name);
    if (fn)
        *(loss_ctx *)hr_function_ctx(fn) = (loss_ctx){s, m};
    out->tokens = case_int(s->c, "loss", 3) == 3 ? 10 + m : -1;
    json_array_append_new(s->store, json_integer(m));
    return hr_function_finish(fn, &out->loss, 1);
}

static hr_status divide(void *ctx, int m, hr_tensor *t, int64_t divisor)
{
    step_case *s = ctx;
    rec_add(&s->r, "[s,o,i]", "idiv", rec_json(&s->r, t), (int)divisor);
    return HR_OK;
}

static hr_status no_sync(void *ctx, bool on)
{
    step_case *s = ctx;
    rec_add(&s->r, "[s,i]", "no_sync", (int)on);
    return HR_OK;
}

static hr_status final(void *ctx, int64_t tokens)
{
    step_case *s = ctx;
    rec_add(&s->r, "[s,o]", "final", tokens < 0 ? json_null() : json_integer(tokens));
    return HR_OK;
}

/* ---- the case ------------------------------------------------------------------------------- */
static const char *left_out(json_t *c)
{
    if (case_has(c, "scale"))
        return "gradient scaler";
    if (case_has(c, "autocast"))
        return "autocast";
    if (case_has(c, "fsdp"))
        return "FSDP: no sharded parameters and their hooks";
    return plan_left_out(c);
}

/* The priority range is the device's own; the greatest one recorded stands for ours. Serial, the
 * loss gets a copy cut from the plan's graph, where the original hands on the output. */
static json_t *as_here(step_case *s)
{
    json_t *trace = json_deep_copy(json_object_get(s->c, "trace")), *rec_;
    int least, greatest, recorded = 0;
    size_t i;
    hr_device_priority_range(s->r.dev, &least, &greatest);
    json_array_foreach(trace, i, rec_)
    {
        const char *kind = json_string_value(json_array_get(rec_, 0));
        if (strcmp(kind, "priority_range") == 0) {
            recorded = (int)json_integer_value(json_array_get(rec_, 2));
            json_array_set_new(rec_, 1, json_integer(least));
            json_array_set_new(rec_, 2, json_integer(greatest));
        }
        if (strcmp(kind, "new_stream") == 0 && recorded &&
            json_integer_value(json_array_get(rec_, 2)) == recorded)
            json_array_set_new(rec_, 2, json_integer(greatest));
        if (strcmp(kind, "loss") == 0 && !s->overlap && !case_has(s->c, "fo")) {
            char cut[REC_NAME];
            snprintf(cut, sizeof cut, "%s.d",
                     json_string_value(json_array_get(rec_, 3)));
            json_array_set_new(rec_, 3, json_string(cut));
        }
    }
    return trace;
}

static verdict judge(step_case *s, cmp *names, hr_status st, outcome *o)
{
    static const char *const skip[] = {"accum", "imul",
                                       NULL}; /* imul: by the context size 1 */
    json_t *trace = rec_stop(&s->r);
    if (st < 0) {
        json_decref(trace);
        return out_differs(o, "failed: %s", hr_last_error());
    }
    json_t *expected = as_here(s);
    json_array_append_new(names->keep, expected);
    verdict v = cmp_trace(names, expected, trace, skip, o, "trace");
    if (v != EQUAL)
        return v;
    return cmp_value(names, json_object_get(s->c, "store"), json_incref(s->store), o,
                     "losses kept");
}

static hr_no_pipelining_opts options(step_case *s)
{
    json_t *c = s->c;
    return (hr_no_pipelining_opts){
        HR_INIT(hr_no_pipelining_opts),
        .microbatches = case_int(c, "mb", 0),
        .overlap = case_int(c, "overlap", 1),
        .forward_only = case_has(c, "fo"),
        .high_priority = case_has(c, "high"),
        .loss_mode =
            case_has(c, "per_token") ? HR_LOSS_MEAN_TOKEN : HR_LOSS_MEAN_MICROBATCH,
        .ctx = s,
        .plan = make_plan,
        .loss = loss,
        .divide = divide,
        .no_sync = case_has(c, "sync") ? no_sync : NULL,
        .final = case_has(c, "final") ? final : NULL,
    };
}

verdict run_step_case(json_t *c, outcome *o)
{
    static cmp names;
    step_case *s = &the_case;
    const char *reason = left_out(c);
    if (reason)
        return out_left(o, reason);
    rec_open(&s->r, true);
    cmp_init(&names);
    s->c = c;
    s->overlap = case_int(c, "overlap", 1) && !case_has(c, "fo");
    s->first_done = false;
    s->store = json_array();
    hr_no_pipelining_opts opts = options(s);
    rec_start(&s->r);
    verdict v = judge(s, &names, hr_forward_backward_no_pipelining(&opts), o);
    json_decref(s->store);
    cmp_fini(&names);
    rec_close(&s->r);
    return v;
}
