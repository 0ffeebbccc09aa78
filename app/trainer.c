/* trainer.c: a whole training run: data, the job of all ranks, and at its end the pictures and a
 * sample. */
#include "checkpoint.h"
#include "commands.h"
#include "headrace/group_mpi.h"
#include "picture_timeline.h"
#include "train.h"
#include "train_compare.h"
#include "train_lanes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPANS_PER_LANE = 1 << 15 };

/* A former run has chosen already, if for other sizes in vain. */
static hr_status take_choice(train_job *job, pipeline *p)
{
    const char *text = hr_app_checkpoint_meta(job->resumed, CHECKPOINT_SCHEDULE);
    bool taken = false;
    if (!text || !p->start[0])
        return HR_OK;
    APP_TRY(hr_app_pipeline_resume(p, text, &taken));
    if (!taken)
        return HR_OK;
    job->choice.bubble = p->bubble;
    job->choice.text = strdup(text);
    if (!job->choice.text)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a schedule");
    return HR_OK;
}

/* It is written behind the last step, which is late to find out that it cannot be. */
static hr_status try_profile(const train_options *o)
{
    hr_file *f;
    if (!o->profile[0])
        return HR_OK;
    APP_TRY(hr_file_begin(o->profile, &f));
    hr_file_discard(f);
    return HR_OK;
}

static hr_status open_input(train_job *job, pipeline *p)
{
    const train_options *o = job->opts;
    APP_TRY(hr_app_data_open(o->data, DATA_CAP, &job->data));
    APP_TRY(hr_app_data_check(job->data, o->model.seq));
    checkpoint_info former = {0};
    if (o->resume)
        APP_TRY(hr_app_checkpoint_resume(o, &former, &job->resumed));
    job->first_step = former.step;
    job->first_updates = former.updates;
    return o->resume ? take_choice(job, p) : HR_OK;
}

static hr_status open_output(train_job *job)
{
    APP_TRY(hr_timeline_create(SPANS_PER_LANE, &job->timeline));
    if (!job->first)
        return HR_OK;
    APP_TRY(hr_app_make_folders(job->opts->out));
    APP_TRY(try_profile(job->opts));
    if (job->choice.text)
        APP_TRY(hr_app_auto_write(job));
    return hr_app_report_create(job, &job->report);
}

static void close_job(train_job *job)
{
    hr_app_report_destroy(job->report);
    hr_timeline_destroy(job->timeline);
    hr_app_checkpoint_close(job->resumed);
    hr_app_data_close(job->data);
    free(job->choice.text);
}

static bool imitates_link(const train_options *o)
{
    return o->link_gbps > 0 || o->link_us > 0;
}

static hr_status run_threads(train_job *job)
{
    const train_options *o = job->opts;
    hr_local_opts local = {HR_INIT(hr_local_opts),
                           .backend = o->device,
                           .cores = o->cores,
                           .timeout_s = o->timeout_s,
                           .link_gbps = o->link_gbps,
                           .link_us = o->link_us,
                           .device = {HR_INIT(hr_device_opts), .check = o->check}};
    return hr_local_run(o->pp * o->dp, &local, hr_app_rank_main, job);
}

/* Ranks that are processes: the same on all, and on how many hosts. */
static hr_status meet(train_job *job, hr_group *world)
{
    int hosts;
    APP_TRY(hr_app_compare(world, job));
    APP_TRY(hr_app_count_hosts(world, &hosts));
    snprintf(job->manner, sizeof job->manner, "as processes over %s on %d host%s",
             hr_mpi_library(NULL), hosts, hosts == 1 ? "" : "s");
    return HR_OK;
}

/* "2 pipeline ranks (1f1b) x 4 data-parallel ranks, 2 of them share experts" */
static void say_ranks(const train_job *job, char *out, size_t room)
{
    const train_options *o = job->opts;
    const pipeline *p = job->pipeline;
    char pipes[128] = "", stages[32] = "";
    if (p->stages != o->pp)
        snprintf(stages, sizeof stages, ", %d stages", p->stages);
    if (p->stages > 1)
        snprintf(pipes, sizeof pipes, "%d pipeline ranks (%s%s) x ", o->pp, p->name,
                 stages);
    if (o->dp > o->ep)
        snprintf(out, room, "%s%d data-parallel ranks, %d share experts", pipes, o->dp,
                 o->ep);
    else
        snprintf(out, room, "%s%d expert ranks", pipes, o->ep);
}

static hr_status draw(const train_job *job)
{
    const train_options *o = job->opts;
    char path[OPTION_PATH + 32], ranks[224], title[320], note[128] = "";
    say_ranks(job, ranks, sizeof ranks);
    snprintf(title, sizeof title, "One step: MoE GPT, %s, %d microbatches, overlap %s",
             ranks, o->microbatches, o->overlap ? "on" : "off");
    if (imitates_link(o))
        snprintf(note, sizeof note, "imitated link, %g Gbit/s and %g us", o->link_gbps,
                 o->link_us);
    picture_timeline pic = {.timeline = job->timeline,
                            .title = title,
                            .link_gbps = o->link_gbps,
                            .link_us = o->link_us};
    for (int png = 0; png < 2; png++) {
        snprintf(path, sizeof path, "%s/timeline.%s", o->out, png ? "png" : "svg");
        APP_TRY(hr_app_picture_timeline(&pic, path));
    }
    snprintf(path, sizeof path, "%s/trace.json", o->out);
    APP_TRY(hr_timeline_write_json(job->timeline, path, note));
    return hr_app_report_finish(job->report);
}

static hr_status write_sample(const train_options *o)
{
    sample_options s = {.length = 400, .temperature = 0.8, .seed = o->seed};
    snprintf(s.checkpoint, sizeof s.checkpoint, "%s", o->out);
    snprintf(s.prompt, sizeof s.prompt, "%s", "/* ");
    int n = snprintf(s.out, sizeof s.out, "%s/sample.txt", o->out);
    if (n >= (int)sizeof s.out)
        return hr_fail(HR_ERR_INVALID, "out", "--out is too long");
    return hr_app_sample(&s);
}

static void say_end(const train_job *job)
{
    const train_options *o = job->opts;
    char ranks[224];
    say_ranks(job, ranks, sizeof ranks);
    printf("%lld steps, %lld tokens a step, %s %s%s\n", (long long)job->steps_done,
           (long long)hr_app_train_tokens(o), ranks, job->manner,
           o->overlap ? ", overlap on" : ", overlap off");
    if (job->transfers[0])
        printf("transfers between GPUs: %s\n", job->transfers);
    if (imitates_link(o))
        printf("link between ranks: imitated, %g Gbit/s and %g us\n", o->link_gbps,
               o->link_us);
    printf("train loss %.4f, validation loss %.4f nats a byte (byte frequencies alone: "
           "%.2f)\n",
           job->last.loss, job->last.val_loss, hr_app_data_baseline(job->data));
    if (!isnan(job->last.hidden))
        printf("communication hidden in the last step: %.0f%%\n",
               100 * job->last.hidden);
    hr_app_auto_say(job);
    if (o->check)
        puts("checked: events order every two uses of memory that conflict");
    printf("wrote metrics.jsonl, loss.svg, timeline.svg, timeline.png, trace.json, "
           "checkpoint/ and sample.txt to %s\n",
           o->out);
}

static hr_status show(const train_job *job)
{
    APP_TRY(draw(job));
    APP_TRY(write_sample(job->opts));
    say_end(job);
    return HR_OK;
}

static hr_status run_process(train_job *job, hr_group *world)
{
    APP_TRY(hr_app_rank_main(world, job));
    return hr_app_lanes_collect(world, job->timeline);
}

static hr_status open_and_run(train_job *job, pipeline *p, hr_group *world)
{
    APP_TRY(open_input(job, p));
    if (world)
        APP_TRY(meet(job, world));
    APP_TRY(open_output(job));
    job->begin_ns = hr_now_ns();
    return world ? run_process(job, world) : run_threads(job);
}

/* `world` NULL: the ranks are threads of this process. */
static hr_status train(const train_options *o, hr_group *world,
                       hr_status (*then)(const train_job *))
{
    pipeline p;
    train_job job = {.opts = o,
                     .pipeline = &p,
                     .first = !world || hr_group_rank(world) == 0,
                     .manner = "as threads"};
    APP_TRY(hr_app_pipeline_make(o, &p));
    hr_status st = open_and_run(&job, &p, world);
    if (st >= 0 && then && job.first)
        st = then(&job);
    if (st < 0 && job.first) /* a save that did not come to its end */
        hr_app_drafts_clean(o->out);
    close_job(&job);
    hr_app_pipeline_fini(&p);
    return st;
}

hr_status hr_app_train(const train_options *o)
{
    return train(o, NULL, show);
}

hr_status hr_app_train_steps(const train_options *o)
{
    return train(o, NULL, NULL);
}

hr_status hr_app_train_rank(const train_options *o, hr_group *world)
{
    return train(o, world, show);
}

hr_status hr_app_train_meet(const train_options *o, hr_group *world)
{
    pipeline p;
    train_job job = {.opts = o, .pipeline = &p};
    APP_TRY(hr_app_pipeline_make(o, &p));
    hr_status st = open_input(&job, &p);
    if (st >= 0)
        st = meet(&job, world);
    close_job(&job);
    hr_app_pipeline_fini(&p);
    return st;
}
