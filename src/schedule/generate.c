/* Finds the builder by its name, holds the sizes against what it can do, and lets it build. */
#include "base/try.h" /* HR_TRY */
#include "schedule/build/builder.h"
#include "schedule/optimise.h" /* hr__generate_auto */

#include <string.h>

const char *hr_schedule_name(int i)
{
    for (int k = 0; k <= i; k++)
        if (i < 0 || hr__builders[k] == NULL)
            return NULL;
    return i < 0 ? NULL : hr__builders[i]->name;
}

const char *hr_schedule_about(int i)
{
    return hr_schedule_name(i) ? hr__builders[i]->about : NULL;
}

void hr__put(hr__build *b, int rank, hr_action_kind kind, int stage, int microbatch)
{
    hr_action a = {
        .microbatch = microbatch, .stage = (uint16_t)stage, .kind = (uint8_t)kind};
    if (b->st >= 0)
        b->st = hr__append(b->s, rank, &a, 1, false);
}

void hr__put_pair(hr__build *b, int rank, hr_action_kind kind, int stage,
                  int microbatch, hr_action_kind kind2, int stage2, int microbatch2)
{
    hr_action pair[2] = {
        {.microbatch = microbatch, .stage = (uint16_t)stage, .kind = (uint8_t)kind},
        {.microbatch = microbatch2, .stage = (uint16_t)stage2, .kind = (uint8_t)kind2}};
    if (b->st >= 0)
        b->st = hr__append(b->s, rank, pair, 2, true);
}

static const hr__builder *find(const char *name)
{
    for (int k = 0; hr__builders[k]; k++)
        if (strcmp(hr__builders[k]->name, name) == 0)
            return hr__builders[k];
    return NULL;
}

static hr_status fail_name(const char *name)
{
    char known[400] = "";
    size_t n = 0;
    for (int k = 0; hr__builders[k] && n < sizeof known; k++)
        n +=
            (size_t)snprintf(known + n, sizeof known - n, " %s", hr__builders[k]->name);
    return hr_fail(HR_ERR_INVALID, "schedule_name",
                   "no schedule '%.40s'; there are: auto%s", name, known);
}

void hr__fill_defaults(const hr__builder *w, hr_generate_opts *o)
{
    if (w->own_act != NULL && o->max_act == 0)
        o->max_act = w->own_act(o->ranks);
    if (w->defaults != NULL)
        w->defaults(o);
}

/* Whether it takes these sizes with one of them changed; what the caller left to the
 * schedule is filled in anew. */
static hr__answer takes(const hr__builder *w, hr_generate_opts o)
{
    if (o.ranks < 1 || o.microbatches < 1)
        return HR__NO;
    hr__fill_defaults(w, &o);
    return w->takes ? w->takes(&o) : HR__YES;
}

enum { FAR = 4096 }; /* how far a number that works is looked for */

/* The nearest to *field, below and above, that work; text into `say`. */
static bool nearest(const hr__builder *w, hr_generate_opts *o, int *field,
                    const char *what, char *say, size_t room)
{
    int asked = *field;
    int found[2] = {0, 0};
    for (int d = 1; d <= FAR; d++) {
        for (int up = 0; up < 2; up++) {
            *field = up ? asked + d : asked - d;
            if (found[up] == 0 && takes(w, *o) == HR__YES)
                found[up] = *field;
        }
    }
    *field = asked;
    if (found[0] && found[1])
        snprintf(say, room, "; nearest that work: %d or %d %s", found[0], found[1],
                 what);
    else if (found[0] || found[1])
        snprintf(say, room, "; nearest that works: %d %s",
                 found[0] ? found[0] : found[1], what);
    return found[0] || found[1];
}

static hr_status refuse(const hr__builder *w, const hr_generate_opts *asked)
{
    char say[100] = "";
    char group[40] = "";
    hr_generate_opts o = *asked;
    if (!nearest(w, &o, &o.microbatches, "microbatches", say, sizeof say))
        nearest(w, &o, &o.ranks, "ranks", say, sizeof say);
    if (o.group)
        snprintf(group, sizeof group, " in groups of %d", o.group);
    return hr_fail(
        HR_ERR_INVALID, "schedule_refused",
        "%s with %d ranks, %d chunks a rank, %d microbatches%s: it wants %s%s", w->name,
        o.ranks, o.chunks, o.microbatches, group, w->rule, say);
}

/* Sizes that no schedule does, and a number of chunks that this one does not. */
static hr_status check_sizes(const hr__builder *w, hr_generate_opts *o)
{
    if (o->chunks == 0)
        o->chunks = w->chunks ? w->chunks : 1;
    if (o->ranks < 1 || o->chunks < 1 || o->microbatches < 1 || o->group < 0 ||
        o->pieces < 0 || o->max_act < 0)
        return hr_fail(HR_ERR_INVALID, "schedule_size",
                       "%s with %d ranks, %d chunks a rank, %d microbatches: each must "
                       "be at least 1, and group, pieces and limit not below 0",
                       w->name, o->ranks, o->chunks, o->microbatches);
    if (w->chunks && o->chunks != w->chunks)
        return hr_fail(HR_ERR_INVALID, "schedule_refused",
                       "%s with %d ranks, %d chunks a rank, %d microbatches: it has %d "
                       "chunk%s a rank",
                       w->name, o->ranks, o->chunks, o->microbatches, w->chunks,
                       w->chunks > 1 ? "s" : "");
    int64_t most = HR__MAX_CELLS;
    if (o->ranks > HR__MAX_STAGES || o->microbatches > most || o->pieces > most ||
        (int64_t)o->ranks * o->chunks > HR__MAX_STAGES ||
        (int64_t)o->ranks * o->chunks * o->microbatches > most ||
        (int64_t)o->ranks * o->microbatches * (o->pieces ? o->pieces : 1) > most)
        return hr_fail(
            HR_ERR_INVALID, "schedule_size",
            "%s with %d ranks, %d chunks a rank, %d microbatches: at most %d "
            "stages, and %d stages times microbatches",
            w->name, o->ranks, o->chunks, o->microbatches, HR__MAX_STAGES, (int)most);
    return HR_OK;
}

static hr_status set_costs(hr_schedule *s, const hr_generate_opts *o)
{
    if (o->cost != NULL)
        HR_TRY(hr_schedule_set_cost(s, -1, o->cost));
    if (o->stage_cost != NULL && o->stage_costs != s->stages)
        return hr_fail(HR_ERR_INVALID, "stage_costs",
                       "costs of %d stages; the schedule has %d", o->stage_costs,
                       s->stages);
    for (int i = 0; o->stage_cost != NULL && i < s->stages; i++)
        HR_TRY(hr_schedule_set_cost(s, i, &o->stage_cost[i]));
    HR_TRY(hr_schedule_set_latency(s, o->latency));
    return hr_schedule_set_comm(s, o->comm, 0);
}

static hr_status build(const hr__builder *w, const hr_generate_opts *o, bool rule,
                       hr_schedule **out)
{
    hr__build b = {
        .o = *o, .p = o->ranks, .v = o->chunks, .m = o->microbatches, .rule = rule};
    if (w->pieces)
        b.m *= o->pieces;
    hr_schedule_shape shape = {
        HR_INIT(hr_schedule_shape),
        .ranks = b.p,
        .stages = w->placement == HR_PLACEMENT_BIDIRECTIONAL ? b.p : b.p * b.v,
        .microbatches = b.m,
        .placement = w->placement,
        .forward_only = w->forward_only,
        .pieces = w->pieces ? o->pieces : 1,
    };
    HR_TRY(hr_schedule_create(&shape, &b.s));
    b.st = set_costs(b.s, o);
    if (w->orders != NULL && b.st >= 0)
        w->orders(&b);
    for (int r = 0; w->order && r < b.p && b.st >= 0; r++)
        w->order(&b, r);
    if (b.st < 0)
        hr_schedule_destroy(b.s);
    else
        *out = b.s;
    return b.st;
}

hr_status hr__generate(const hr__builder *w, const hr_generate_opts *opts, bool rule,
                       hr_schedule **out)
{
    hr_generate_opts o = *opts;
    *out = NULL;
    HR_TRY(check_sizes(w, &o));
    hr__answer answer = takes(w, o);
    if (answer == HR__NO)
        return refuse(w, &o);
    hr_generate_opts filled = o;
    hr__fill_defaults(w, &filled);
    HR_TRY(build(w, &filled, rule, out));
    bool nothing = rule && hr_schedule_actions(*out) == 0;
    if (!nothing && (answer == HR__YES || hr_schedule_check(*out, NULL, NULL) == HR_OK))
        return HR_OK;
    hr_schedule_destroy(*out);
    *out = NULL;
    return nothing ? HR_OK : refuse(w, &o);
}

hr_status hr_schedule_generate(const char *name, const hr_generate_opts *opts,
                               hr_schedule **out)
{
    HR_NEED(out);
    *out = NULL;
    HR_NEED(name);
    const hr__builder *w = find(name);
    bool best = strcmp(name, "auto") == 0;
    if (w == NULL && !best)
        return fail_name(name);
    if (opts == NULL)
        return hr_fail(HR_ERR_INVALID, "schedule_size", "%s without sizes", name);
    HR_CHECK_OPTS(opts, hr_generate_opts);
    return best ? hr__generate_auto(opts, out) : hr__generate(w, opts, false, out);
}
