/* train_report.c: what a run tells: metrics.jsonl line by line, the progress, the loss curve. Used by
 * rank 0 alone. */
#include "picture_loss.h"
#include "progress.h"
#include "train.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct curve {
    loss_point *at;
    size_t n, cap;
} curve;

struct train_report {
    const train_job *job;
    FILE *metrics;
    char path[OPTION_PATH + 32];
    progress *progress;
    curve train, validation;
};

static hr_status curve_add(curve *c, double step, double loss)
{
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 256;
        loss_point *at = realloc(c->at, cap * sizeof *at);
        if (!at)
            return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the loss curve");
        c->at = at;
        c->cap = cap;
    }
    c->at[c->n++] = (loss_point){step, loss};
    return HR_OK;
}

static hr_status metrics_failed(const train_report *p)
{
    return hr_fail(HR_ERR_IO, NULL, "cannot write '%s': %s", p->path, strerror(errno));
}

/* One line of a former run, if it was of a step up to `last`. */
static bool take_former(train_report *p, const char *line, int64_t last, hr_status *st)
{
    long long step;
    double loss, val_loss;
    int found = sscanf(line, "{\"step\": %lld, \"loss\": %lf", &step, &loss);
    if (found < 1 || step > last || !strchr(line, '\n'))
        return false;
    if (found == 2)
        *st = curve_add(&p->train, (double)step, loss);
    const char *val = strstr(line, "\"val_loss\"");
    if (*st >= 0 && val && sscanf(val, "\"val_loss\": %lf", &val_loss) == 1)
        *st = curve_add(&p->validation, (double)step, val_loss);
    return *st >= 0;
}

/* A resumed run goes on after its checkpoint: steps that will be done again, and a line that was
 * cut, go; the others make the begin of the curve. */
static hr_status keep_former_lines(train_report *p)
{
    char *line = NULL;
    size_t room = 0;
    off_t end = 0;
    hr_status st = HR_OK;
    FILE *f = fopen(p->path, "r+");
    if (!f)
        return errno == ENOENT ? HR_OK : metrics_failed(p);
    for (ssize_t n; (n = getline(&line, &room, f)) > 0; end += n)
        if (!take_former(p, line, p->job->first_step, &st))
            break;
    if (st >= 0 && ftruncate(fileno(f), end) != 0)
        st = metrics_failed(p);
    free(line);
    fclose(f);
    return st;
}

hr_status hr_app_report_create(const train_job *job, train_report **out)
{
    const train_options *o = job->opts;
    *out = NULL;
    train_report *p = calloc(1, sizeof *p);
    if (!p)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the report");
    p->job = job;
    snprintf(p->path, sizeof p->path, "%s/metrics.jsonl", o->out);
    hr_status st = job->first_step ? keep_former_lines(p) : HR_OK;
    if (st >= 0 && !(p->metrics = fopen(p->path, job->first_step ? "a" : "w")))
        st = metrics_failed(p);
    progress_opts opts = {.first = job->first_step, .steps = o->steps, .terminal = -1};
    if (st >= 0)
        st = hr_app_progress_create(&opts, &p->progress);
    if (st < 0) {
        hr_app_report_destroy(p);
        return st;
    }
    *out = p;
    return HR_OK;
}

static double tokens_per_s(const train_report *p, const train_result *res)
{
    return (double)hr_app_train_tokens(p->job->opts) / res->seconds;
}

/* Of the schedule of the step. */
static double simulated_bubble(const train_job *job, const train_result *res)
{
    return job->choice.text && !res->chose ? job->choice.bubble : job->pipeline->bubble;
}

static hr_status write_line(train_report *p, int64_t step, const train_result *res)
{
    char line[512];
    hr_json j;
    hr_json_begin(&j, line, sizeof line);
    hr_json_int(&j, "step", step);
    hr_json_real(&j, "loss", res->loss);
    hr_json_real(&j, "aux_loss", res->aux_loss);
    if (!isnan(res->mtp_loss))
        hr_json_real(&j, "mtp_loss", res->mtp_loss);
    hr_json_real(&j, "grad_norm", res->grad_norm);
    hr_json_real(&j, "lr", res->lr);
    hr_json_real(&j, "tokens_per_s", tokens_per_s(p, res));
    hr_json_real(&j, "comm_hidden", res->hidden);
    hr_json_real(&j, "step_ms", res->seconds * 1e3);
    if (!isnan(res->bubble)) {
        hr_json_real(&j, "bubble", res->bubble);
        hr_json_real(&j, "bubble_simulated", simulated_bubble(p->job, res));
    }
    hr_json_int(&j, "live_bytes", (long long)res->memory.live_bytes);
    hr_json_int(&j, "peak_bytes", (long long)res->memory.peak_bytes);
    if (res->skipped)
        hr_json_bool(&j, "skipped", true);
    if (res->chose)
        hr_json_bool(&j, "chose_schedule", true);
    if (!isnan(res->val_loss))
        hr_json_real(&j, "val_loss", res->val_loss);
    APP_TRY(hr_json_end(&j));
    if (fprintf(p->metrics, "%s\n", line) < 0 || fflush(p->metrics) != 0)
        return metrics_failed(p);
    return HR_OK;
}

hr_status hr_app_report_step(train_report *p, int64_t step, const train_result *res)
{
    APP_TRY(write_line(p, step, res));
    APP_TRY(curve_add(&p->train, (double)step, res->loss));
    progress_tick tick = {.step = step,
                          .loss = res->loss,
                          .tokens_per_s = tokens_per_s(p, res),
                          .comm_hidden = isnan(res->hidden) ? -1 : res->hidden,
                          .time_left_s = -1};
    hr_app_progress_step(p->progress, &tick);
    if (res->skipped)
        hr_app_progress_note(p->progress, "step %lld skipped: the gradient norm is %g",
                             (long long)step, res->grad_norm);
    if (res->chose)
        hr_app_progress_note(p->progress,
                             "step %lld: schedule auto simulated as %.2f ms a step, %s "
                             "as %.2f ms",
                             (long long)step, p->job->choice.found_ms,
                             p->job->pipeline->start, p->job->choice.start_ms);
    if (isnan(res->val_loss))
        return HR_OK;
    hr_app_progress_note(p->progress, "step %lld: validation loss %.4f nats a byte",
                         (long long)step, res->val_loss);
    return curve_add(&p->validation, (double)step, res->val_loss);
}

hr_status hr_app_report_finish(train_report *p)
{
    const train_options *o = p->job->opts;
    char path[OPTION_PATH + 32], subtitle[256];
    snprintf(path, sizeof path, "%s/loss.svg", o->out);
    snprintf(subtitle, sizeof subtitle,
             "MoE GPT: %d layers, width %d, %d experts, top %d; %lld tokens a step",
             o->model.layers, o->model.width, o->model.experts, o->model.top_k,
             (long long)hr_app_train_tokens(o));
    picture_loss pic = {.title = "Loss, nats a byte",
                        .subtitle = subtitle,
                        .train = p->train.at,
                        .n_train = p->train.n,
                        .validation = p->validation.at,
                        .n_validation = p->validation.n,
                        .baseline = hr_app_data_baseline(p->job->data)};
    return hr_app_picture_loss(&pic, path);
}

void hr_app_report_destroy(train_report *p)
{
    if (!p)
        return;
    hr_app_progress_destroy(p->progress);
    if (p->metrics)
        fclose(p->metrics);
    free(p->train.at);
    free(p->validation.at);
    free(p);
}
