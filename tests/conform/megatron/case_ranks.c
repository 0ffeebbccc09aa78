/* rank_helpers.json: where a rank stands in the pipeline, in a job of threads as large as the
 * largest rank of the case. */
#include "compare.h"

#include <stdatomic.h>
#include <string.h>

enum { RANKS = 64 }; /* of a group; the world may be larger */

typedef struct row {
    int first, last, first_rank, last_rank, next, prev;
} row;

typedef struct job {
    int ranks[RANKS], n;
    row got[RANKS]; /* by rank in the group; each written by its own thread */
} job;

static row row_of(const hr_group *g)
{
    return (row){hr_is_pp_first_stage(g), hr_is_pp_last_stage(g),
                 hr_get_pp_first_rank(g), hr_get_pp_last_rank(g),
                 hr_get_pp_next_rank(g),  hr_get_pp_prev_rank(g)};
}

static hr_status each_rank(hr_group *world, void *arg)
{
    job *j = arg;
    hr_group *g;
    hr_status st = hr_group_create(world, j->ranks, j->n, &g);
    if (st < 0 || g == NULL)
        return st;
    j->got[hr_group_rank(g)] = row_of(g);
    hr_group_release(g);
    return HR_OK;
}

static int rank_or_none(json_t *v)
{
    return json_is_integer(v) ? (int)json_integer_value(v) : HR_NO_RANK;
}

/* A row: global rank, rank in group, is first, is last, first, last, next, prev, and two of the
 * communicator's, which is not built here. */
static bool row_is(json_t *want, const row *got, bool initialized)
{
    bool same = json_integer_value(json_array_get(want, 2)) == got->first &&
                json_integer_value(json_array_get(want, 3)) == got->last &&
                rank_or_none(json_array_get(want, 6)) == got->next &&
                rank_or_none(json_array_get(want, 7)) == got->prev;
    /* without set-up there is no group to ask for its ranks */
    return same &&
           (!initialized || (rank_or_none(json_array_get(want, 4)) == got->first_rank &&
                             rank_or_none(json_array_get(want, 5)) == got->last_rank));
}

static verdict pp_ranks(json_t *c, outcome *o)
{
    static job j;
    json_t *group = json_object_get(c, "group"), *v;
    bool initialized = case_int(c, "initialized", 1);
    int world = 1;
    size_t i;
    memset(&j, 0, sizeof j);
    if (json_array_size(group) > RANKS)
        return out_differs(o, "a group of more than %d ranks", RANKS);
    json_array_foreach(group, i, v)
    {
        j.ranks[j.n++] = (int)json_integer_value(v);
        if (j.ranks[i] >= world)
            world = j.ranks[i] + 1;
    }
    if (initialized)
        rec_need(hr_local_run(world, NULL, each_rank, &j), "job");
    else
        for (int k = 0; k < j.n; k++)
            j.got[k] = row_of(NULL);
    json_array_foreach(json_object_get(c, "rows"), i, v)
    {
        if (!row_is(v, &j.got[i], initialized))
            return out_differs(o, "rank %d of the group", (int)i);
    }
    return EQUAL;
}

static verdict no_group(json_t *c, outcome *o)
{
    row r = row_of(NULL);
    if (r.first != case_int(c, "first", 1) || r.last != case_int(c, "last", 1) ||
        r.next != HR_NO_RANK || r.prev != HR_NO_RANK)
        return out_differs(o, "without group: first %d, last %d, next %d, prev %d",
                           r.first, r.last, r.next, r.prev);
    return EQUAL;
}

/* -1 for a refusal. */
static int answer(hr_status (*ask)(int, int, bool *), int stage, int size)
{
    bool yes;
    return ask(stage, size, &yes) < 0 ? -1 : yes;
}

static int wanted(json_t *v)
{
    return json_is_integer(v) ? (int)json_integer_value(v) : -1;
}

static verdict vp_stages(json_t *c, outcome *o)
{
    int size = case_int(c, "vp_size", 0);
    json_t *each;
    size_t i;
    json_array_foreach(json_object_get(c, "rows"), i, each)
    {
        json_t *stage = json_array_get(each, 0);
        int s = json_is_integer(stage) ? (int)json_integer_value(stage) : HR_NO_STAGE;
        if (json_is_integer(stage) && s == HR_NO_STAGE)
            continue; /* -1 is how no stage is written here */
        if (answer(hr_is_vp_first_stage, s, size) != wanted(json_array_get(each, 1)) ||
            answer(hr_is_vp_last_stage, s, size) != wanted(json_array_get(each, 2)))
            return out_differs(o, "stage %d of %d", s, size);
    }
    return EQUAL;
}

verdict run_ranks_case(json_t *c, outcome *o)
{
    if (json_object_get(c, "vp_size"))
        return vp_stages(c, o);
    if (json_is_array(json_object_get(c, "group")))
        return pp_ranks(c, o);
    return no_group(c, o);
}
