/* streams.json: choosing the communication stream and asking for both. */
#include "compare.h"

#include <string.h>

static rec the_rec; /* large, and one at a time */

enum { DEPTH = 16 };

typedef struct entered {
    hr_stream *s[DEPTH], *previous[DEPTH];
    int n;
} entered;

static void enter(entered *e, hr_stream *s)
{
    e->s[e->n] = s;
    hr_stream_enter(s, &e->previous[e->n++]);
}

static hr_status do_set(rec *r, json_t *opts)
{
    const char *name = json_string_value(json_object_get(opts, "stream"));
    return hr_set_streams(name ? rec_stream(r, name) : NULL, case_has(opts, "high"));
}

static hr_status do_step(rec *r, entered *e, json_t *step, json_t **ret)
{
    const char *what = json_string_value(json_array_get(step, 0));
    *ret = json_null();
    if (strcmp(what, "set") == 0)
        return do_set(r, json_array_get(step, 1));
    if (strcmp(what, "enter") == 0) {
        enter(e, rec_stream(r, json_string_value(json_array_get(step, 1))));
    } else if (strcmp(what, "enter_comm") == 0) {
        enter(e, hr_get_comm_stream());
    } else if (strcmp(what, "exit") == 0) {
        e->n--;
        hr_stream_exit(e->s[e->n], e->previous[e->n]);
    } else if (strcmp(what, "comp") == 0) {
        *ret = rec_stream_json(r, hr_get_comp_stream());
    } else {
        hr_stream *s = hr_get_comm_stream();
        if (s)
            *ret = json_pack("[o,i]", rec_stream_json(r, s), hr_stream_priority(s));
    }
    return HR_OK;
}

/* The recorded devices have priority ranges of their own; ours stands in their place. */
static json_t *as_here(json_t *v, int recorded, int least, int ours)
{
    if (json_is_integer(v) && json_integer_value(v) == recorded && recorded != 0)
        return json_integer(ours);
    if (!json_is_array(v))
        return json_incref(v);
    json_t *a = json_array(), *each;
    size_t i;
    json_array_foreach(v, i, each)
        json_array_append_new(a, as_here(each, recorded, least, ours));
    const char *kind = json_string_value(json_array_get(a, 0));
    if (kind && strcmp(kind, "priority_range") == 0)
        json_array_set_new(a, 1, json_integer(least));
    return a;
}

static verdict run_steps(rec *r, cmp *names, json_t *c, outcome *o)
{
    entered e = {.n = 0};
    json_t *steps = json_object_get(c, "steps"), *step, *ret;
    int least, greatest;
    int recorded =
        (int)json_integer_value(json_array_get(json_object_get(c, "prio"), 1));
    size_t i;
    hr_device_priority_range(r->dev, &least, &greatest);
    json_array_foreach(steps, i, step)
    {
        json_t *expect = json_array_get(json_object_get(c, "expect"), i);
        rec_start(r);
        hr_status st = do_step(r, &e, step, &ret);
        json_t *trace = rec_stop(r);
        if (st < 0)
            return out_differs(o, "step %zu failed: %s", i, hr_last_error());
        json_t *want =
            as_here(json_object_get(expect, "trace"), recorded, least, greatest);
        json_t *want_ret =
            as_here(json_object_get(expect, "ret"), recorded, least, greatest);
        json_array_append_new(names->keep, want);
        json_array_append_new(names->keep, want_ret);
        if (cmp_trace(names, want, trace, NULL, o, "trace") != EQUAL ||
            cmp_value(names, want_ret, ret, o, "result") != EQUAL)
            return DIFFERENT;
    }
    return EQUAL;
}

verdict run_streams_case(json_t *c, outcome *o)
{
    static cmp names;
    rec *r = &the_rec;
    json_t *prio = json_object_get(c, "prio");
    if (json_equal(json_array_get(prio, 0), json_array_get(prio, 1)))
        return out_left(o, "a device with a single priority");
    rec_open(r, false);
    cmp_init(&names);
    verdict v = run_steps(r, &names, c, o);
    cmp_fini(&names);
    rec_close(r);
    return v;
}
