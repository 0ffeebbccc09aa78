/* pipeline_1f1b.json, pipeline_interleaved.json: whole steps, run by the executor under our schedule of
 * these sizes. Compared by rank: the order of F, B, W and combined runs; and, for each kind of transfer
 * (which goes along one channel), its payloads in order; then whose losses were kept. What is in a
 * record and not compared:
 * - Where between two computations a transfer is posted, and which share a call: here each is posted by
 *   itself on its channel's stream, a send as soon as its payload is issued, a receive as early as
 *   lowering has it. A null payload is a neighbour that is not there.
 * - A send that is waited for (`reqwait`): here the memory is what waits, and no call. So `dealloc` has
 *   nothing to do: what is sent has no other claim.
 * - no_sync, grad_sync, param_sync, final: the reduction is the caller's, in hr_exec_stage.reduce, right
 *   behind the last backward of a stage and not put off until other ranks have theirs.
 * - phase, first_mb: words on where the loop is, which hr_exec_at has by stage and microbatch; the flag of
 *   `ckpt`: recompute is a stage's own business here. */
#include "case_pipeline_step.h"
#include "compare.h"

#include <string.h>

/* ---- what was recorded --------------------------------------------------------------------------- */
/* What stands at each place behind the kind of a record. */
typedef enum part { END, SKIP, COMPUTE, SENT_F, SENT_B, GOT_F, GOT_B, WAITED } part;

static const struct kind {
    const char *name;
    part part[6];
} kinds[] = {
    {"F", {COMPUTE}},
    {"B", {COMPUTE}},
    {"W", {COMPUTE}},
    {"run", {COMPUTE}},
    {"rf", {GOT_F}},
    {"rb", {GOT_B}},
    {"sf", {SENT_F}},
    {"sb", {SENT_B}},
    {"sfrb", {SENT_F, GOT_B}},
    {"sbrf", {SENT_B, GOT_F}},
    {"sfrf", {SENT_F, SKIP, GOT_F}},
    {"sbrb", {SENT_B, SKIP, GOT_B}},
    {"sfbrfb", {SENT_F, SENT_B, SKIP, SKIP, GOT_F, GOT_B}},
    {"reqwait", {WAITED}},
    {"phase", {END}},
    {"first_mb", {END}},
    {"dealloc", {END}},
    {"no_sync", {END}},
    {"grad_sync", {END}},
    {"param_sync", {END}},
    {"final", {END}},
};

typedef struct recorded {
    json_t *compute, *moved[TRANSFERS];
} recorded;

static const struct kind *kind_of(json_t *record)
{
    const char *name = json_string_value(json_array_get(record, 0));
    for (size_t k = 0; name && k < sizeof kinds / sizeof kinds[0]; k++)
        if (strcmp(kinds[k].name, name) == 0)
            return &kinds[k];
    return NULL;
}

static bool is_handle(json_t *name, transfer t)
{
    static const char *const handle[] = {"send_next", "send_prev", "recv_prev",
                                         "recv_next"};
    return json_is_string(name) && strcmp(json_string_value(name), handle[t]) == 0;
}

/* With `ckpt` a forward has its flag behind it. */
static void add_compute(recorded *to, json_t *record)
{
    json_t *three = json_array();
    for (size_t i = 0; i < 3; i++)
        json_array_append(three, json_array_get(record, i));
    json_array_append_new(to->compute, three);
}

/* What came by an overlapped receive stands where that was posted, and is known where it is waited for:
 * the first that is not known yet. */
static void add_waited(recorded *to, json_t *record)
{
    bool forward = is_handle(json_array_get(record, 1), RECV_F);
    json_t *list = to->moved[forward ? RECV_F : RECV_B];
    json_t *what = json_array_get(record, 2);
    size_t i = 0;
    while (i < json_array_size(list) && json_is_string(json_array_get(list, i)))
        i++;
    if (json_is_string(what))
        json_array_set(list, i, what);
}

static void add_payload(json_t *list, transfer t, json_t *what)
{
    json_t *handle;
    size_t i;
    if (json_is_string(what))
        json_array_append(list, what);
    json_array_foreach(json_object_get(what, "h"), i, handle)
    {
        if (is_handle(handle, t))
            json_array_append_new(list, json_null());
    }
}

static void add_part(recorded *to, part p, json_t *record, size_t at)
{
    if (p == COMPUTE)
        add_compute(to, record);
    else if (p == WAITED)
        add_waited(to, record);
    else if (p != SKIP)
        add_payload(to->moved[p - SENT_F], (transfer)(p - SENT_F),
                    json_array_get(record, at));
}

static bool read_rank(json_t *trace, recorded *to)
{
    size_t i;
    json_t *record;
    json_array_foreach(trace, i, record)
    {
        const struct kind *k = kind_of(record);
        if (k == NULL)
            return false;
        for (size_t at = 0; at < 6 && k->part[at] != END; at++)
            add_part(to, k->part[at], record, at + 1);
    }
    return true;
}

/* ---- comparing ----------------------------------------------------------------------------------- */
static verdict compare_lists(cmp *names, int rank, recorded *want,
                             const pipeline_log *got, outcome *o)
{
    static const char *const what[] = {"sent forward", "sent backward",
                                       "received forward", "received backward"};
    char where[64];
    snprintf(where, sizeof where, "rank %d", rank);
    verdict v = cmp_trace(names, want->compute, json_incref(got->compute[rank]), NULL,
                          o, where);
    for (int t = 0; t < TRANSFERS && v == EQUAL; t++) {
        snprintf(where, sizeof where, "rank %d, %s", rank, what[t]);
        v = cmp_trace(names, want->moved[t], json_incref(got->moved[rank][t]), NULL, o,
                      where);
    }
    return v;
}

static verdict compare_rank(cmp *names, json_t *trace, int rank,
                            const pipeline_log *got, outcome *o)
{
    recorded want = {.compute = json_array()};
    for (int t = 0; t < TRANSFERS; t++)
        want.moved[t] = json_array();
    verdict v = read_rank(trace, &want)
                    ? compare_lists(names, rank, &want, got, o)
                    : out_differs(o, "rank %d: a record of no known kind", rank);
    json_decref(want.compute);
    for (int t = 0; t < TRANSFERS; t++)
        json_decref(want.moved[t]);
    return v;
}

static verdict compare(json_t *c, const pipeline_log *got, outcome *o)
{
    cmp names;
    size_t r;
    json_t *trace;
    cmp_init(&names);
    verdict v = EQUAL;
    json_array_foreach(json_object_get(c, "ranks"), r, trace)
    {
        if (v == EQUAL)
            v = compare_rank(&names, trace, (int)r, got, o);
    }
    if (v == EQUAL && json_object_get(c, "store"))
        v = cmp_value(&names, json_object_get(c, "store"), json_incref(got->losses), o,
                      "losses kept");
    cmp_fini(&names);
    return v;
}

/* ---- a case -------------------------------------------------------------------------------------- */
static hr_status generate(json_t *c, hr_schedule **out)
{
    bool pairs = case_has(c, "ep"), chunks = json_object_get(c, "vp") != NULL;
    hr_generate_opts o = {HR_INIT(hr_generate_opts), .ranks = case_int(c, "pp", 1),
                          .chunks = case_int(c, "vp", 1),
                          .microbatches = case_int(c, "mb", 0),
                          .group = case_int(c, "group", 0)};
    const char *name = case_has(c, "fo") ? "forward-only"
                       : pairs           ? "combined"
                       : chunks          ? "interleaved"
                                         : "1f1b";
    return hr_schedule_generate(name, &o, out);
}

static verdict run(json_t *c, const hr_schedule *s, outcome *o)
{
    pipeline_log got;
    pipeline_log_init(&got);
    hr_status st = pipeline_step(s, case_has(c, "ep"), &got);
    verdict v = st < 0 ? out_differs(o, "%s", hr_last_error()) : compare(c, &got, o);
    pipeline_log_fini(&got);
    return v;
}

/* What we take though the original does not, by a rule; NULL: nothing of the kind. */
static const char *why_taken(json_t *c)
{
    int group = case_int(c, "group", 0), mb = case_int(c, "mb", 0);
    if (case_has(c, "overlap"))
        return "overlapped transfers refused: here they always are, and it runs";
    if (group > mb)
        return "a group above the microbatches refused: here it holds them all, and "
               "runs";
    if (group > 0 && mb % group > 0 && mb % group < case_int(c, "pp", 1))
        return "a last group below the ranks refused: here taken if nobody waits for "
               "ever, and runs";
    return NULL;
}

static verdict run_refused(json_t *c, const hr_schedule *s, outcome *o)
{
    const char *why = why_taken(c);
    if (why == NULL)
        return out_differs(o, "taken, recorded an error");
    return run(c, s, o) == EQUAL ? out_left(o, why) : DIFFERENT;
}

verdict run_pipeline_case(json_t *c, outcome *o)
{
    hr_schedule *s;
    bool refused = json_object_get(c, "err") != NULL;
    if (generate(c, &s) < 0)
        return refused ? EQUAL : out_differs(o, "%s", hr_last_error());
    verdict v = refused ? run_refused(c, s, o) : run(c, s, o);
    hr_schedule_destroy(s);
    return v;
}
