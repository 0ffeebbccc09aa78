/* See compare.h. */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

void cmp_init(cmp *c)
{
    c->n = 0;
    c->keep = json_array();
}

void cmp_fini(cmp *c)
{
    json_decref(c->keep);
}

/* ---- names ------------------------------------------------------------------------------ */
/* "x.d#2.d" -> "x.d.d" */
static void without_numbers(const char *name, char *out, size_t cap)
{
    size_t n = 0;
    for (const char *p = name; *p && n + 1 < cap; p++) {
        if (*p == '#') {
            while (p[1] >= '0' && p[1] <= '9')
                p++;
            continue;
        }
        out[n++] = *p;
    }
    out[n] = '\0';
}

static bool same_name(cmp *c, const char *e, const char *a)
{
    char eb[128], ab[128];
    without_numbers(e, eb, sizeof eb);
    without_numbers(a, ab, sizeof ab);
    if (strcmp(eb, ab) != 0)
        return false;
    for (int i = 0; i < c->n; i++) {
        bool same_e = strcmp(c->expected[i], e) == 0;
        bool same_a = strcmp(c->actual[i], a) == 0;
        if (same_e || same_a)
            return same_e && same_a;
    }
    if (c->n < CMP_NAMES) {
        c->expected[c->n] = e;
        c->actual[c->n++] = a;
    }
    return true;
}

bool cmp_equal(cmp *c, json_t *e, json_t *a)
{
    if (json_is_string(e) && json_is_string(a))
        return same_name(c, json_string_value(e), json_string_value(a));
    if (!json_is_array(e) || !json_is_array(a))
        return json_equal(e, a);
    if (json_array_size(e) != json_array_size(a))
        return false;
    for (size_t i = 0; i < json_array_size(e); i++)
        if (!cmp_equal(c, json_array_get(e, i), json_array_get(a, i)))
            return false;
    return true;
}

/* ---- traces ------------------------------------------------------------------------------ */
static bool skipped(json_t *record, const char *const *skip)
{
    const char *kind = json_string_value(json_array_get(record, 0));
    for (; kind && skip && *skip; skip++)
        if (strcmp(kind, *skip) == 0)
            return true;
    return false;
}

static void text(json_t *v, char *buf, size_t cap)
{
    char *s = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    snprintf(buf, cap, "%s", s ? s : "nothing");
    free(s);
}

static verdict differs(outcome *o, const char *where, size_t at, json_t *e, json_t *a)
{
    char et[200], at_[200];
    text(e, et, sizeof et);
    text(a, at_, sizeof at_);
    return out_differs(o, "%s, record %zu: expected %s, got %s", where, at, et, at_);
}

verdict cmp_trace(cmp *c, json_t *expected, json_t *actual, const char *const *skip,
                  outcome *o, const char *where)
{
    size_t e = 0, a = 0, ne = json_array_size(expected), na = json_array_size(actual);
    json_array_append_new(c->keep, actual);
    for (;; e++, a++) {
        while (e < ne && skipped(json_array_get(expected, e), skip))
            e++;
        if (e == ne && a == na)
            return EQUAL;
        json_t *er = json_array_get(expected, e), *ar = json_array_get(actual, a);
        if (er == NULL || ar == NULL || !cmp_equal(c, er, ar))
            return differs(o, where, a, er, ar);
    }
}

json_t *single(json_t *v)
{
    return json_is_array(v) && json_array_size(v) == 1 ? json_array_get(v, 0) : v;
}

verdict cmp_value(cmp *c, json_t *expected, json_t *actual, outcome *o,
                  const char *where)
{
    char et[200], at[200];
    json_array_append_new(c->keep, actual);
    if (cmp_equal(c, single(expected), single(actual)))
        return EQUAL;
    text(expected, et, sizeof et);
    text(actual, at, sizeof at);
    return out_differs(o, "%s: expected %s, got %s", where, et, at);
}

int case_int(json_t *c, const char *key, int otherwise)
{
    json_t *v = json_object_get(c, key);
    if (json_is_integer(v))
        return (int)json_integer_value(v);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

bool case_has(json_t *c, const char *key)
{
    json_t *v = json_object_get(c, key);
    return v && !json_is_null(v) && !json_is_false(v) &&
           !(json_is_integer(v) && json_integer_value(v) == 0);
}
