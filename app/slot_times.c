/* The simulator says when each action runs; here they are gathered into slots. */
#include "slot_times.h"
#include "app_try.h"

#include <stdlib.h>

static hr_status make_room(slot_times *t, int ranks, size_t actions)
{
    t->ranks = ranks;
    t->first = calloc((size_t)ranks, sizeof *t->first);
    t->n = calloc((size_t)ranks, sizeof *t->n);
    t->slot = calloc(actions + 1, sizeof *t->slot);
    if (!t->first || !t->n || !t->slot)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to draw %zu actions", actions);
    return HR_OK;
}

/* The slots of `rank`, from place `first` on; returns the place behind them. */
static size_t gather(slot_times *t, const hr_schedule *s, int rank,
                     const hr_slot_time *time, size_t first)
{
    size_t n = 0, at = first;
    const hr_action *order = hr_schedule_order(s, rank, &n);
    for (size_t k = 0; k < n;) {
        int actions = order[k].pair ? order[k].pair : 1;
        int64_t lasts = time[k].end - time[k].start;
        bool computes = order[k].kind <= HR_ACTION_W;
        if (computes)
            t->slot[at++] = (timed_slot){.begin = time[k].start,
                                         .end = time[k].end,
                                         .a = &order[k],
                                         .n = actions};
        if (computes && lasts > 0 && (t->shortest == 0 || lasts < t->shortest))
            t->shortest = lasts;
        k += (size_t)actions;
    }
    t->first[rank] = first;
    t->n[rank] = at - first;
    return at;
}

static void mark_critical(slot_times *t, const hr_schedule *s, const hr_path_step *step)
{
    size_t n = 0, low = t->first[step->rank], high = low + t->n[step->rank];
    const hr_action *wanted = hr_schedule_order(s, step->rank, &n) + step->position;
    while (low < high) { /* slots of a rank lie in the order of their actions */
        size_t mid = low + (high - low) / 2;
        if (t->slot[mid].a == wanted) {
            t->slot[mid].critical = true;
            return;
        }
        if (t->slot[mid].a < wanted)
            low = mid + 1;
        else
            high = mid;
    }
}

hr_status hr_app_slot_times_make(const hr_schedule *s, const hr_figures *f,
                                 slot_times *out)
{
    *out = (slot_times){0};
    hr_status st = make_room(out, f->ranks, hr_schedule_actions(s));
    size_t first = 0;
    if (st < 0) {
        hr_app_slot_times_fini(out);
        return st;
    }
    for (int k = 0; k < f->ranks; k++)
        first = gather(out, s, k, f->rank[k].time, first);
    for (size_t i = 0; i < f->path_steps; i++)
        mark_critical(out, s, &f->path[i]);
    out->makespan = f->makespan;
    return HR_OK;
}

void hr_app_slot_times_fini(slot_times *t)
{
    free(t->first);
    free(t->n);
    free(t->slot);
    *t = (slot_times){0};
}

int hr_app_chunk_of(const hr_schedule_shape *shape, const hr_action *a, int *chunks)
{
    bool both_ways = shape->placement == HR_PLACEMENT_BIDIRECTIONAL;
    *chunks = both_ways ? 2 : shape->stages / shape->ranks;
    return both_ways ? a->microbatch >= shape->microbatches / 2
                     : a->stage / shape->ranks;
}
