/* run_pipeline.c: see run_pipeline.h. */
#include "run_pipeline.h"
#include "app_try.h"
#include "schedule_file.h"

#include <stdlib.h>
#include <string.h>

static hr_schedule_shape shape_of(const hr_schedule *s)
{
    hr_schedule_shape h = {HR_INIT(hr_schedule_shape)};
    hr_schedule_get_shape(s, &h);
    return h;
}

/* ---- the training schedule --------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static hr_status read_file(const train_options *o, pipeline *p)
{
    const char *path = o->schedule;
    snprintf(p->name, sizeof p->name, "%.63s", base_name(path));
    APP_TRY(hr_app_schedule_read("--schedule", path, &p->training));
    hr_schedule_shape h = shape_of(p->training);
    if (h.ranks != o->pp || h.microbatches != o->microbatches)
        return hr_fail(HR_ERR_INVALID, "schedule_size",
                       "--schedule %s is for %d ranks and %d microbatches, but --pp is "
                       "%d and --microbatches %d",
                       path, h.ranks, h.microbatches, o->pp, o->microbatches);
    return HR_OK;
}

/* With overlap the one that was made for it; without, the plain ones. */
static const char *name_by_rule(const train_options *o)
{
    return o->overlap && !o->recompute ? "combined"
           : o->vp > 1                 ? "interleaved"
                                       : "1f1b";
}

static hr_status generate(const train_options *o, pipeline *p)
{
    bool searches = strcmp(o->schedule, "auto") == 0;
    const char *name = o->schedule[0] && !searches ? o->schedule : name_by_rule(o);
    snprintf(p->name, sizeof p->name, "%.63s", searches ? "auto" : name);
    if (searches)
        snprintf(p->start, sizeof p->start, "%.63s", name);
    if (searches && o->pp == 1)
        return hr_fail(HR_ERR_INVALID, "auto_ranks",
                       "--schedule auto orders the work of several pipeline ranks, but "
                       "--pp is 1; the nearest valid value is 2");
    hr_status st = hr_schedule_generate(
        name,
        &(hr_generate_opts){HR_INIT(hr_generate_opts), .ranks = o->pp,
                            .microbatches = o->microbatches, .chunks = o->vp},
        &p->training);
    return st < 0 ? hr_fail(st, hr_last_reason(), "--schedule: %s", hr_last_error())
                  : HR_OK;
}

static hr_status check(const train_options *o, const pipeline *p)
{
    hr_schedule_shape h = shape_of(p->training);
    if (h.forward_only)
        return hr_fail(HR_ERR_INVALID, "schedule_refused",
                       "--schedule %s has no backward: nothing would be learned",
                       p->name);
    if (h.pieces > 1)
        return hr_fail(HR_ERR_UNSUPPORTED, "schedule_refused",
                       "--schedule %s cuts sequences into parts, which attention here "
                       "cannot do: it is for planning only",
                       p->name);
    if (o->vp > 0 && h.stages != o->pp * o->vp &&
        h.placement != HR_PLACEMENT_BIDIRECTIONAL)
        return hr_fail(HR_ERR_INVALID, "schedule_size",
                       "--schedule %s has %d stages, but --pp %d x --vp %d is %d",
                       p->name, h.stages, o->pp, o->vp, o->pp * o->vp);
    hr_status st = hr_schedule_check(p->training, NULL, NULL);
    return st < 0 ? hr_fail(st, hr_last_reason(), "--schedule %s: %s", p->name,
                            hr_last_error())
                  : HR_OK;
}

/* One that was not made with pairs gets them from its neighbours. */
static hr_status make_pairs(const train_options *o, pipeline *p)
{
    hr_schedule *merged = NULL;
    if (o->recompute && o->overlap_asked)
        return hr_fail(HR_ERR_INVALID, "recompute",
                       "--recompute and --overlap on: a forward that is done again in "
                       "backward has no other microbatch beside it");
    if (!o->overlap || o->recompute || hr_schedule_is_lowered(p->training))
        return HR_OK;
    APP_TRY(hr_schedule_merge_pairs(p->training, &merged, &p->pairs));
    hr_schedule_destroy(p->training);
    p->training = merged;
    if (p->pairs == 0 && o->overlap_asked)
        return hr_fail(HR_ERR_INVALID, "no_pairs",
                       "--overlap on: --schedule %s with --pp %d and --microbatches %d "
                       "has no forward beside a backward of another microbatch",
                       p->name, o->pp, o->microbatches);
    return HR_OK;
}

/* ---- the layout ------------------------------------------------------------------------------ */

static hr_status make_layout(const train_options *o, const hr_schedule_shape *h,
                             hr_layout **out)
{
    /* A loop in a file may end within a round; which rank a stage is on is the schedule's affair anyway. */
    bool rows = (h->placement == HR_PLACEMENT_LOOP || h->placement == HR_PLACEMENT_V) &&
                h->stages % h->ranks == 0;
    hr_layout_opts l = {HR_INIT(hr_layout_opts),
                        .ranks = rows ? h->ranks : h->stages,
                        .chunks = rows ? h->stages / h->ranks : 1,
                        .placement = rows ? h->placement : HR_PLACEMENT_LOOP,
                        .layers = o->model.layers,
                        .mtp = o->model.mtp,
                        .uneven = true};
    hr_status st = o->layout[0] ? hr_layout_parse(o->layout, strlen(o->layout), &l, out)
                                : hr_layout_split(&l, out);
    if (st >= 0)
        return HR_OK;
    return o->layout[0] ? hr_fail(st, hr_last_reason(), "--layout %s: %s", o->layout,
                                  hr_last_error())
                        : hr_fail(st, hr_last_reason(), "--layers %d: %s",
                                  o->model.layers, hr_last_error());
}

/* The model comes in on the first stage and its loss is made on the last. */
static hr_status check_ends(const train_options *o, const pipeline *p)
{
    bool embeds = p->parts[0].embedding;
    if (embeds && p->parts[p->stages - 1].loss)
        return HR_OK;
    return hr_fail(HR_ERR_INVALID, "layout_refused",
                   "--layout %s: %s stage is empty; the %s has to lie on it", o->layout,
                   embeds ? "the last" : "the first", embeds ? "loss" : "embedding");
}

static hr_status lay_out(const train_options *o, pipeline *p)
{
    hr_schedule_shape h = shape_of(p->training);
    hr_layout *l = NULL;
    hr_status st = make_layout(o, &h, &l);
    p->ranks = h.ranks;
    p->stages = h.stages;
    p->microbatches = h.microbatches;
    p->placement = h.placement;
    p->parts = calloc((size_t)h.stages, sizeof *p->parts);
    if (st >= 0 && !p->parts)
        st = hr_fail(HR_ERR_NOMEM, NULL, "no memory for %d stages", h.stages);
    for (int s = 0; s < h.stages && st >= 0; s++)
        st = hr_layout_get(l, s, &p->parts[s]);
    hr_layout_destroy(l);
    return st < 0 ? st : check_ends(o, p);
}

bool hr_app_pipeline_on(const pipeline *p, int stage, int rank)
{
    return hr_schedule_rank_of(p->training, stage, 0) == rank ||
           hr_schedule_rank_of(p->training, stage, p->microbatches - 1) == rank;
}

/* ---- evaluation -------------------------------------------------------------------------------- */

/* Forwards in the order in which they would end if each took one turn: stage s has microbatch m in turn
 * s + m. What a forward needs is of an earlier turn. */
static hr_status fill_evaluation(hr_schedule *s, int stages, int microbatches)
{
    for (int turn = 0; turn < stages + microbatches - 1; turn++)
        for (int stage = 0; stage < stages; stage++) {
            int m = turn - stage;
            if (m < 0 || m >= microbatches)
                continue;
            hr_action a = {
                .kind = HR_ACTION_F, .stage = (uint16_t)stage, .microbatch = m};
            APP_TRY(hr_schedule_append(s, hr_schedule_rank_of(s, stage, m), &a, 1));
        }
    return HR_OK;
}

/* Stages lie where they lie in training. */
static hr_status make_evaluation(const train_options *o, pipeline *p)
{
    hr_schedule_shape h = shape_of(p->training);
    if (h.placement == HR_PLACEMENT_BIDIRECTIONAL && o->eval_batches % 2 != 0)
        return hr_fail(HR_ERR_INVALID, "eval_batches",
                       "--eval-batches %d: --schedule %s has half of the microbatches "
                       "go each way; the nearest valid value is %d",
                       o->eval_batches, p->name, o->eval_batches + 1);
    h.microbatches = o->eval_batches;
    h.forward_only = true;
    APP_TRY(hr_schedule_create(&h, &p->evaluation));
    return fill_evaluation(p->evaluation, p->stages, o->eval_batches);
}

/* ---- simulation ---------------------------------------------------------------------------------- */

hr_status hr_app_schedule_bubble(const hr_schedule *s, double *out)
{
    hr_figures *f = NULL;
    double busy = 0;
    *out = 0;
    APP_TRY(hr_schedule_simulate(s, NULL, &f));
    for (int r = 0; r < f->ranks; r++)
        busy += (double)f->rank[r].busy;
    if (f->makespan > 0)
        *out = 1 - busy / ((double)f->makespan * f->ranks);
    hr_figures_destroy(f);
    return HR_OK;
}

/* The head and the embedding of bytes are small beside a layer. What a file says of costs is in units of
 * its own. */
static hr_status simulate(pipeline *p)
{
    for (int s = 0; s < p->stages; s++) {
        int64_t cost = (p->parts[s].layers + p->parts[s].mtp) * HR_TICKS;
        APP_TRY(hr_schedule_set_cost(
            p->training, s, &(hr_stage_cost){.f = cost, .i = cost, .w = cost}));
    }
    APP_TRY(hr_schedule_set_comm(p->training, 0, 0));
    APP_TRY(hr_schedule_set_latency(p->training, 0));
    return hr_app_schedule_bubble(p->training, &p->bubble);
}

static hr_status make(const train_options *o, pipeline *p)
{
    /* Names have neither. */
    bool file = strchr(o->schedule, '.') || strchr(o->schedule, '/');
    APP_TRY(file ? read_file(o, p) : generate(o, p));
    APP_TRY(check(o, p));
    APP_TRY(make_pairs(o, p));
    APP_TRY(lay_out(o, p));
    APP_TRY(make_evaluation(o, p));
    return simulate(p);
}

hr_status hr_app_pipeline_make(const train_options *o, pipeline *out)
{
    *out = (pipeline){0};
    hr_status st = make(o, out);
    if (st < 0)
        hr_app_pipeline_fini(out);
    return st;
}

/* ---- what auto chose ----------------------------------------------------------------------------- */

hr_status hr_app_schedule_copy(const hr_schedule *s, hr_schedule **out)
{
    char *text;
    *out = NULL;
    APP_TRY(hr_schedule_print(s, &text));
    hr_status st = hr_schedule_parse(text, strlen(text), out);
    free(text);
    return st;
}

static bool same_sizes(const hr_schedule *a, const hr_schedule *b)
{
    hr_schedule_shape x = shape_of(a), y = shape_of(b);
    return x.ranks == y.ranks && x.stages == y.stages &&
           x.microbatches == y.microbatches && x.placement == y.placement;
}

hr_status hr_app_pipeline_resume(pipeline *p, const char *text, bool *taken)
{
    hr_schedule *s = NULL;
    *taken = false;
    hr_status st = hr_schedule_parse(text, strlen(text), &s);
    if (st >= 0)
        st = hr_schedule_check(s, NULL, NULL);
    if (st >= 0 && same_sizes(s, p->training)) {
        hr_schedule_destroy(p->training);
        p->training = s;
        *taken = true;
        return hr_app_schedule_bubble(s, &p->bubble);
    }
    hr_schedule_destroy(s);
    return st < 0 ? hr_fail(st, hr_last_reason(), "the schedule of the checkpoint: %s",
                            hr_last_error())
                  : HR_OK;
}

void hr_app_pipeline_fini(pipeline *p)
{
    hr_schedule_destroy(p->training);
    hr_schedule_destroy(p->evaluation);
    free(p->parts);
    *p = (pipeline){0};
}
