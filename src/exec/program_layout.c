/* Laying out a rank's order: which cell each tensor stands in, which event says that it has left,
 * found by going through the order once with lists of what is free. */
#include "base/try.h"
#include "exec/exec_impl.h"

#include <stdlib.h>
#include <string.h>

/* Of one stage of this rank and microbatch. */
typedef struct spot {
    int in, grad;  /* cells: input, gradient of the output */
    int out, back; /* cells until they are sent: output, gradient of the input */
    int left;      /* event: the output has left */
    bool split;
} spot;

typedef struct layout {
    hr_program *p;
    const hr_schedule *s;
    const hr_action *a; /* the order */
    size_t n;
    spot *spot;                 /* [n_stages * microbatches] */
    int *free_cell, *free_left; /* stacks */
    int n_free_cell, n_free_left;
} layout;

static spot *spot_of(const layout *w, int mine, int microbatch)
{
    return &w->spot[mine * w->p->microbatches + microbatch];
}

/* A number that is free, else a new one. */
static int take(int *stack, int *free_ones, int *made)
{
    return *free_ones > 0 ? stack[--*free_ones] : (*made)++;
}

static int take_cell(layout *w)
{
    return take(w->free_cell, &w->n_free_cell, &w->p->n_cells);
}

static void free_cell(layout *w, int cell)
{
    if (cell != HR__NONE)
        w->free_cell[w->n_free_cell++] = cell;
}

/* ---- what this rank has to have ------------------------------------------------------------ */
static hr_status no_stage(const layout *w, int stage, const char *what)
{
    return hr_fail(HR_ERR_INVALID, "exec_stage",
                   "stage %d of %d (%d ranks, %d microbatches) %s", stage, w->p->stages,
                   w->p->ranks, w->p->microbatches, what);
}

static hr_status check_functions(const layout *w, const hr_action *a)
{
    int mine = hr__stage_of(w->p->e, a->stage);
    if (mine == HR__NONE)
        return no_stage(w, a->stage, "is on this rank, which has no functions for it");
    const hr_exec_stage *f = &w->p->e->stage[mine];
    if (a->kind == HR_ACTION_B && !f->backward)
        return no_stage(w, a->stage, "has no backward");
    if ((a->kind == HR_ACTION_I || a->kind == HR_ACTION_W) &&
        (!f->input_grad || !f->weight_grad))
        return hr_fail(HR_ERR_INVALID, "exec_split",
                       "the schedule splits backward in input and weight gradient, "
                       "stage %d does not",
                       a->stage);
    return HR_OK;
}

static hr_status check_stages(const layout *w)
{
    hr_exec *e = w->p->e;
    for (size_t i = 0; i < w->n; i++)
        HR_TRY(check_functions(w, &w->a[i]));
    for (int k = 0; k < e->n_stages; k++) {
        bool found = false;
        for (size_t i = 0; i < w->n && !found; i++)
            found = w->a[i].stage == e->stage[k].stage;
        if (!found)
            return no_stage(w, e->stage[k].stage,
                            "is not on this rank, which has functions for it");
    }
    return HR_OK;
}

/* ---- one action after the other ------------------------------------------------------------ */
/* The rank that runs `stage`; HR__NONE past the ends of the model. */
static int user(const layout *w, int stage, int microbatch)
{
    if (stage < 0 || stage >= w->p->stages)
        return HR__NONE;
    return hr_schedule_rank_of(w->s, stage, microbatch);
}

/* The cell of what `a` makes for `stage`; where that is on this rank, the one it takes it from. */
static int out_cell(layout *w, const hr_action *a, bool back)
{
    int stage = back ? a->stage - 1 : a->stage + 1;
    int rank = user(w, stage, a->microbatch);
    if (rank == HR__NONE)
        return HR__NONE;
    int cell = take_cell(w);
    const hr_exec *e = w->p->e;
    bool own = rank == e->rank;
    spot *s = spot_of(w, hr__stage_of(e, own ? stage : a->stage), a->microbatch);
    if (own)
        *(back ? &s->grad : &s->in) = cell;
    else
        *(back ? &s->back : &s->out) = cell;
    return cell;
}

static hr__act *add_act(layout *w, const hr_action *a)
{
    hr__act *act = &w->p->act[w->p->n_acts++];
    int mine = hr__stage_of(w->p->e, a->stage);
    spot *s = spot_of(w, mine, a->microbatch);
    bool back = a->kind == HR_ACTION_B || a->kind == HR_ACTION_I;
    *act = (hr__act){.kind = a->kind,
                     .split = s->split,
                     .mine = mine,
                     .microbatch = a->microbatch,
                     .in = HR__NONE,
                     .out = HR__NONE,
                     .done = HR__NONE,
                     .left = HR__NONE,
                     .send = HR__NONE};
    if (a->kind == HR_ACTION_F)
        act->in = s->in;
    else if (back)
        act->in = s->grad;
    if (back)
        act->left = s->left;
    if (back || (a->kind == HR_ACTION_F && w->p->forward_only))
        act->done = s->in;
    if (a->kind != HR_ACTION_W)
        act->out = out_cell(w, a, back);
    return act;
}

/* What the slot was the last to need. */
static void free_after(layout *w, const hr__act *act)
{
    if (act->kind == HR_ACTION_W || (act->kind == HR_ACTION_F && !w->p->forward_only))
        return;
    spot *s = spot_of(w, act->mine, act->microbatch);
    free_cell(w, act->done);
    if (act->in != act->done)
        free_cell(w, act->in);
    if (act->left != HR__NONE)
        w->free_left[w->n_free_left++] = act->left;
    s->in = s->grad = s->left = HR__NONE;
}

static void add_slot(layout *w, const hr_action *a, int n)
{
    hr_program *p = w->p;
    p->op[p->n_ops++] = (hr__op){.kind = HR__SLOT, .first = p->n_acts, .n = n};
    int first = p->n_acts;
    for (int k = 0; k < n; k++)
        add_act(w, &a[k]);
    for (int k = 0; k < n; k++)
        free_after(w, &p->act[first + k]);
}

/* The slot right before the sends that the operation `at` ends may send from a hook. */
static void send_early(layout *w, int at, int cell)
{
    hr_program *p = w->p;
    int slot = at - 1;
    while (slot >= 0 && p->op[slot].kind == HR__SEND)
        slot--;
    if (slot < 0 || p->op[slot].kind != HR__SLOT)
        return;
    for (int k = 0; k < p->op[slot].n; k++)
        if (p->act[p->op[slot].first + k].out == cell)
            p->act[p->op[slot].first + k].send = at;
}

static void add_send(layout *w, const hr_action *a, hr__op *op)
{
    spot *s = spot_of(w, op->mine, a->microbatch);
    int to = user(w, op->back ? a->stage - 1 : a->stage + 1, a->microbatch);
    op->kind = HR__SEND;
    op->wire = hr__wire_of(w->p->e, w->p->e->rank, to);
    op->cell = op->back ? s->back : s->out;
    if (!op->back && !w->p->forward_only)
        s->left = op->leaves = take(w->free_left, &w->n_free_left, &w->p->n_left);
    send_early(w, w->p->n_ops - 1, op->cell);
    free_cell(w, op->cell);
    *(op->back ? &s->back : &s->out) = HR__NONE;
}

static void add_recv(layout *w, const hr_action *a, hr__op *op)
{
    spot *s = spot_of(w, op->mine, a->microbatch);
    int from = user(w, op->back ? a->stage + 1 : a->stage - 1, a->microbatch);
    op->kind = HR__RECV;
    op->wire = hr__wire_of(w->p->e, from, w->p->e->rank);
    op->cell = take_cell(w);
    *(op->back ? &s->grad : &s->in) = op->cell;
}

static void add_other(layout *w, const hr_action *a)
{
    hr__op *op = &w->p->op[w->p->n_ops++];
    *op = (hr__op){.kind = HR__REDUCE,
                   .mine = hr__stage_of(w->p->e, a->stage),
                   .microbatch = a->microbatch,
                   .back = a->kind == HR_ACTION_SEND_B || a->kind == HR_ACTION_RECV_B,
                   .cell = HR__NONE,
                   .wire = HR__NONE,
                   .leaves = HR__NONE};
    if (a->kind == HR_ACTION_SEND_F || a->kind == HR_ACTION_SEND_B)
        add_send(w, a, op);
    else if (a->kind == HR_ACTION_RECV_F || a->kind == HR_ACTION_RECV_B)
        add_recv(w, a, op);
}

static void go_through(layout *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->a[i].kind == HR_ACTION_I)
            spot_of(w, hr__stage_of(w->p->e, w->a[i].stage), w->a[i].microbatch)
                ->split = true;
    for (size_t i = 0; i < w->n;) {
        int n = w->a[i].pair ? w->a[i].pair : 1;
        if (w->a[i].kind <= HR_ACTION_W)
            add_slot(w, &w->a[i], n);
        else
            add_other(w, &w->a[i]);
        i += (size_t)n;
    }
}

/* ---- memory -------------------------------------------------------------------------------- */
static bool get_lists(layout *w)
{
    hr_program *p = w->p;
    size_t spots = (size_t)p->e->n_stages * (size_t)p->microbatches;
    p->op = calloc(w->n + 1, sizeof *p->op);
    p->act = calloc(w->n + 1, sizeof *p->act);
    p->tokens = calloc((size_t)p->microbatches, sizeof *p->tokens);
    w->spot = calloc(spots + 1, sizeof *w->spot);
    w->free_cell = calloc(2 * w->n + 1, sizeof *w->free_cell);
    w->free_left = calloc(w->n + 1, sizeof *w->free_left);
    for (size_t i = 0; w->spot && i < spots; i++)
        w->spot[i] = (spot){HR__NONE, HR__NONE, HR__NONE, HR__NONE, HR__NONE, false};
    return p->op && p->act && p->tokens && w->spot && w->free_cell && w->free_left;
}

static hr_status get_events(hr_program *p)
{
    p->cell = calloc((size_t)p->n_cells + 1, sizeof *p->cell);
    p->left = calloc((size_t)p->n_left + 1, sizeof(hr_event *));
    if (!p->cell || !p->left)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a program");
    for (int i = 0; i < p->n_cells; i++) {
        p->cell[i].wire = HR__NONE;
        HR_TRY(hr_event_create(p->e->dev, &p->cell[i].there));
    }
    for (int i = 0; i < p->n_left; i++)
        HR_TRY(hr_event_create(p->e->dev, &p->left[i]));
    return HR_OK;
}

static hr_status lay_out(layout *w)
{
    HR_TRY(check_stages(w));
    if (!get_lists(w))
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for a program");
    go_through(w);
    return get_events(w->p);
}

hr_status hr__program_lay_out(hr_program *p, const hr_schedule *s)
{
    layout w = {.p = p, .s = s};
    w.a = hr_schedule_order(s, p->e->rank, &w.n);
    hr_status st = lay_out(&w);
    free(w.spot);
    free(w.free_cell);
    free(w.free_left);
    return st;
}
