/* Channels: a group of two and a stream at each end, for each ordered pair of ranks between which
 * a schedule sends. Nothing on one waits for another. */
#include "base/try.h"
#include "exec/exec_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ---------------------------------------------------------------------------------- */
static hr_status wire_init(hr_exec *e, hr__wire *w)
{
    bool sends = w->from == e->rank;
    HR_TRY(hr_stream_create(
        e->dev,
        &(hr_stream_opts){HR_INIT(hr_stream_opts), .name = sends ? "send" : "receive"},
        &w->stream));
    HR_TRY(hr_event_create(e->dev, &w->ready));
    HR_TRY(hr_event_create(e->dev, &w->ended));
    for (int i = 0; i < HR__SENDS_AHEAD; i++)
        HR_TRY(hr_event_create(e->dev, &w->ahead[i]));
    if (e->shape)
        return HR_OK;
    void *there;
    HR_TRY(hr_mem_alloc(w->stream, sizeof *w->shape_there, &there));
    w->shape_there = there;
    return HR_OK;
}

static void wire_fini(hr__wire *w)
{
    hr_group_release(w->group);
    hr_mem_free(w->shape_there, w->stream);
    hr_stream_destroy(w->stream);
    hr_event_destroy(w->ready);
    hr_event_destroy(w->ended);
    for (int i = 0; i < HR__SENDS_AHEAD; i++)
        hr_event_destroy(w->ahead[i]);
}

void hr__channels_fini(hr_exec *e)
{
    for (int i = 0; i < e->n_wires; i++)
        wire_fini(&e->wire[i]);
    free(e->wire);
}

/* An end of a channel that has no group yet. */
static hr_status add_wire(hr_exec *e, int from, int to)
{
    hr__wire *more = realloc(e->wire, (size_t)(e->n_wires + 1) * sizeof *more);
    if (!more)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a channel");
    e->wire = more;
    e->wire[e->n_wires++] = (hr__wire){.from = from, .to = to, .pending = HR__NONE};
    return wire_init(e, &e->wire[e->n_wires - 1]);
}

static int receiver(const hr_schedule *s, const hr_action *a)
{
    int stage = a->kind == HR_ACTION_SEND_F ? a->stage + 1 : a->stage - 1;
    return hr_schedule_rank_of(s, stage, a->microbatch);
}

hr_status hr__channels_prepare(hr_exec *e, const hr_schedule *s, bool *need)
{
    int ranks = e->ranks;
    for (int r = 0; r < ranks; r++) {
        size_t n;
        const hr_action *a = hr_schedule_order(s, r, &n);
        for (size_t i = 0; i < n; i++)
            if (a[i].kind == HR_ACTION_SEND_F || a[i].kind == HR_ACTION_SEND_B)
                need[r * ranks + receiver(s, &a[i])] = true;
    }
    for (int i = 0; i < ranks * ranks; i++)
        if (need[i] && !e->made[i] && (i / ranks == e->rank || i % ranks == e->rank))
            HR_TRY(add_wire(e, i / ranks, i % ranks));
    return HR_OK;
}

void hr__channels_forget(hr_exec *e)
{
    while (e->n_wires > 0) {
        hr__wire *w = &e->wire[e->n_wires - 1];
        if (e->made[w->from * e->ranks + w->to])
            return;
        wire_fini(w);
        e->n_wires--;
    }
}

hr_status hr__channels_join(hr_exec *e, const bool *need)
{
    int ranks = e->ranks;
    for (int i = 0; i < ranks * ranks; i++) {
        const int members[] = {i / ranks, i % ranks};
        hr_group *g;
        if (!need[i] || e->made[i])
            continue;
        HR_TRY(hr_group_create(e->pp, members, 2, &g));
        if (g)
            e->wire[hr__wire_of(e, members[0], members[1])].group = g;
    }
    return HR_OK;
}

void hr__channels_keep(hr_exec *e, const bool *need)
{
    for (int i = 0; i < e->ranks * e->ranks; i++)
        e->made[i] = e->made[i] || need[i];
}

int hr__wire_of(const hr_exec *e, int from, int to)
{
    for (int i = 0; i < e->n_wires; i++)
        if (e->wire[i].from == from && e->wire[i].to == to)
            return i;
    return HR__NONE;
}
