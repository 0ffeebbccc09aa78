/* run_outcome.c: see run_outcome.h. After one step the first moment of the optimiser is a tenth of the
 * gradient, clipping aside, so checkpoints are what is compared. */
#include "support/run_outcome.h"
#include "app_try.h"
#include "option_check.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 8, MOST_WORDS = 48, MOST_MODELS = 64 };
static const double LIMIT = 1e-5, COARSE = 1e-2;

static struct {
    model_shape model;
    int loss_scale, micro_batch_size, global_batch_size;
    run_outcome run;
} kept[MOST_MODELS];
static int n_kept;

/* ---- options ------------------------------------------------------------------------------- */

hr_status run_outcome_read(train_options *o, const char *line)
{
    char copy[512], *argv[MOST_WORDS], *rest = NULL;
    int argc = 0;
    option_set given = 0;
    train_case_options(o, 1, 1, 1);
    o->model.layers = 5;
    o->clip = 0;
    o->eval_batches = 4;
    o->dp = 0;
    o->global_batch_size = SEQUENCES;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *w = strtok_r(copy, " ", &rest); w && argc < MOST_WORDS;
         w = strtok_r(NULL, " ", &rest))
        argv[argc++] = w;
    APP_TRY(hr_app_option_parse(&hr_app_train_table, argc, argv, o, &given));
    return hr_app_check_train(o, given);
}

hr_status run_outcome_options(train_options *o, const char *line)
{
    hr_status st = run_outcome_read(o, line);
    train_case_folder(o);
    return st;
}

/* The same model and sequences, one microbatch after the other. */
static hr_status options_on_one_rank(train_options *o, const train_options *like)
{
    APP_TRY(run_outcome_options(o, ""));
    o->model = like->model;
    o->loss_scale = like->loss_scale;
    o->micro_batch_size = like->micro_batch_size;
    o->global_batch_size = like->global_batch_size;
    o->microbatches = o->global_batch_size / o->micro_batch_size;
    return HR_OK;
}

/* ---- runs ---------------------------------------------------------------------------------- */

static double number_of(json_t *line, const char *key)
{
    return json_number_value(json_object_get(line, key));
}

static hr_status read_metrics(const train_options *o, run_outcome *out)
{
    size_t n;
    char *text = train_case_read(o, "metrics.jsonl", &n);
    if (text)
        text[strcspn(text, "\n")] = '\0';
    json_t *line = text ? json_loads(text, 0, NULL) : NULL;
    free(text);
    if (!line)
        return hr_fail(HR_ERR_IO, "run_outcome", "no metrics in %s", o->out);
    out->loss = number_of(line, "loss");
    out->aux_loss = number_of(line, "aux_loss");
    out->mtp_loss = number_of(line, "mtp_loss");
    out->grad_norm = number_of(line, "grad_norm");
    json_decref(line);
    return HR_OK;
}

hr_status run_outcome_steps(const train_options *o, run_outcome *out)
{
    *out = (run_outcome){0};
    APP_TRY(hr_app_train_steps(o));
    APP_TRY(whole_state_read(o->out, &out->state));
    hr_status st = read_metrics(o, out);
    if (st < 0)
        run_outcome_fini(out);
    return st;
}

void run_outcome_fini(run_outcome *r)
{
    whole_state_fini(&r->state);
    *r = (run_outcome){0};
}

static int find_kept(const train_options *o)
{
    for (int i = 0; i < n_kept; i++)
        if (memcmp(&kept[i].model, &o->model, sizeof o->model) == 0 &&
            kept[i].loss_scale == o->loss_scale &&
            kept[i].micro_batch_size == o->micro_batch_size &&
            kept[i].global_batch_size == o->global_batch_size)
            return i;
    return n_kept;
}

const run_outcome *run_outcome_on_one_rank(const train_options *like)
{
    int i = find_kept(like);
    train_options o;
    if (i < n_kept)
        return &kept[i].run;
    hr_status st = n_kept < MOST_MODELS
                       ? options_on_one_rank(&o, like)
                       : hr_fail(HR_ERR_INVALID, "run_outcome", "too many models");
    if (st < 0)
        return NULL;
    st = run_outcome_steps(&o, &kept[i].run);
    train_case_fini(&o);
    if (st < 0)
        return NULL;
    kept[i].model = o.model;
    kept[i].loss_scale = o.loss_scale;
    kept[i].micro_batch_size = o.micro_batch_size;
    kept[i].global_batch_size = o.global_batch_size;
    n_kept++;
    return &kept[i].run;
}

void run_outcome_forget(void)
{
    while (n_kept > 0)
        run_outcome_fini(&kept[--n_kept].run);
}

/* ---- comparison ---------------------------------------------------------------------------- */

bool run_outcome_same(const run_outcome *a, const run_outcome *b)
{
    return a->state.n_bytes == b->state.n_bytes &&
           memcmp(a->state.bytes, b->state.bytes, a->state.n_bytes) == 0;
}

/* A tenth of the gradient. */
static bool is_moment(const char *name)
{
    size_t n = strlen(name);
    return n > 7 && strcmp(name + n - 7, ".adam_m") == 0;
}

/* Worst relative distance of a gradient. Of the rest, which a tiny gradient's sign may move, a coarse one
 * is enough to show that it is there. INFINITY where something is missing. */
static double distance(const run_outcome *a, const run_outcome *b, const char **where)
{
    double worst = 0;
    int moments = 0;
    *where = "the number of gradients";
    for (int i = 0; i < b->state.n; i++) {
        const whole_tensor *t = &b->state.list[i];
        const whole_tensor *u = whole_state_find(&a->state, t->name);
        bool there = u && u->count == t->count;
        double d = there ? train_case_distance(u->data, t->data, t->count) *
                               (is_moment(t->name) ? 1 : LIMIT / COARSE)
                         : (double)INFINITY;
        moments += is_moment(t->name);
        if (!(d <= worst)) {
            worst = d;
            *where = t->name;
        }
    }
    return moments > 10 ? worst : (double)INFINITY;
}

static hr_status near(const char *what, double got, double want)
{
    if (fabs(got - want) <= LIMIT * fabs(want))
        return HR_OK;
    return hr_fail(HR_ERR_MISMATCH, "run_outcome", "%s %.9g, and not %.9g", what, got,
                   want);
}

hr_status run_outcome_near(const run_outcome *got, const run_outcome *want,
                           double *worst)
{
    const char *where;
    double d = distance(got, want, &where);
    if (worst)
        *worst = d;
    if (!(d <= LIMIT))
        return hr_fail(HR_ERR_MISMATCH, "run_outcome", "distance %.2e of %s", d, where);
    APP_TRY(near("loss", got->loss, want->loss));
    APP_TRY(near("load-balance loss", got->aux_loss, want->aux_loss));
    APP_TRY(near("loss ahead", got->mtp_loss, want->mtp_loss));
    return near("gradient norm", got->grad_norm, want->grad_norm);
}
