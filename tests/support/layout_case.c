/* layout_case.c: see layout_case.h. After one step the first moment of the optimiser is a tenth of the
 * gradient, clipping aside, so checkpoints are what is compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "checkpoint.h"
#include "option_check.h"
#include "support/layout_case.h"
#include "support/train_case.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 8, MOST_WORDS = 48, MOST_MODELS = 32 };
static const double LIMIT = 1e-5, COARSE = 1e-2;
static const char MODEL[] = "checkpoint/model.safetensors";

/* What a run left. */
typedef struct outcome {
    model_shape model;
    int loss_scale, micro_batch_size;
    char *bytes; /* of the checkpoint */
    size_t n;
    safetensors *file;
    double loss, aux_loss, mtp_loss, grad_norm;
} outcome;

static outcome kept[MOST_MODELS];
static int n_kept;

/* ---- options ------------------------------------------------------------------------------- */

static void parse(train_options *o, const char *line, option_set *given)
{
    char copy[512], *argv[MOST_WORDS], *rest = NULL;
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        argv[argc++] = w;
    if (hr_app_option_parse(&hr_app_train_table, argc, argv, o, given) < 0)
        fail_msg("%s: %s", line, hr_last_error());
}

static void fresh(train_options *o, const char *line)
{
    option_set given = 0;
    train_case_init(o, 1, 1, 1);
    o->model.layers = 5;
    o->clip = 0;
    o->eval_batches = 4;
    o->dp = 0;
    parse(o, line, &given);
    o->global_batch_size = SEQUENCES;
    if (hr_app_check_train(o, given) < 0)
        fail_msg("%s: %s", line, hr_last_error());
}

/* The same model and sequences on one rank, one microbatch after the other. */
static void fresh_on_one_rank(train_options *o, const train_options *like)
{
    fresh(o, "");
    o->model = like->model;
    o->loss_scale = like->loss_scale;
    o->micro_batch_size = like->micro_batch_size;
    o->microbatches = SEQUENCES / like->micro_batch_size;
    o->overlap = 0;
}

/* ---- runs ---------------------------------------------------------------------------------- */

static double first_number(const train_options *o, const char *key)
{
    size_t n;
    char *text = train_case_read(o, "metrics.jsonl", &n);
    assert_non_null(text);
    text[strcspn(text, "\n")] = '\0';
    json_t *j = json_loads(text, 0, NULL);
    double value = json_number_value(json_object_get(j, key));
    json_decref(j);
    free(text);
    return value;
}

static void run(const train_options *o, const char *what, outcome *out)
{
    checkpoint_info info;
    if (hr_app_train(o) < 0 || hr_app_checkpoint_open(o->out, &info, &out->file) < 0)
        fail_msg("%s: %s", what, hr_last_error());
    out->bytes = train_case_read(o, MODEL, &out->n);
    assert_non_null(out->bytes);
    out->model = o->model;
    out->loss_scale = o->loss_scale;
    out->micro_batch_size = o->micro_batch_size;
    out->loss = first_number(o, "loss");
    out->aux_loss = first_number(o, "aux_loss");
    out->mtp_loss = o->model.mtp ? first_number(o, "mtp_loss") : 0;
    out->grad_norm = first_number(o, "grad_norm");
}

static void outcome_fini(outcome *r)
{
    hr_app_safetensors_close(r->file);
    free(r->bytes);
}

static bool is_like(const outcome *r, const train_options *o)
{
    return memcmp(&r->model, &o->model, sizeof o->model) == 0 &&
           r->loss_scale == o->loss_scale && r->micro_batch_size == o->micro_batch_size;
}

static const outcome *on_one_rank(const train_options *like)
{
    for (int i = 0; i < n_kept; i++)
        if (is_like(&kept[i], like))
            return &kept[i];
    train_options o;
    assert_true(n_kept < MOST_MODELS);
    fresh_on_one_rank(&o, like);
    run(&o, "on one rank", &kept[n_kept]);
    train_case_fini(&o);
    return &kept[n_kept++];
}

void layout_case_forget(void)
{
    while (n_kept > 0)
        outcome_fini(&kept[--n_kept]);
}

/* ---- comparison -------------------------------------------------------------------------------- */

/* A tenth of the gradient. */
static bool is_moment(const char *name)
{
    size_t n = strlen(name);
    return n > 7 && strcmp(name + n - 7, ".adam_m") == 0;
}

/* Worst relative distance of a gradient. Of the rest, which a tiny gradient's sign may move, a coarse one
 * is enough to show that it is there. */
static double distance(const outcome *a, const outcome *b, char where[64])
{
    double worst = 0;
    int moments = 0;
    for (int i = 0; i < hr_app_safetensors_count(b->file); i++) {
        const st_tensor *t = hr_app_safetensors_at(b->file, i);
        const st_tensor *u = hr_app_safetensors_find(a->file, t->name);
        int64_t n = 1;
        assert_non_null(u);
        for (int d = 0; d < t->ndim; d++)
            n *= t->shape[d];
        if (t->dtype != ST_F32)
            continue;
        double d = train_case_distance(u->data, t->data, n) *
                   (is_moment(t->name) ? 1 : LIMIT / COARSE);
        moments += is_moment(t->name);
        if (!(d <= worst)) {
            worst = d;
            snprintf(where, 64, "%s", t->name);
        }
    }
    assert_true(moments > 10);
    return worst;
}

static void expect_number(const char *options, const char *what, double got,
                          double want)
{
    if (!(fabs(got - want) <= LIMIT * fabs(want)))
        fail_msg("%s: %s %.9g, and not %.9g", options, what, got, want);
}

static void expect_same(const char *options, const outcome *got, const outcome *want,
                        layout_agrees agrees)
{
    char where[64] = "";
    double d = distance(got, want, where);
    bool same = got->n == want->n && memcmp(got->bytes, want->bytes, got->n) == 0;
    print_message("%-70s %s %.1e %s\n", options, same ? "same bits" : "distance", d,
                  where);
    if (!(d <= LIMIT))
        fail_msg("%s: distance %.2e of %s", options, d, where);
    if (agrees == SAME_BITS && !same)
        fail_msg("%s: other bits, worst in %s", options, where);
    expect_number(options, "loss", got->loss, want->loss);
    expect_number(options, "load-balance loss", got->aux_loss, want->aux_loss);
    expect_number(options, "loss ahead", got->mtp_loss, want->mtp_loss);
    expect_number(options, "gradient norm", got->grad_norm, want->grad_norm);
}

void layout_case_check(const layout_case *c)
{
    train_options o;
    outcome r = {0};
    fresh(&o, c->options);
    const outcome *want = on_one_rank(&o);
    run(&o, c->options, &r);
    train_case_fini(&o);
    expect_same(c->options, &r, want, c->agrees);
    outcome_fini(&r);
}

/* ---- going on ------------------------------------------------------------------------------------ */

/* No cosine that knows the number of steps. */
static void fresh_steps(train_options *o, const char *line, int64_t steps)
{
    fresh(o, line);
    o->steps = steps;
    o->min_lr = o->lr;
}

void layout_case_resume(const char *first, const char *then, layout_agrees agrees)
{
    train_options whole, part, rest;
    outcome want = {0}, got = {0};
    char what[256];
    snprintf(what, sizeof what, "%s, then %s", first, then);
    fresh_steps(&whole, first, 3);
    run(&whole, first, &want);
    fresh_steps(&part, first, 2);
    if (hr_app_train(&part) < 0)
        fail_msg("%s: %s", first, hr_last_error());
    fresh_steps(&rest, then, 3);
    train_case_fini(&rest);
    memcpy(rest.out, part.out, sizeof rest.out);
    rest.resume = 1;
    run(&rest, then, &got);
    expect_same(what, &got, &want, agrees);
    train_case_fini(&whole);
    train_case_fini(&part);
    outcome_fini(&want);
    outcome_fini(&got);
}
