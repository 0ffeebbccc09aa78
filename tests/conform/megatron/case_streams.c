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

/* The recorded devices have priority ranges of their own, single ones among them. Ours stands in their
 * place: a recorded priority is right if it is what the recorded range has for a stream of that
 * kind, and becomes what our range has for it. */
typedef struct ranges {
    int least, greatest, our_least, our_greatest;
    bool high; /* what the stream was asked to be */
} ranges;

static json_t *our_priority(const ranges *g, json_t *recorded)
{
    int of_kind = g->high ? g->greatest : g->least;
    if (json_integer_value(recorded) != of_kind)
        return json_incref(recorded); /* which will differ */
    return json_integer(g->high ? g->our_greatest : g->our_least);
}

static json_t *our_record(const ranges *g, json_t *record)
{
    json_t *a = json_copy(record);
    const char *kind = json_string_value(json_array_get(a, 0));
    if (strcmp(kind, "priority_range") == 0 &&
        json_integer_value(json_array_get(a, 1)) == g->least &&
        json_integer_value(json_array_get(a, 2)) == g->greatest) {
        json_array_set_new(a, 1, json_integer(g->our_least));
        json_array_set_new(a, 2, json_integer(g->our_greatest));
    }
    if (strcmp(kind, "new_stream") == 0)
        json_array_set_new(a, 2, our_priority(g, json_array_get(a, 2)));
    return a;
}

static json_t *our_trace(const ranges *g, json_t *trace)
{
    json_t *a = json_array(), *record;
    size_t i;
    json_array_foreach(trace, i, record)
        json_array_append_new(a, our_record(g, record));
    return a;
}

/* A stream with its priority; one that the case made itself has the least. */
static json_t *our_result(const ranges *g, json_t *ret)
{
    json_t *a = json_deep_copy(ret);
    if (json_is_array(a))
        json_array_set_new(a, 1, our_priority(g, json_array_get(a, 1)));
    return a;
}

/* The first choice makes the stream that is asked for later. */
static void learn_kind(json_t *step, bool *chosen, ranges *g)
{
    json_t *opts = json_array_get(step, 1);
    if (strcmp(json_string_value(json_array_get(step, 0)), "set") != 0 || *chosen)
        return;
    *chosen = true;
    g->high = case_has(opts, "high") && !case_has(opts, "stream");
}

static verdict run_steps(rec *r, cmp *names, json_t *c, outcome *o)
{
    entered e = {.n = 0};
    json_t *steps = json_object_get(c, "steps"), *step, *ret;
    json_t *prio = json_object_get(c, "prio");
    ranges g = {.least = (int)json_integer_value(json_array_get(prio, 0)),
                .greatest = (int)json_integer_value(json_array_get(prio, 1))};
    bool chosen = false;
    size_t i;
    hr_device_priority_range(r->dev, &g.our_least, &g.our_greatest);
    json_array_foreach(steps, i, step)
    {
        json_t *expect = json_array_get(json_object_get(c, "expect"), i);
        learn_kind(step, &chosen, &g);
        rec_start(r);
        hr_status st = do_step(r, &e, step, &ret);
        json_t *trace = rec_stop(r);
        if (st < 0)
            return out_differs(o, "step %zu failed: %s", i, hr_last_error());
        json_t *want = our_trace(&g, json_object_get(expect, "trace"));
        json_t *want_ret = our_result(&g, json_object_get(expect, "ret"));
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
    rec_open(r, false);
    cmp_init(&names);
    verdict v = run_steps(r, &names, c, o);
    cmp_fini(&names);
    rec_close(r);
    return v;
}
