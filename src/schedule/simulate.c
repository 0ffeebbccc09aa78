/* The figures of a schedule: times from a replay, peaks from the orders. */
#include "base/try.h" /* HR_TRY */
#include "schedule/check.h"
#include "schedule/critical.h"
#include "schedule/peaks.h"
#include "schedule/replay.h"

#include <stdlib.h>

static void fill(const hr__replay *r, hr_figures *f)
{
    for (int k = 0; k < f->ranks; k++) {
        hr_rank_figures *g = &f->rank[k];
        const hr__rank_state *q = &r->rank[k];
        g->busy = q->busy;
        g->first = q->first < 0 ? 0 : q->first;
        g->last = q->clock;
        g->gaps = q->gaps;
        g->longest_gap = q->longest_gap;
        if (g->last > f->makespan)
            f->makespan = g->last;
        if (g->last - g->first > f->span)
            f->span = g->last - g->first;
        hr__peaks(r->s, k, g);
    }
    for (int k = 0; k < f->ranks && f->makespan > 0; k++)
        f->rank[k].bubble = 1 - (double)f->rank[k].busy / (double)f->makespan;
}

/* Where the replay is to write when each action runs. */
static hr_status keep_times(hr__replay *r, hr_figures *f)
{
    for (int k = 0; k < f->ranks; k++) {
        size_t n = r->s->order[k].n;
        if (n == 0)
            continue;
        f->rank[k].time = r->rank[k].time = calloc(n, sizeof(hr_slot_time));
        if (f->rank[k].time == NULL)
            return hr_fail(HR_ERR_NOMEM, NULL, "no memory for the times of %zu actions",
                           n);
    }
    return HR_OK;
}

static void drop_times(hr_figures *f)
{
    for (int k = 0; k < f->ranks; k++) {
        free(f->rank[k].time);
        f->rank[k].time = NULL;
    }
}

static hr_status run(hr__replay *r, const hr_simulate_opts *o, hr_figures *f)
{
    if (o->queue)
        HR_TRY(hr__replay_queue(r));
    if (o->times || o->path)
        HR_TRY(keep_times(r, f));
    if (!hr__replay_run(r))
        return hr__stall_fail(r);
    fill(r, f);
    if (o->path)
        HR_TRY(hr__critical(r, f));
    if (!o->times)
        drop_times(f);
    return HR_OK;
}

hr_status hr_schedule_simulate(const hr_schedule *s, const hr_simulate_opts *opts,
                               hr_figures **out)
{
    HR_NEED(out);
    *out = NULL;
    HR_NEED(s);
    HR_CHECK_OPTS(opts, hr_simulate_opts);
    hr_simulate_opts o = opts ? *opts : (hr_simulate_opts){HR_INIT(hr_simulate_opts)};
    if (o.blocking && !s->lowered)
        return hr_fail(HR_ERR_INVALID, "not_lowered",
                       "blocking transfers: the schedule has no sends and receives");
    HR_TRY(hr__check_placed(s));
    hr__replay r;
    HR_TRY(hr__replay_init(&r, s, o.split_pairs, o.blocking));
    hr_figures *f = calloc(1, sizeof *f);
    hr_rank_figures *rank = calloc((size_t)s->ranks, sizeof *rank);
    hr_status st = HR_OK;
    if (f == NULL || rank == NULL) {
        free(f);
        free(rank);
        st = hr_fail(HR_ERR_NOMEM, NULL, "no memory for the figures of %d ranks",
                     s->ranks);
    } else {
        *f = (hr_figures){.ranks = s->ranks, .rank = rank};
        st = run(&r, &o, f);
        if (st < 0)
            hr_figures_destroy(f);
        else
            *out = f;
    }
    hr__replay_fini(&r);
    return st;
}

void hr_figures_destroy(hr_figures *f)
{
    if (f == NULL)
        return;
    drop_times(f);
    free(f->path);
    free(f->rank);
    free(f);
}
