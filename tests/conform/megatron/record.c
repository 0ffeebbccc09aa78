/* See record.h. */
#include "record.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void rec_need(hr_status st, const char *what)
{
    if (st >= 0)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, hr_last_error(), hr_status_name(st));
    exit(2);
}

/* ---- names ------------------------------------------------------------------------------ */
static bool taken(const rec *r, const char *name)
{
    for (int i = 0; i < r->n_tensors; i++)
        if (strcmp(r->tensor[i].name, name) == 0)
            return true;
    return false;
}

static void own_storage(rec *r, hr_tensor *t, const char *name)
{
    const void *st = hr_tensor_storage(t);
    for (int i = 0; i < r->n_owners; i++)
        if (r->owner[i].p == st)
            return;
    rec_owner *o = &r->owner[r->n_owners++];
    o->p = st;
    memcpy(o->name, name, REC_NAME);
}

const char *rec_name(rec *r, hr_tensor *t, const char *name)
{
    if (r->n_tensors == REC_NAMES)
        rec_need(hr_fail(HR_ERR_STATE, "full", "more than %d names", REC_NAMES), name);
    rec_tensor *e = &r->tensor[r->n_tensors];
    char full[REC_NAME];
    snprintf(full, sizeof full, "%s", name);
    for (int k = 2; taken(r, full); k++)
        snprintf(full, sizeof full, "%s#%d", name, k);
    memcpy(e->name, full, sizeof full);
    e->t = hr_tensor_retain(t);
    own_storage(r, t, e->name);
    r->n_tensors++;
    return e->name;
}

static const char *owner_of(const rec *r, hr_tensor *t)
{
    for (int i = 0; i < r->n_owners; i++)
        if (r->owner[i].p == hr_tensor_storage(t))
            return r->owner[i].name;
    return "?";
}

static const char *name_of(const rec *r, const void *t)
{
    for (int i = r->n_tensors - 1; i >= 0; i--)
        if (r->tensor[i].t == t)
            return r->tensor[i].name;
    return NULL;
}

json_t *rec_json(rec *r, hr_tensor *t)
{
    if (t == NULL)
        return json_null();
    const char *name = name_of(r, t);
    if (name)
        return json_string(name);
    for (int i = r->n_tensors - 1; i >= 0; i--)
        if (hr_tensor_grad(r->tensor[i].t) == t) {
            char grad[80];
            snprintf(grad, sizeof grad, "d(%s)", r->tensor[i].name);
            return json_string(rec_name(r, t, grad));
        }
    return json_string("?");
}

hr_tensor *rec_find(rec *r, const char *name)
{
    for (int i = r->n_tensors - 1; i >= 0; i--)
        if (strcmp(r->tensor[i].name, name) == 0)
            return r->tensor[i].t;
    return NULL;
}

static const char *thing_name(const rec_thing *list, int n, const void *p)
{
    for (int i = n - 1; i >= 0; i--) /* the latest: addresses come back */
        if (list[i].p == p)
            return list[i].name;
    return "?";
}

static void *thing_find(const rec_thing *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0)
            return (void *)(uintptr_t)list[i].p;
    return NULL;
}

static void thing_add(rec_thing *list, int *n, const void *p, const char *name)
{
    if (*n == REC_THINGS)
        rec_need(hr_fail(HR_ERR_STATE, "full", "too many things"), name);
    list[*n].p = p;
    snprintf(list[(*n)++].name, sizeof list[0].name, "%s", name);
}

/* ---- the probe --------------------------------------------------------------------------- */
static json_t *tensor_list(rec *r, const void *const *list, long n)
{
    json_t *a = json_array();
    for (long i = 0; i < n; i++)
        json_array_append_new(a, rec_json(r, (hr_tensor *)(uintptr_t)list[i]));
    return a;
}

static void name_made(rec *r, const hr_probe_record *p, const char *suffix)
{
    char name[80];
    const char *from = name_of(r, p->a);
    snprintf(name, sizeof name, "%s.%s", from ? from : "?", suffix);
    rec_name(r, (hr_tensor *)(uintptr_t)p->b, name);
}

static hr_tensor *probed(const void *p)
{
    return (hr_tensor *)(uintptr_t)p;
}

/* What the files of single nodes show and those of plans do not. */
static bool is_node_record(hr_probe_kind kind)
{
    return kind == HR_PROBE_ENTER || kind == HR_PROBE_EXIT ||
           kind == HR_PROBE_VIEWLESS || kind == HR_PROBE_DETACH ||
           kind == HR_PROBE_REQUIRES_GRAD || kind == HR_PROBE_RUN_BACKWARD ||
           kind == HR_PROBE_SYMMETRIC;
}

static void node_record(rec *r, const hr_probe_record *p)
{
    switch (p->kind) {
    case HR_PROBE_ENTER:
        rec_add(r, "[s,o]", "enter", rec_stream_json(r, p->a));
        break;
    case HR_PROBE_EXIT:
        rec_add(r, "[s,o]", "exit", rec_stream_json(r, p->a));
        break;
    case HR_PROBE_VIEWLESS:
    case HR_PROBE_DETACH:
        rec_add(r, "[s,o,o]", p->kind == HR_PROBE_DETACH ? "detach" : "viewless",
                rec_json(r, probed(p->a)), rec_json(r, probed(p->b)));
        break;
    case HR_PROBE_REQUIRES_GRAD:
        rec_add(r, "[s,o,i]", "rg", rec_json(r, probed(p->a)), (int)p->value);
        break;
    case HR_PROBE_RUN_BACKWARD:
        rec_add(r, "[s,o,o]", "run_backward", tensor_list(r, p->list, p->value),
                tensor_list(r, p->list + p->value, p->value));
        break;
    case HR_PROBE_SYMMETRIC:
        rec_add(r, "[s,o,i]", "symm?", rec_json(r, probed(p->a)), (int)p->value);
        break;
    default:
        break;
    }
}

static void any_record(rec *r, const hr_probe_record *p)
{
    switch (p->kind) {
    case HR_PROBE_WAIT:
    case HR_PROBE_RECORD:
        rec_add(r, "[s,s,o]", p->kind == HR_PROBE_WAIT ? "wait" : "record",
                thing_name(r->event, r->n_events, p->a), rec_stream_json(r, p->b));
        break;
    case HR_PROBE_PUSH:
        rec_add(r, "[s,s]", "push", p->text);
        break;
    case HR_PROBE_POP:
        rec_add(r, "[s]", "pop");
        break;
    case HR_PROBE_RECORD_STREAM:
        rec_add(r, "[s,o,o]", "record_stream", rec_json(r, probed(p->a)),
                rec_stream_json(r, p->b));
        break;
    case HR_PROBE_FREE:
        rec_add(r, "[s,s]", "free", owner_of(r, probed(p->a)));
        break;
    case HR_PROBE_COPY:
        rec_add(r, "[s,o,o]", "copy", rec_json(r, probed(p->a)),
                rec_json(r, probed(p->b)));
        break;
    case HR_PROBE_NEW_STREAM:
        rec_add(r, "[s,o,i]", "new_stream", rec_stream_json(r, p->a), (int)p->value);
        break;
    case HR_PROBE_PRIORITY_RANGE:
        rec_add(r, "[s,i,i]", "priority_range", (int)p->value, (int)p->extra);
        break;
    default:
        break;
    }
}

/* Names are given whether a trace is taken or not. */
static void probe(void *ctx, const hr_probe_record *p)
{
    rec *r = ctx;
    if (p->kind == HR_PROBE_DETACH)
        name_made(r, p, "d");
    if (p->kind == HR_PROBE_VIEWLESS)
        name_made(r, p, "v");
    if (p->kind == HR_PROBE_NEW_STREAM && r->trace) {
        char name[16];
        snprintf(name, sizeof name, "s%d", ++r->new_streams);
        thing_add(r->stream, &r->n_streams, p->a, name);
    }
    if (r->trace == NULL || (r->plan && is_node_record(p->kind)))
        return;
    if (is_node_record(p->kind))
        node_record(r, p);
    else
        any_record(r, p);
}

/* ---- the rest ------------------------------------------------------------------------------ */
void rec_open(rec *r, bool plan)
{
    memset(r, 0, sizeof *r);
    r->plan = plan;
    const char *backend = getenv("HEADRACE_DEVICE");
    rec_need(hr_device_open(backend ? backend : "host", NULL, &r->dev), "device");
    hr_device_set_current(r->dev);
    thing_add(r->stream, &r->n_streams, hr_device_default_stream(r->dev), "comp");
    hr_probe_set(probe, r);
}

void rec_close(rec *r)
{
    hr_probe_set(NULL, NULL);
    rec_need(hr_device_synchronize(r->dev), "device");
    for (int i = 0; i < r->n_tensors;
         i++) /* cycles: an input may hold itself as gradient */
        (void)!hr_tensor_set_grad(r->tensor[i].t, NULL);
    for (int i = 0; i < r->n_tensors; i++)
        hr_tensor_release(r->tensor[i].t);
    json_decref(r->trace);
    hr_device_close(r->dev);
}

void rec_start(rec *r)
{
    json_decref(r->trace);
    r->trace = json_array();
}

json_t *rec_stop(rec *r)
{
    json_t *t = r->trace;
    r->trace = NULL;
    return t;
}

void rec_add(rec *r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    json_t *record =
        json_vpack_ex(NULL, 0, fmt, args); /* also to give up its arguments */
    va_end(args);
    if (r->trace)
        json_array_append_new(r->trace, record);
    else
        json_decref(record);
}

hr_stream *rec_stream(rec *r, const char *name)
{
    hr_stream *s = thing_find(r->stream, r->n_streams, name);
    if (s)
        return s;
    json_t *trace = rec_stop(r); /* made by the test, not by the library */
    rec_need(hr_stream_create(
                 r->dev, &(hr_stream_opts){HR_INIT(hr_stream_opts), .name = name}, &s),
             name);
    r->trace = trace;
    thing_add(r->stream, &r->n_streams, s, name);
    return s;
}

hr_event *rec_event(rec *r, const char *name)
{
    hr_event *e = thing_find(r->event, r->n_events, name);
    if (e)
        return e;
    rec_need(hr_event_create(r->dev, &e), name);
    thing_add(r->event, &r->n_events, e, name);
    return e;
}

void rec_event_is(rec *r, hr_event *e, const char *name)
{
    thing_add(r->event, &r->n_events, e, name);
}

json_t *rec_stream_json(rec *r, const hr_stream *s)
{
    return s ? json_string(thing_name(r->stream, r->n_streams, s)) : json_null();
}

const char *rec_current(rec *r)
{
    return thing_name(r->stream, r->n_streams, hr_stream_current());
}

void rec_settle(rec *r)
{
    rec_need(hr_device_synchronize(r->dev), "device");
}

hr_tensor *rec_tensor_make(rec *r, const char *name, bool requires_grad)
{
    hr_tensor *t;
    rec_need(hr_tensor_zeros(HR_F32, 2, (int64_t[]){2, 3}, &t), name);
    json_t *trace = rec_stop(r);
    rec_need(hr_tensor_set_requires_grad(t, requires_grad), name);
    r->trace = trace;
    rec_name(r, t, name);
    hr_tensor_release(t); /* the name keeps it */
    rec_settle(r);
    return t;
}
