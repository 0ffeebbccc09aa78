/* Options that are valid alone and not together. */
#include "option_check.h"
#include "app_try.h"
#include "stage_list.h"
#include "whole_text.h"

#include <string.h>

static bool is_given(option_set given, const char *name)
{
    return given >> hr_app_option_find(&hr_app_train_table, name) & 1;
}

static int nearest_multiple(int value, int of)
{
    int below = value / of * of;
    return below == 0 || value - below > below + of - value ? below + of : below;
}

static hr_status check_shape(const model_shape *m)
{
    if (m->width % (2 * m->heads) != 0)
        return hr_fail(HR_ERR_INVALID, "width_heads",
                       "--width %d does not give each of --heads %d an even share; the "
                       "nearest width that does is %d",
                       m->width, m->heads, nearest_multiple(m->width, 2 * m->heads));
    if (m->top_k > m->experts)
        return hr_fail(
            HR_ERR_INVALID, "top_k",
            "--top-k %d is above --experts %d; the nearest valid value is %d", m->top_k,
            m->experts, m->experts);
    if (m->mtp && m->seq < 2)
        return hr_fail(
            HR_ERR_INVALID, "mtp_seq",
            "--mtp on wants a byte after the next in a sequence; the nearest "
            "valid --seq is 2, not %d",
            m->seq);
    if (m->dense_layers > m->layers)
        return hr_fail(
            HR_ERR_INVALID, "dense_layers",
            "--dense-layers %d is above --layers %d; the nearest valid value "
            "is %d",
            m->dense_layers, m->layers, m->layers);
    return HR_OK;
}

static hr_status check_ranks(train_options *o)
{
    if (o->model.experts % o->ep != 0)
        return hr_fail(
            HR_ERR_INVALID, "experts_split",
            "--experts %d cannot be divided among --ep %d ranks; the nearest "
            "number that can is %d",
            o->model.experts, o->ep, nearest_multiple(o->model.experts, o->ep));
    if (o->dp == 0)
        o->dp = o->ep;
    if (o->dp % o->ep != 0)
        return hr_fail(
            HR_ERR_INVALID, "dp_ep",
            "--dp %d is not a multiple of --ep %d; the nearest valid value is %d",
            o->dp, o->ep, nearest_multiple(o->dp, o->ep));
    if ((int64_t)o->pp * o->dp > OPTION_RANKS)
        return hr_fail(
            HR_ERR_INVALID, "ranks",
            "--pp %d x --dp %d is more than the %d ranks that a run can have; "
            "the nearest valid --pp is %d",
            o->pp, o->dp, OPTION_RANKS, OPTION_RANKS / o->dp);
    return HR_OK;
}

static hr_status check_batch(train_options *o, option_set given)
{
    int64_t one = (int64_t)o->micro_batch_size * o->dp;
    if (is_given(given, "global-batch-size") && o->global_batch_size == 0)
        return hr_fail(HR_ERR_INVALID, "global_batch",
                       "--global-batch-size 0: the nearest valid value is %lld",
                       (long long)one);
    if (o->global_batch_size > 0 && !is_given(given, "microbatches")) {
        if (o->global_batch_size % one != 0)
            return hr_fail(HR_ERR_INVALID, "global_batch",
                           "--global-batch-size %d is not a multiple of %lld (--micro-"
                           "batch-size %d x --dp %d); the nearest valid value is %d",
                           o->global_batch_size, (long long)one, o->micro_batch_size,
                           o->dp, nearest_multiple(o->global_batch_size, (int)one));
        o->microbatches = o->global_batch_size / (int)one;
    }
    int64_t all = one * o->microbatches;
    if (o->global_batch_size > 0 && o->global_batch_size != all)
        return hr_fail(HR_ERR_INVALID, "global_batch",
                       "--global-batch-size %d, but --microbatches %d x --micro-batch-"
                       "size %d x --dp %d is %lld",
                       o->global_batch_size, o->microbatches, o->micro_batch_size,
                       o->dp, (long long)all);
    if (all > INT32_MAX / o->model.seq)
        return hr_fail(HR_ERR_INVALID, "global_batch",
                       "a step of %lld sequences of --seq %d bytes is too large; the "
                       "nearest valid number of sequences is %d",
                       (long long)all, o->model.seq, INT32_MAX / o->model.seq);
    o->global_batch_size = (int)all;
    return HR_OK;
}

static hr_status check_rate(train_options *o, option_set given)
{
    if (!is_given(given, "min-lr"))
        o->min_lr = o->lr / 10;
    if (o->min_lr > o->lr)
        return hr_fail(HR_ERR_INVALID, "min_lr",
                       "--min-lr %g is above --lr %g; the nearest valid value is %g",
                       o->min_lr, o->lr, o->lr);
    if (!is_given(given, "warmup") && o->warmup > o->steps / 10)
        o->warmup = (int)(o->steps / 10);
    if (o->warmup > o->steps)
        return hr_fail(
            HR_ERR_INVALID, "warmup",
            "--warmup %d is above --steps %lld; the nearest valid value is %lld",
            o->warmup, (long long)o->steps, (long long)o->steps);
    return HR_OK;
}

/* Without an all-to-all a pair hides nothing, and makes the pipeline longer. */
static void choose_overlap(train_options *o, option_set given)
{
    bool asked = is_given(given, "overlap");
    if (!asked)
        o->overlap = o->ep > 1;
    o->overlap_asked = asked && o->overlap;
}

hr_status hr_app_check_train(train_options *o, option_set given)
{
    APP_TRY(check_shape(&o->model));
    APP_TRY(check_ranks(o));
    APP_TRY(check_batch(o, given));
    APP_TRY(check_rate(o, given));
    choose_overlap(o, given);
    if (!o->data[0] || !o->out[0])
        return hr_fail(HR_ERR_INVALID, "option_value", "--%s is empty; it wants a path",
                       o->data[0] ? "out" : "data");
    return HR_OK;
}

/* ---- plan ------------------------------------------------------------------------------------ */
/* Pairs of stage and microbatch that are planned: of all schedules, some of which search, and of one. */
enum { MOST_CELLS_ALL = 1 << 17, MOST_CELLS_ONE = 1 << 22, MOST_STAGES = 65535 };

bool hr_app_plan_searches(const plan_options *o)
{
    return o->optimise || strcmp(o->schedule, "auto") == 0;
}

bool hr_app_plan_checks_csv(const plan_options *o)
{
    return hr_app_is_csv(o->check);
}

static hr_status check_cells(const plan_options *o)
{
    int64_t stages = (int64_t)o->pp * (o->vp > 2 ? o->vp : 2);
    if (stages > MOST_STAGES)
        return hr_fail(
            HR_ERR_INVALID, "plan_size",
            "--vp %d on --pp %d ranks is more than the %d stages that can be "
            "planned; the nearest valid value is %d",
            o->vp, o->pp, MOST_STAGES, MOST_STAGES / o->pp);
    bool one = o->schedule[0] && !hr_app_plan_searches(o);
    int64_t most = one ? MOST_CELLS_ONE : MOST_CELLS_ALL;
    if (stages * o->microbatches > most)
        return hr_fail(HR_ERR_INVALID, "plan_size",
                       "--microbatches %d on %lld stages is more than can be planned; "
                       "the nearest valid value is %lld",
                       o->microbatches, (long long)stages, (long long)(most / stages));
    return HR_OK;
}

static hr_status check_plan_files(const plan_options *o)
{
    const char *dot = strrchr(o->out, '.');
    const char *written = o->out[0] ? o->out : o->csv[0] ? o->csv : o->text;
    if (o->schedule[0] && o->check[0])
        return hr_fail(HR_ERR_INVALID, "plan_files",
                       "--schedule %s and --check %s: only one of them can be given",
                       o->schedule, o->check);
    if (written[0] && !o->schedule[0] && !o->check[0] && !o->optimise)
        return hr_fail(HR_ERR_INVALID, "plan_files",
                       "--%s %s wants a schedule as well: --schedule NAME",
                       o->out[0]   ? "out"
                       : o->csv[0] ? "csv"
                                   : "text",
                       written);
    if (o->out[0] && !(dot && (strcmp(dot, ".svg") == 0 || strcmp(dot, ".png") == 0)))
        return hr_fail(HR_ERR_INVALID, "plan_files",
                       "--out %s ends neither in .svg nor in .png; the nearest valid "
                       "value is %s.svg",
                       o->out, o->out);
    return HR_OK;
}

static bool plan_given(option_set given, const char *name)
{
    return given >> hr_app_option_find(&hr_app_plan_table, name) & 1;
}

/* A profile stands for the costs of the command line, but for the link's. */
static hr_status check_profile(plan_options *o, option_set given)
{
    static const char *const costs[] = {
        "cost-f",      "cost-i",         "cost-w",     "activation-bytes",
        "stash-bytes", "boundary-bytes", "param-bytes"};
    if (o->layout[0] && !o->profile[0])
        return hr_fail(HR_ERR_INVALID, "plan_profile",
                       "--layout %s wants the costs of layers as well: --profile FILE",
                       o->layout);
    if (!o->profile[0])
        return HR_OK;
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++)
        if (plan_given(given, costs[i]))
            return hr_fail(HR_ERR_INVALID, "plan_profile",
                           "--%s and --profile %s: only one of them can be given",
                           costs[i], o->profile);
    if (!plan_given(given, "transfer"))
        o->transfer = -1; /* the profile's */
    if (!plan_given(given, "latency"))
        o->latency = -1;
    return HR_OK;
}

static hr_status check_search(const plan_options *o, option_set given)
{
    static const char *const its[] = {"steps", "time-limit", "seed"};
    if (hr_app_plan_searches(o)) {
        if (o->queue)
            return hr_fail(HR_ERR_INVALID, "plan_search",
                           "--queue and a search: it takes transfers as if none waited "
                           "for another; only one of them can be given");
        if (o->check[0])
            return hr_fail(HR_ERR_INVALID, "plan_search",
                           "--optimise and --check %s: only one of them can be given",
                           o->check);
        if (o->schedule[0] && strcmp(o->schedule, "auto") != 0)
            return hr_fail(HR_ERR_INVALID, "plan_search",
                           "--optimise and --schedule %s: what is searched for is "
                           "--schedule auto",
                           o->schedule);
        return HR_OK;
    }
    for (size_t i = 0; i < sizeof its / sizeof its[0]; i++)
        if (plan_given(given, its[i]))
            return hr_fail(HR_ERR_INVALID, "plan_search",
                           "--%s wants a search as well: --optimise", its[i]);
    return HR_OK;
}

static hr_status refuse_beside_check(const plan_options *o, option_set given,
                                     const char *const *names, const char *why)
{
    for (; *names; names++)
        if (plan_given(given, *names))
            return hr_fail(HR_ERR_INVALID, "plan_check", "--%s and --check %s: %s",
                           *names, o->check, why);
    return HR_OK;
}

/* A file has the sizes, our text the costs as well. */
static hr_status check_checked(const plan_options *o, option_set given)
{
    static const char *const sizes[] = {
        "pp", "vp", "microbatches", "group", "param-bytes", "memory-limit", NULL};
    static const char *const costs[] = {
        "cost-f",        "cost-i",         "cost-w",  "transfer", "latency",
        "pair-discount", "recompute",      "profile", "layout",   "activation-bytes",
        "stash-bytes",   "boundary-bytes", NULL};
    if (!o->check[0])
        return HR_OK;
    APP_TRY(refuse_beside_check(o, given, sizes, "only one of them can be given"));
    if (hr_app_plan_checks_csv(o))
        return HR_OK;
    return refuse_beside_check(o, given, costs,
                               "costs are for a CSV; our text has its own");
}

hr_status hr_app_check_plan(plan_options *o, option_set given)
{
    APP_TRY(check_cells(o));
    APP_TRY(check_plan_files(o));
    APP_TRY(check_search(o, given));
    APP_TRY(check_checked(o, given));
    APP_TRY(check_profile(o, given));
    if (!hr_app_stage_list_ok(o->recompute))
        return hr_fail(HR_ERR_INVALID, "recompute",
                       "--recompute %s: none, all, or numbers of stages as 0,4-7",
                       o->recompute);
    if (!plan_given(given, "stash-bytes"))
        o->stash_bytes = o->activation_bytes;
    if (o->stash_bytes > o->activation_bytes)
        return hr_fail(HR_ERR_INVALID, "stash_bytes",
                       "--stash-bytes %lld is above --activation-bytes %lld; the "
                       "nearest valid value is %lld",
                       (long long)o->stash_bytes, (long long)o->activation_bytes,
                       (long long)o->activation_bytes);
    return HR_OK;
}
