/* train_auto.c: the choice of --schedule auto; see train_auto.h. */
#include "share.h"
#include "train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the search, on rank 0 ------------------------------------------------------------------- */

/* A tick of the schedule is a nanosecond, so that its unit is a millisecond. */
static int64_t ticks(float us, float ranks)
{
    return ranks > 0 ? llround(1e3 * (double)us / (double)ranks) : 0;
}

/* The start gets the costs that were measured, and so does the search. */
static hr_status put_costs(const train_rank *r, const trial_costs *c,
                           hr_schedule *start, hr_stage_cost *cost, hr_optimise_opts *o)
{
    const cost_sum *link = &c->stage[o->costs];
    o->cost = cost;
    o->comm = ticks(link->forward, link->ranks);
    o->pair_discount = (int)c->discount;
    for (int i = 0; i < o->costs; i++) {
        const cost_sum *q = &c->stage[i];
        cost[i] = (hr_stage_cost){.f = ticks(q->forward, q->ranks),
                                  .i = ticks(q->input_grad, q->ranks),
                                  .w = ticks(q->weight_grad, q->ranks),
                                  .recompute = r->job->opts->recompute};
        APP_TRY(hr_schedule_set_cost(start, i, &cost[i]));
    }
    return hr_schedule_set_comm(start, o->comm, o->pair_discount);
}

/* The most that a rank holds in the start is what a rank may hold. */
static hr_status simulate_start(const hr_schedule *start, hr_optimise_opts *o,
                                int64_t *makespan)
{
    hr_figures *f;
    APP_TRY(hr_schedule_simulate(start, NULL, &f));
    *makespan = f->makespan;
    for (int k = 0; k < f->ranks; k++)
        if (f->rank[k].peak_act > o->max_act)
            o->max_act = f->rank[k].peak_act;
    hr_figures_destroy(f);
    return HR_OK;
}

/* Takes `start`, which stays where nothing shorter is found. */
static hr_status search(train_choice *to, hr_optimise_opts *o, hr_schedule *start,
                        hr_schedule **out)
{
    hr_optimise_report said;
    int64_t makespan;
    *out = start;
    APP_TRY(simulate_start(start, o, &makespan));
    to->start_ms = to->found_ms = (double)makespan / (double)HR_TICKS;
    hr_schedule *found;
    APP_TRY(hr_schedule_optimise(o, &found, &said));
    if (said.makespan >= makespan) {
        hr_schedule_destroy(found);
        return HR_OK;
    }
    to->found_ms = (double)said.makespan / (double)HR_TICKS;
    hr_schedule_destroy(start);
    *out = found;
    return HR_OK;
}

static hr_status find(train_rank *r, const trial_costs *c)
{
    const train_options *opts = r->job->opts;
    const pipeline *p = r->job->pipeline;
    train_choice *to = &r->job->choice;
    hr_schedule *s = NULL;
    hr_optimise_opts o = {HR_INIT(hr_optimise_opts),
                          .ranks = p->ranks,
                          .microbatches = p->microbatches,
                          .chunks = p->stages / p->ranks,
                          .placements = 1u << p->placement,
                          .whole_backward = !opts->delay_wgrad,
                          .costs = p->stages,
                          .seed = (uint64_t)opts->seed};
    hr_stage_cost *cost = calloc((size_t)p->stages, sizeof *cost);
    hr_status st = cost ? hr_app_schedule_copy(p->training, &s)
                        : hr_fail(HR_ERR_NOMEM, NULL,
                                  "no memory for the costs of %d "
                                  "stages",
                                  p->stages);
    if (st >= 0)
        st = put_costs(r, c, s, cost, &o);
    if (st >= 0)
        st = search(to, &o, s, &s);
    if (st >= 0)
        st = hr_app_schedule_bubble(s, &to->bubble);
    if (st >= 0)
        st = hr_schedule_print(s, &to->text);
    hr_schedule_destroy(s);
    free(cost);
    return st;
}

/* ---- to all ranks ---------------------------------------------------------------------------- */

/* The executor compares what the ranks load. */
static hr_status go_on_with(train_rank *r, const char *text, size_t bytes)
{
    hr_schedule *s;
    hr_program *next;
    APP_TRY(hr_schedule_parse(text, bytes, &s));
    hr_status st = hr_exec_load(r->exec, s, &next);
    hr_schedule_destroy(s);
    if (st < 0)
        return st;
    hr_program_destroy(r->training);
    r->training = next;
    return HR_OK;
}

static hr_status choose(train_rank *r)
{
    trial_costs c = {0};
    void *text = NULL;
    int64_t bytes;
    bool first = hr_group_rank(r->groups.world) == 0;
    hr_status st = hr_app_trial_costs(r, &c);
    if (st >= 0 && first)
        st = find(r, &c);
    free(c.stage);
    const char *mine = first ? r->job->choice.text : ""; /* rank 0's alone */
    if (st >= 0)
        st = hr_app_share_all(r->groups.world, "schedule", mine,
                              mine ? (int64_t)strlen(mine) : 0, &text, &bytes);
    if (st >= 0)
        st = go_on_with(r, text, (size_t)bytes);
    free(text);
    if (st >= 0 && first)
        st = hr_app_auto_write(r->job);
    return st;
}

hr_status hr_app_auto_step(train_rank *r, double seconds, bool *chose)
{
    train_choice *c = &r->job->choice;
    bool first = hr_group_rank(r->groups.world) == 0;
    if (hr_app_trial_runs(r)) {
        if (first && c->before++ > 0)
            c->before_s += seconds;
        *chose = hr_app_trial_step(r);
        return *chose ? choose(r) : HR_OK;
    }
    if (first && r->trial && c->after++ > 0)
        c->after_s += seconds;
    return HR_OK;
}

/* ---- for people ------------------------------------------------------------------------------ */

hr_status hr_app_auto_write(const train_job *job)
{
    char path[OPTION_PATH + 32];
    hr_file *f;
    snprintf(path, sizeof path, "%s/schedule.txt", job->opts->out);
    APP_TRY(hr_file_begin(path, &f));
    fputs(job->choice.text, hr_file_stream(f));
    return hr_file_commit(f);
}

static double mean_ms(double seconds, int64_t steps)
{
    return steps > 1 ? 1e3 * seconds / (double)(steps - 1) : NAN;
}

void hr_app_auto_say(const train_job *job)
{
    const train_choice *c = &job->choice;
    if (!job->pipeline->start[0])
        return;
    if (!c->text)
        printf("schedule auto: it chooses after %d steps, so all of these were %s\n",
               TRIALS, job->pipeline->start);
    else if (c->found_ms <= 0)
        puts("schedule auto: as the checkpoint has it");
    else
        printf("schedule auto: a step of %s simulated as %.2f ms and measured as %.2f "
               "ms, of schedule.txt as %.2f ms and %.2f ms\n",
               job->pipeline->start, c->start_ms, mean_ms(c->before_s, c->before),
               c->found_ms, mean_ms(c->after_s, c->after));
}
