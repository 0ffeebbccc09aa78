/* Whole tables: their figures, and what our generators make of the same parameters. */
#include "recorded.h"

#include <stdlib.h>
#include <string.h>

/* What was read is the table, has the recorded figures and passes the check. */
static verdict compare_table(json_t *c, hr_schedule *s, outcome *o)
{
    char hex[65];
    if (s == NULL)
        return out_differs(o, "the table is not read: %s", hr_last_error());
    order_hash(s, hex);
    if (strcmp(hex, text_of(c, "sha256")) != 0)
        return out_differs(o, "what was read does not have the hash of the table");
    if (hr_schedule_check(s, NULL, NULL) < 0)
        return out_differs(o, "the check refuses it: %s", hr_last_error());
    return compare_figures(c, s, o);
}

/* Of a large table only the hash is there: if ours has it, the figures have to be the same. */
static verdict compare_large(json_t *c, outcome *o)
{
    hr_schedule *s = NULL;
    char hex[65];
    verdict v = EQUAL;
    if (!generate_claimed(c, false, &s))
        return out_left(o, "recorded by its hash, which no generator of ours claims");
    if (s == NULL)
        return out_differs(o, "the generator refuses: %s", hr_last_error());
    order_hash(s, hex);
    if (strcmp(hex, text_of(c, "sha256")) == 0)
        v = compare_figures(c, s, o);
    hr_schedule_destroy(s);
    return v;
}

verdict run_table_case(json_t *c, context *x, outcome *o)
{
    json_t *ranks = json_object_get(c, "ranks");
    verdict v;
    targets_add(x->targets, c);
    if (json_is_null(ranks)) {
        v = compare_large(c, o);
    } else {
        hr_schedule *s = read_table(c, ranks);
        v = compare_table(c, s, o);
        hr_schedule_destroy(s);
    }
    x->claims.unclaimed += v == LEFT_OUT;
    return v == EQUAL ? compare_generated(c, x, o) : v;
}

/* A peer refused these parameters: we refuse too, or what we make is sound and within its limit. */
verdict run_rejected_case(json_t *c, context *x, outcome *o)
{
    hr_schedule *s = NULL;
    hr_check_opts limit = {HR_INIT(hr_check_opts),
                           .max_act = param(c, "max_mem_chunks")};
    if (!generate_claimed(c, true, &s)) {
        x->claims.unclaimed++;
        return out_left(o, "no generator of ours stands for it");
    }
    if (s == NULL)
        return strlen(hr_last_error()) > 0 ? EQUAL
                                           : out_differs(o, "refused without a word");
    verdict v = EQUAL;
    if (hr_schedule_check(s, &limit, NULL) < 0)
        v = out_differs(o, "accepted, but %s", hr_last_error());
    hr_schedule_destroy(s);
    return v;
}

/* A peer made a table that is not sound: the check has to say so, and ours has to be sound. */
verdict run_defective_case(json_t *c, context *x, outcome *o)
{
    json_t *ranks = json_object_get(c, "ranks");
    if (json_is_array(ranks)) {
        hr_schedule *s = read_table(c, ranks);
        if (s != NULL) {
            verdict v = EQUAL;
            if (hr_schedule_check(s, NULL, NULL) >= 0)
                v = out_differs(o, "the check finds nothing wrong");
            else if (!json_object_get(c, "defects"))
                v = compare_figures(c, s, o);
            hr_schedule_destroy(s);
            if (v != EQUAL)
                return v;
        }
    }
    verdict v = run_rejected_case(c, x, o);
    return v == LEFT_OUT && json_is_array(ranks) ? EQUAL : v;
}
