/* Megatron's counts and tables of microbatches, the order of chunks that follows from them, and which
 * schedule it takes. */
#include "recorded.h"

#include <string.h>

static int of(json_t *c, const char *key)
{
    return (int)json_integer_value(json_object_get(c, key));
}

static int at(json_t *list, size_t i)
{
    return (int)json_integer_value(json_array_get(list, i));
}

verdict run_counts_case(json_t *c, context *x, outcome *o)
{
    size_t k;
    json_t *row;
    json_array_foreach(json_object_get(c, "rows"), k, row)
    {
        hr_rank_microbatches n;
        hr_generate_opts sizes = {
            HR_INIT(hr_generate_opts), .ranks = of(c, "pp"),
            .chunks = of(c, "chunks"), .microbatches = of(c, "mb"),
            .group = of(c, "group"),   .expert_overlap = at(row, 2) != 0};
        hr_get_pp_rank_microbatches(&sizes, at(row, 0),
                                    !json_is_null(json_object_get(c, "vp")),
                                    at(row, 1) != 0, &n);
        if (n.total != at(row, 3) || n.all_warmup != (at(row, 4) != 0) ||
            n.warmup != at(row, 5) || n.remaining != at(row, 6))
            return out_differs(o, "row %zu: %d %d %d %d, recorded %d %d %d %d", k,
                               n.total, n.all_warmup, n.warmup, n.remaining, at(row, 3),
                               at(row, 4), at(row, 5), at(row, 6));
    }
    return EQUAL;
}

static verdict run_table(json_t *c, outcome *o)
{
    json_t *table = json_object_get(c, "table");
    int mb = of(c, "mb");
    int chunks = of(c, "chunks");
    int group = of(c, "group");
    int microbatch;
    int chunk;
    /* No entries for some microbatches is Python's answer to a group below 0; we refuse. */
    if (json_object_get(c, "err") || (mb > 0 && json_array_size(table) == 0))
        return hr_get_schedule_table(mb, chunks, group, 0, &microbatch, &chunk) < 0
                   ? EQUAL
                   : out_differs(o, "taken, recorded an error");
    if (json_array_size(table) != 2 * (size_t)mb * (size_t)chunks)
        return out_differs(o, "%zu entries", json_array_size(table));
    for (int k = 0; k < mb * chunks; k++) {
        if (hr_get_schedule_table(mb, chunks, group, k, &microbatch, &chunk) < 0)
            return out_differs(o, "%s", hr_last_error());
        if (microbatch != at(table, 2 * (size_t)k) ||
            chunk != at(table, 2 * (size_t)k + 1))
            return out_differs(o, "entry %d: microbatch %d chunk %d", k, microbatch,
                               chunk);
    }
    return EQUAL;
}

/* A rank's order by chunks: c + 1 forward, -c - 1 backward. */
static bool same_order(const hr_schedule *s, int rank, int ranks, json_t *order)
{
    size_t n;
    const hr_action *a = hr_schedule_order(s, rank, &n);
    if (n != json_array_size(order))
        return false;
    for (size_t i = 0; i < n; i++) {
        int chunk = a[i].stage / ranks + 1;
        if (at(order, i) != (a[i].kind == HR_ACTION_F ? chunk : -chunk))
            return false;
    }
    return true;
}

static verdict run_order(json_t *c, outcome *o)
{
    size_t k;
    json_t *row;
    hr_schedule *s = NULL;
    hr_generate_opts sizes = {
        HR_INIT(hr_generate_opts), .ranks = of(c, "pp"),
        .chunks = of(c, "vp"),     .microbatches = of(c, "mb"),
        .group = of(c, "group"),   .expert_overlap = of(c, "ep") != 0};
    if (hr_schedule_generate("interleaved", &sizes, &s) < 0)
        return out_differs(o, "%s", hr_last_error());
    verdict v = EQUAL;
    json_array_foreach(json_object_get(c, "rows"), k, row)
    {
        if (v == EQUAL &&
            !same_order(s, at(row, 0), sizes.ranks, json_array_get(row, 2)))
            v = out_differs(o, "the order of rank %d is another", at(row, 0));
    }
    hr_schedule_destroy(s);
    return v;
}

/* Megatron's global sizes count where a case gives none; virtual stages without ranks are an error. */
static verdict run_choice(json_t *c, outcome *o)
{
    bool global = json_is_null(json_object_get(c, "pp")) &&
                  json_is_null(json_object_get(c, "vp"));
    json_t *ranks = json_object_get(c, global ? "global_pp" : "pp");
    int p = json_is_null(ranks) ? -1 : (int)json_integer_value(ranks);
    const char *name;
    hr_status st =
        hr_get_forward_backward_func(p, of(c, global ? "global_vp" : "vp"), &name);
    if (json_object_get(c, "err"))
        return st < 0 ? EQUAL : out_differs(o, "taken, recorded an error");
    static const struct {
        const char *recorded, *ours;
    } choices[] = {{"none", NULL}, {"plain", "1f1b"}, {"interleaved", "interleaved"}};
    for (size_t k = 0; k < 3 && st >= 0; k++) {
        const char *ours = choices[k].ours;
        bool same = ours && name ? strcmp(ours, name) == 0 : ours == name;
        if (strcmp(text_of(c, "schedule"), choices[k].recorded) == 0)
            return same ? EQUAL : out_differs(o, "%s is chosen", name ? name : "none");
    }
    return out_differs(o, "%s",
                       st < 0 ? hr_last_error() : "a choice that is none of ours");
}

verdict run_chunks_case(json_t *c, context *x, outcome *o)
{
    if (json_object_get(c, "table") || json_object_get(c, "chunks"))
        return run_table(c, o);
    if (json_object_get(c, "rows"))
        return run_order(c, o);
    return run_choice(c, o);
}
